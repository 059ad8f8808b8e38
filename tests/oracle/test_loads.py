"""Roofline and diagnosis say the same of every recorded kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests import SHARED
from rooflens.tests.system.tools.test_published_gpus import check_page
from rooflens.tests.unit.analysis.rooflines.test_loads import HERE, SAMPLES, check_agreement


def profiles() -> list[Path]:
    """One profile of each shared case and device family, all of 2026, and the labelled kernels."""
    cases = sorted(path for path in (SHARED / "workloads").glob("*") if path.is_dir())
    first = [path for case in cases for path in sorted(p for p in case.iterdir() if p.is_dir())[:1]]
    return [*first, *sorted(path for path in (SHARED / "workloads38").glob("*") if path.is_dir()),
            SHARED / "ncu" / "h200_labelled_raw.csv"]  # fmt: skip


@pytest.mark.parametrize(
    "path", [path for path in (*SAMPLES, *profiles()) if path not in HERE], ids=lambda p: "/".join(p.parts[-2:])
)
def test_roofline_and_diagnosis_say_the_same_of_every_recorded_kernel(path: Path, tmp_path: Path) -> None:
    check_agreement(path, tmp_path)


def test_another_page_of_a_b200_has_its_own_times_occupancy_and_loads(shared: Path, tmp_path: Path) -> None:
    assert check_page("flashinfer_paged_decode__gqa_bf16_b128_ctx2k_p64", shared, tmp_path)
