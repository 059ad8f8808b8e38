"""Tables in text, aligned for a terminal and no wider than it."""

from __future__ import annotations

import pytest

from rooflens.server.terminal.tables import align_tables


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    text = "table\nname | ms\n--- | ---\na | 1.5\nlonger | 12\n(2 of 9 rows shown)\n\nnotes\n- a | b"
    aligned = ["table", "name     ms", "------  ---", "a       1.5", "longer   12"]
    assert align_tables(text).splitlines() == [*aligned, "(2 of 9 rows shown)", "", "notes", "- a | b"]


def test_the_name_of_a_field_before_its_table_gets_a_line_of_its_own() -> None:
    assert align_tables("  passes: pass | n\n--- | ---\nx | 1").splitlines() == [
        "  passes:", "pass  n", "----  -", "x     1",
    ]  # fmt: skip


def test_an_escaped_bar_is_no_border() -> None:
    assert align_tables("k | v\n--- | ---\na \\| b | x").splitlines()[2] == "a \\| b  x"


def test_a_long_name_is_shortened_in_the_middle_where_its_table_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "begin_" + "x" * 70 + "_end"
    text = f"kernel | ms\n--- | ---\n{name} | 1"
    monkeypatch.setenv("COLUMNS", "200")
    assert align_tables(text).splitlines()[2] == f"{name}   1"
    monkeypatch.setenv("COLUMNS", "80")
    (_, _, row) = align_tables(text).splitlines()
    assert len(row) <= 80 and row.startswith("begin_") and "…" in row and row.endswith("_end   1")


def test_the_last_columns_go_first_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    rule, row = "--- | --- | --- | --- | ---", "k | some words | 1 | 222222 | 333333"
    text = f"kernel | text | ms | a | b\n{rule}\n{row}\n(1 of 2 rows shown)"
    assert align_tables(text).splitlines() == [
        "kernel  ms",
        "------  --",
        "k        1",
        "(text, a, b: too wide to show here; --json and --csv have them)",
        "(1 of 2 rows shown)",
    ]


def test_paths_of_calls_and_long_ranges_are_shown_by_their_last_element() -> None:
    calls = "<string>(1): <module>/multiprocessing/spawn.py(122): spawn_main/ProfilerStep#6"
    long = "step/" * 10 + "inner"
    text = f"The host waits in {calls}.\n\nrange | ms\n--- | ---\n{calls} | 1\n{long} | 2\nstep/load | 3"
    said, _, _, _, *rows = align_tables(text).splitlines()
    assert said == "The host waits in …/ProfilerStep#6."
    assert [row.split() for row in rows] == [["…/ProfilerStep#6", "1"], ["…/inner", "2"], ["step/load", "3"]]
