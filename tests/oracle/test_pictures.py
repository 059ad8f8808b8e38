"""Pictures of further recorded workloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests.system.tools.test_plot import check_pictures
from rooflens.tests.unit.analysis.plot.test_plot import OTHERS, PICTURES, SHOWN, check_texts

WORKLOADS = ("mixbench/MI200", "mixbench/MI100", "synth_a/MI300X_A1", "synth_a/MI350", "multikernel/MI200")


@pytest.mark.parametrize("name", WORKLOADS)
def test_real_profiles_give_pictures_in_which_no_text_collides(shared: Path, tmp_path: Path, name: str) -> None:
    check_pictures(shared, tmp_path, name)


@pytest.mark.parametrize("name", [name for name in (*PICTURES, *OTHERS) if name not in SHOWN])
def test_no_text_leaves_the_figure_or_covers_another(name: str) -> None:
    check_texts(name)
