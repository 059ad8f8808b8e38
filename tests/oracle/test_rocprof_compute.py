"""Further recorded folders of rocprof-compute, and all values of its releases 3.3 and 3.8."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.cases.oracle.test_rocprof_compute import LISTED, check_normalisations, check_times, compare
from rooflens.tests.cases.oracle.test_workloads38 import (
    FURTHER_LONG,
    FURTHER_WIDE,
    check_passes,
    check_values,
    recorded,
)

__all__ = ["recorded"]


@pytest.mark.parametrize(("release", "least"), [("3.3", 250_000), ("3.8", 100_000)])
def test_all_values_agree_or_are_listed_and_no_entry_is_left_over(
    release: str, least: int, shared: Path, tmp_path: Path
) -> None:
    found = compare(Store(tmp_path), release)
    entries = LISTED[release]
    print(f"{found.cells} cells compared, {sum(found.used.values())} differ as listed in {len(entries)} entries")
    assert found.unlisted[:20] == []
    assert found.cells > least
    assert [entry["ids"] for i, entry in enumerate(entries) if not found.used[i]] == [], "entries that no longer differ"


@pytest.mark.parametrize("long", FURTHER_LONG, ids=lambda row: row[0])
def test_a_folder_just_profiled_holds_every_value_of_its_files(recorded, long):
    check_values(recorded, *long)


@pytest.mark.parametrize("wide", FURTHER_WIDE, ids=lambda row: row[0])
def test_a_folder_with_a_row_per_launch_is_read_as_before(recorded, wide):
    check_passes(recorded, *wide)


def test_further_values_are_normalised_alike_and_times_are_of_the_pass(shared: Path, tmp_path: Path) -> None:
    check_normalisations("3.8", "vcopy__MI350.csv.gz", tmp_path / "norms")
    check_times("vcopy__MI100", 20640, 20640, shared, tmp_path)
