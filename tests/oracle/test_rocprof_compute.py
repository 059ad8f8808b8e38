"""Further recorded folders of rocprof-compute, and the values of its release 3.3."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests.cases.oracle.test_rocprof_compute import check_release
from rooflens.tests.cases.oracle.test_workloads38 import FURTHER_LONG, FURTHER_WIDE, check_passes, check_values


def test_all_values_of_release_3_3_agree_or_are_listed(shared: Path, tmp_path: Path) -> None:
    check_release("3.3", 250_000, tmp_path)


@pytest.mark.parametrize("long", FURTHER_LONG, ids=lambda row: row[0])
def test_a_folder_just_profiled_holds_every_value_of_its_files(bench, shared, long):
    check_values(bench, shared, *long)


@pytest.mark.parametrize("wide", FURTHER_WIDE, ids=lambda row: row[0])
def test_a_folder_with_a_row_per_launch_is_read_as_before(bench, shared, wide):
    check_passes(bench, shared, *wide)
