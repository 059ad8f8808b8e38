"""Tables in text, aligned for a terminal and no wider than it."""

from __future__ import annotations

import pytest

from rooflens.server.terminal.tables import TerminalTables


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    lines = TerminalTables()(["name", "ms"], [["a", "1.5"], ["longer", "12"], ["a|b", ""]], [False, False])
    assert lines == ["name     ms", "------  ---", "a       1.5", "longer   12", "a|b"]


def test_a_long_name_is_shortened_in_the_middle_where_its_table_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "begin_" + "x" * 70 + "_end"
    monkeypatch.setenv("COLUMNS", "200")
    assert TerminalTables()(["kernel", "ms"], [[name, "1"]], [False, False])[2] == f"{name}   1"
    monkeypatch.setenv("COLUMNS", "80")
    (_, _, row) = TerminalTables()(["kernel", "ms"], [[name, "1"]], [False, False])
    assert len(row) == 60 + len("   1") and row.startswith("begin_") and "…" in row and row.endswith("_end   1")


def test_the_last_columns_go_first_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    lines = TerminalTables()(
        ["kernel", "text", "ms", "a", "b"], [["k", "some words", "1", "222222", "333333"]], [False] * 5
    )
    assert lines == [
        "kernel  ms",
        "------  --",
        "k        1",
        "(text, a, b: too wide to show here; --json has them)",
    ]


def test_minor_columns_go_before_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    head, row = ["kernel", "ms", "minor", "verdict"], ["k", "1", "222222", "slower"]
    lines = TerminalTables()(head, [row], [False, False, True, False])
    assert lines[0].split() == ["kernel", "ms", "verdict"] and lines[3].startswith("(minor: too wide")


def test_a_minor_first_column_stays_and_costs_no_other_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "22")
    head, row = ["rank", "ms", "verdict", "note"], ["1", "2", "slower", "x" * 30]
    lines = TerminalTables()(head, [row], [True, False, False, True])
    assert lines[0].split() == ["rank", "ms", "verdict"] and lines[3].startswith("(note: too wide")


def test_paths_of_calls_and_long_ranges_are_shown_by_their_last_element() -> None:
    calls = "<string>(1): <module>/multiprocessing/spawn.py(122): spawn_main/ProfilerStep#6"
    tables = TerminalTables()
    _, _, *rows = tables(
        ["range", "ms"], [[calls, "1"], ["step/" * 10 + "inner", "2"], ["step/load", "3"]], [False, False]
    )
    assert [row.split() for row in rows] == [["…/ProfilerStep#6", "1"], ["…/inner", "2"], ["step/load", "3"]]
    assert tables.shorten_paths(f"The host waits in {calls}.") == "The host waits in …/ProfilerStep#6."
