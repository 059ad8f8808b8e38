"""The accounts of every recorded profile: their parts add up, or are told to be contradictory."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests import SHARED
from rooflens.tests.unit.analysis.diagnosis.test_account import check_accounts

FOLDERS = ("workloads", "workloads38", "ncu", "rocprofv3", "pc_sampling", "source_lines", "public")
ENDINGS = (".csv", ".csv.gz", ".ncu-rep", ".ncu-rep.gz", ".db", "ncu_metrics.json")
OF_OTHER_TOOLS = {"tracelens", "hta"}
"""Traces of PyTorch and tables computed from them: they have no counters."""
WITH_COUNTERS = ("workloads", "workloads38", "ncu")


def profiles(folder: Path) -> list[Path]:
    """Every profile in a folder: the folders of a profiler's output files, and single files that contain counters."""
    if folder.name.startswith("workloads"):
        return sorted({path.parent for path in folder.rglob("*") if path.suffix in (".csv", ".db")})
    files = [path for path in sorted(folder.rglob("*")) if path.name.endswith(ENDINGS)]
    return [path for path in files if not OF_OTHER_TOOLS & set(path.parts)]


EVERY = [path for folder in FOLDERS for path in profiles(SHARED / folder)]


@pytest.mark.parametrize("path", EVERY, ids=lambda p: "/".join(p.parts[-2:]))
def test_the_accounts_of_every_recorded_profile_add_up_or_are_contradictory(path: Path, tmp_path: Path) -> None:
    check_accounts(tmp_path, path)


@pytest.mark.parametrize("folder", WITH_COUNTERS)
def test_profiles_with_counters_have_accounts(folder: str, tmp_path: Path) -> None:
    if not (SHARED / folder).is_dir():
        pytest.skip(f"needs {folder} of ../shared")
    every = profiles(SHARED / folder)[::12]
    assert any(check_accounts(tmp_path / str(number), path) for number, path in enumerate(every))
