"""Pictures of further recorded workloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests.system.tools.test_plot import check_pictures

WORKLOADS = ("mixbench/MI200", "mixbench/MI100", "synth_a/MI300X_A1", "synth_a/MI350", "multikernel/MI200")


@pytest.mark.parametrize("name", WORKLOADS)
def test_real_profiles_give_pictures_in_which_no_text_collides(shared: Path, tmp_path: Path, name: str) -> None:
    check_pictures(shared, tmp_path, name)
