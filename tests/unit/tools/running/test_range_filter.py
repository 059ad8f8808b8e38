"""Filters of launches: ranges by name and path with those inside, and what a profiler could stumble over."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.tools.running.range_filter import range_condition
from rooflens.tools.running.request import ProfileRequest, checked_pattern, launch_range

PATHS = ["step", "step/forward", "step/forward/block/1", "step/backward", "stepper", "warm-up/step", "idle"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One launch in every range but the last, and one in none; dispatch n is of range n."""
    rows = ", ".join(f"({i}, '{path.rpartition('/')[2]}', '{path}')" for i, path in enumerate(PATHS))
    duckdb.sql(f"SELECT * FROM (VALUES {rows}) v(range_id, name, path)").write_parquet(str(tmp_path / "ranges.parquet"))
    launched = ", ".join([*(f"({i}, {i})" for i in range(len(PATHS) - 1)), "(99, NULL)"])
    duckdb.sql(f"SELECT * FROM (VALUES {launched}) v(dispatch_id, range_id)").write_parquet(
        str(tmp_path / "dispatches.parquet")
    )
    return tmp_path


@pytest.mark.parametrize(
    ("name", "launches"),
    [("step", {0, 1, 2, 3, 5}), ("forward", {1, 2}), ("step/forward", {1, 2}), ("block/1", {2}), ("stepper", {4})],
)
def test_a_range_holds_its_launches_and_those_of_ranges_within_it(folder: Path, name: str, launches: set[int]) -> None:
    with connect() as con:
        held = range_condition(con, folder, name)
        rows = con.execute(f"SELECT dispatch_id FROM '{folder}/dispatches.parquet' WHERE {held}").fetchall()
    assert {row[0] for row in rows} == launches


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("forwards", "Near names: forward,"),
        ("idle", "No kernel was launched in range 'idle'"),
        ("it's\x1b[31m", "has no range"),
    ],
)
def test_a_range_that_launched_nothing_is_told(folder: Path, name: str, told: str) -> None:
    with connect() as con, pytest.raises(NotFound) as problem:
        range_condition(con, folder, name)
    assert told in problem.value.text and "\x1b" not in problem.value.text


def test_without_ranges_there_is_none(tmp_path: Path) -> None:
    with connect() as con, pytest.raises(NotFound, match="No range was recorded"):
        range_condition(con, tmp_path, "step")


@pytest.mark.parametrize("pattern", ["gemm", r"^void mul<\w+>\(", "a|b", "(?:x|y)+?", "(?=x)", "-k"])
def test_expressions_that_every_profiler_reads_alike_pass_unchanged(pattern: str) -> None:
    assert checked_pattern(ProfileRequest(("a",), kernel=pattern), "rocprofv3") == pattern


@pytest.mark.parametrize("pattern", ["(", "*x", "(?i)x", "(?P<n>x)", "(?<=x)y", r"\Ax", "x++", "", "a\nb", "x" * 1001])
def test_expressions_that_would_abort_the_profiler_are_refused(pattern: str) -> None:
    with pytest.raises(BadArgument):
        checked_pattern(ProfileRequest(("a",), kernel=pattern), "rocprofv3")


@pytest.mark.parametrize("launches", [[0, 1], [3, 2], [1, 2**31], [], [4]])
def test_launch_ranges_count_from_one_and_do_not_run_backwards(launches: list[int]) -> None:
    with pytest.raises(BadArgument, match="is not a valid range"):
        launch_range(launches)
    assert launch_range([2, 2]) == (2, 2) and launch_range(5) is launch_range(None) is None
