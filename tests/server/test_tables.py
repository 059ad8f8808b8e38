"""Tables in text, aligned for a terminal."""

from __future__ import annotations

from rooflens.server.terminal.outcome import align_tables


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    text = "table\nname | ms\n--- | ---\na | 1.5\nlonger | 12\n(2 of 9 rows shown)\n\nnotes\n- a | b"
    aligned = ["table", "name     ms", "------  ---", "a       1.5", "longer   12"]
    assert align_tables(text).splitlines() == [*aligned, "(2 of 9 rows shown)", "", "notes", "- a | b"]


def test_the_name_of_a_field_before_its_table_gets_a_line_of_its_own() -> None:
    assert align_tables("  passes: pass | n\n--- | ---\nx | 1").splitlines() == [
        "  passes:", "pass  n", "----  -", "x     1",
    ]  # fmt: skip


def test_an_escaped_bar_is_no_border_and_a_very_long_cell_widens_nothing() -> None:
    lines = align_tables(f"k | v\n--- | ---\na \\| b | x\n{'y' * 100} | z").splitlines()
    assert lines[2] == "a \\| b" + " " * 54 + "  x" and lines[3] == "y" * 100 + "  z"
