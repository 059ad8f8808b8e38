"""Launches of another run name the launches that they repeat: by kernel, size and order, else the first."""

from __future__ import annotations

import duckdb

from rooflens.tools.profiles.merging.matching import pair_repeated_launches


def launched(*rows: tuple[int, str | None, int | None]) -> str:
    """A SELECT of launches: id, kernel, grid, in any order."""
    of = ", ".join(f"({i}, {'NULL' if k is None else repr(k)}, {'NULL' if g is None else g}, 64)" for i, k, g in rows)
    return f"SELECT * FROM (VALUES {of}) v(id, kernel, grid, workgroup_size)"


def repeats(theirs: str, ours: str) -> dict[int, int | None]:
    return dict(duckdb.sql(f"SELECT id, repeats FROM ({pair_repeated_launches(theirs, ours)})").fetchall())


def test_the_nth_launch_repeats_the_nth_and_further_ones_the_first() -> None:
    ours = launched((7, "b", 64), (5, "a", 64), (9, "a", 64))
    theirs = launched((3, "a", 64), (1, "a", 64), (2, "b", 64), (4, "a", 64))
    assert repeats(theirs, ours) == {1: 5, 2: 7, 3: 9, 4: 5}


def test_another_size_is_another_launch_and_an_unknown_one_is_like_itself() -> None:
    ours = launched((5, "a", 64), (6, "a", None))
    assert repeats(launched((1, "a", 128), (2, "a", None), (3, "c", 64)), ours) == {1: None, 2: 6, 3: None}
