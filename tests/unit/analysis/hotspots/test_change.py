"""Which lines lost or gained samples between two versions, and when that is chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.hotspots.profile_changes import LineChanges, changes
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.made.source_page import page
from rooflens.tools.import_profile import import_profile

HEADER = ["Address", "Source", "File", "Line", "# Samples", "Instructions Executed", "stall_wait", "stall_barrier"]


def version(tmp_path: Path, name: str, rows: list[list[Any]], header: list[str] | None = None) -> Workload:
    file = tmp_path / f"{name}.csv"
    file.write_text(page(("k", rows), header=header or HEADER))
    store = Store(tmp_path / "store")
    import_profile(store, str(file), name=name)
    return Workload.open(store, name)


def lines(counts: dict[int, int]) -> list[list[Any]]:
    """A kernel with an instruction on each line."""
    places = enumerate(counts.items())
    return [[hex(16 * i), f"      FADD R{i}, R1, R2", "/src/a.cu", line, n, 1, n, 0] for i, (line, n) in places]


def told(found: LineChanges | None) -> dict[str, str]:
    assert found is not None
    return {row.place.split(" ")[0]: row.verdict for row in found.lines}


def test_a_line_that_lost_its_samples_is_told_with_what_gained_them(tmp_path: Path) -> None:
    with (
        version(tmp_path, "before", lines({10: 900, 11: 100})) as before,
        version(tmp_path, "after", lines({10: 100, 11: 100})) as after,
    ):
        found = changes(before, "k", after, "k")
    assert told(found) == {"a.cu:10": "lost", "a.cu:11": "gained"}
    assert found is not None and found.how == "line" and not found.few
    assert found.lines[0].difference == pytest.approx(-40)
    assert found.lines[0].interval
    low, high = found.lines[0].interval
    assert low < -40 < high < 0


def test_a_difference_within_the_error_of_sampling_is_the_same(tmp_path: Path) -> None:
    with (
        version(tmp_path, "before", lines({10: 6, 11: 6})) as before,
        version(tmp_path, "after", lines({10: 8, 11: 4})) as after,
    ):
        found = changes(before, "k", after, "k")
    assert set(told(found).values()) == {"same"}
    assert found is not None and found.few


def test_a_line_of_one_version_alone_is_gained_from_nothing(tmp_path: Path) -> None:
    with (
        version(tmp_path, "before", lines({10: 500})) as before,
        version(tmp_path, "after", lines({10: 250, 99: 250})) as after,
    ):
        found = changes(before, "k", after, "k")
    assert told(found) == {"a.cu:10": "lost", "a.cu:99": "gained"}


def test_without_lines_instructions_are_matched_whatever_their_registers(tmp_path: Path) -> None:
    header = ["Address", "Source", "# Samples", "Instructions Executed", "stall_wait"]
    first = [[hex(0), "      FADD R1, R2, R3", 900, 1, 900], [hex(16), "      FMUL R4, R5, 0x10", 100, 1, 100]]
    second = [[hex(0), "      FMUL R7, R8, 0x20", 900, 1, 900], [hex(16), "      FADD R9, R2, R3", 100, 1, 100]]
    with (
        version(tmp_path, "before", first, header) as before,
        version(tmp_path, "after", second, header) as after,
    ):
        found = changes(before, "k", after, "k")
    assert found is not None and found.how == "instruction"
    assert {row.place.split(" ")[1]: round(row.difference) for row in found.lines} == {"FADD": -80, "FMUL": 80}


def test_a_kernel_that_was_not_sampled_in_both_is_not_compared(tmp_path: Path, samples: Store) -> None:
    with version(tmp_path, "after", lines({10: 500})) as after, Workload.open(samples, "yax_before") as before:
        assert changes(before, "yax", after, "k") is None
        assert changes(after, "k", after, "other") is None


def test_the_same_report_has_no_changes(labelled: Store) -> None:
    with Workload.open(labelled, "labelled") as opened:
        kernel = next(k for k in opened.kernels if "spill" in k)
        found = changes(opened, kernel, opened, kernel)
    assert found is not None and found.how == "text"
    assert {row.verdict for row in found.lines} == {"same"}
