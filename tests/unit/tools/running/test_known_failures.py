"""What profilers print when they fail, recognised."""

from __future__ import annotations

import csv

import pytest

from rooflens.tests import DATA
from rooflens.tools.running.drivers.registry import profilers
from rooflens.tools.running.known_failures import (
    EVERYTHING,
    PROGRAM,
    explain_failure,
    version_defects,
)


def rows(file: str) -> list[dict[str, str]]:
    """A table of tests/data."""
    with (DATA / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


@pytest.mark.parametrize("row", rows("known_failures.csv"), ids=lambda row: row["printed"][:40])
def test_what_profilers_and_programs_print_when_they_fail_is_told_with_the_fix(row: dict[str, str]) -> None:
    said = explain_failure(
        row["program"], 1, f"some line before\n{row['printed']}\nand after\n", {"interpreter": "/usr/bin/python"}
    )
    assert said is not None and type(said).__name__ == row["kind"] and said.fix and row["told"] in said.text
    if row["program"] == PROGRAM:
        assert explain_failure(PROGRAM, 0, row["printed"], {"interpreter": ""}) is None


def test_what_programs_say_of_themselves_is_not_explained_away() -> None:
    for name in profilers():
        assert explain_failure(name, 139, "Segmentation fault (core dumped)\nerror: bad input\n") is None
        assert explain_failure(name, 0, "my app: No such file or directory: 'x', HSA_STATUS_ERROR in the log") is None
    for text in ("ValueError: x", "Segmentation fault", "kernel not found in cache", "loss: not a number"):
        assert explain_failure(PROGRAM, 1, text) is None
    before = "==ERROR== The application returned an error code (1).\n==WARNING== No kernels were profiled.\n"
    assert explain_failure("ncu", 1, before) is None, "not that no kernel fits the filter"


def test_texts_of_the_output_are_made_plain_and_only_the_end_of_much_is_read() -> None:
    said = explain_failure("perf", 129, "event syntax error: 'no\x1b[31msuch'\n")
    assert said is not None
    assert "\x1b" not in said.text
    assert explain_failure("perf", 1, "event syntax error: 'x'\n" + "y" * 300_000) is None


@pytest.mark.parametrize("row", rows("known_defects.csv"), ids=lambda row: " ".join(row.values())[:60])
def test_the_known_defects_of_a_version_are_those_that_a_run_can_meet(row: dict[str, str]) -> None:
    version, collects = row["version"] or None, row["collects"]
    defects = version_defects(
        "rocprofv3", version, targets=row["targets"].split(), command=row["command"],
        collects=EVERYTHING if collects == "everything" else frozenset(collects.split()),
    )  # fmt: skip
    assert {defect.code for defect in defects} == set(row["codes"].split())
    for defect in defects:
        told = defect.text("rocprofv3", version)
        assert defect.source in told and (f"Mended in {defect.mended}" in told or not defect.mended)


def test_a_profiler_of_an_unknown_version_has_the_defects_of_all_versions() -> None:
    assert [defect.code for defect in version_defects("rocprofv2", None)] == ["launches_missing"]
    assert version_defects("torch", None) == [] and version_defects("ncu", "2026.1") == []
