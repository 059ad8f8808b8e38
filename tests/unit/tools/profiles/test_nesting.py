"""Ranges within each other, against the plain definition; and begins paired with ends."""

from __future__ import annotations

import random

import duckdb
import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tools.profiles.parsing import spool
from rooflens.tools.profiles.timelines import nesting
from rooflens.tools.profiles.timelines.nesting import nest, pair
from rooflens.tools.profiles.timelines.timeline_tables import EVENT, TimelineQueries, write_timeline


def _nested(tmp_path, rows):
    con = duckdb.connect()
    con.execute("CREATE TABLE r (range_id BIGINT, pid BIGINT, thread BIGINT, s BIGINT, e BIGINT, name VARCHAR)")
    con.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?)", rows)
    found = nest(con, tmp_path, "SELECT * FROM r ORDER BY pid, thread, s, e DESC, range_id")
    placed = f"SELECT range_id, path, depth FROM {found.placed} JOIN {found.paths} USING (path_id)"
    by = {i: (path, depth) for i, path, depth in con.execute(placed).fetchall()}
    return by, con.execute(f"FROM {found.steps}").fetchall()


@pytest.mark.parametrize("seed", range(2))
def test_the_innermost_range_at_any_time_is_the_one_that_began_last_and_is_still_open(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(nesting, "_BATCH", 7)
    monkeypatch.setattr(spool, "_SPOOLED", 50)
    draw = random.Random(seed)
    rows = []
    for number in range(1, 61):
        start = draw.randrange(100)
        rows.append((number, draw.randrange(2), draw.randrange(2), start, start + draw.randrange(40), f"n{number % 5}"))
    rows.sort(key=lambda r: (r[1], r[2], r[3], -r[4], r[0]))
    rows = [(i, *row[1:]) for i, row in enumerate(rows, 1)]
    _, steps = _nested(tmp_path, rows)
    assert len({step[:3] for step in steps}) == len(steps)
    for pid in range(2):
        for thread in range(2):
            own = sorted((time, number) for p, t, time, number in steps if (p, t) == (pid, thread))
            for time in range(145):
                open_ = [r for r in rows if r[1:3] == (pid, thread) and r[3] <= time < r[4]]
                expected = max(open_, key=lambda r: r[0])[0] if open_ else 0
                assert ([0] + [number for at, number in own if at <= time])[-1] == expected, (pid, thread, time)


def test_a_range_lies_within_another_only_where_all_of_it_does(tmp_path):
    rows = [
        (1, 0, 0, 0, 10, "a"),
        (2, 0, 0, 1, 5, "b"),
        (3, 0, 0, 2, 5, "c"),
        (4, 0, 0, 4, 20, "d"),
        (5, 0, 1, 2, 3, "e"),
    ]
    by, _ = _nested(tmp_path, rows)
    assert by == {1: ("a", 0), 2: ("a/b", 1), 3: ("a/b/c", 2), 4: ("d", 0), 5: ("e", 0)}


def test_paths_have_an_end_however_deep_ranges_lie(tmp_path):
    rows = [(i, 0, 0, i, 100_000 - i, "x" * 50) for i in range(1, 301)]
    by, steps = _nested(tmp_path, rows)
    assert max(len(path) for path, _ in by.values()) == 4000 and by[300][1] == 299 and len(steps) == 600


def _paired(tmp_path, marks):
    con = duckdb.connect()
    con.execute("CREATE TABLE m (track BIGINT, t BIGINT, begins BIGINT, mark BIGINT)")
    con.executemany("INSERT INTO m VALUES (?, ?, ?, ?)", marks)
    spans, notes = pair(con, tmp_path, "SELECT * FROM m ORDER BY track, t, mark", "test")
    return dict(con.execute(f"FROM {spans}").fetchall()), [note.text for note in notes]


def test_ranges_without_end_are_refused_before_they_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(nesting, "_OPEN", 5)
    with pytest.raises(BadInput, match="never end"):
        _paired(tmp_path, [(1, i, 1, i) for i in range(9)])


@pytest.mark.parametrize(("weight", "names"), [(500, 1000), (1 << 20, 7)])
def test_ranges_keep_their_order_and_paths_however_many_paths_there_are(monkeypatch, tmp_path, weight, names):
    monkeypatch.setattr(nesting, "_PATHS_WEIGHT", weight)
    rows = [(5 * n + level + 1, 0, 0, 100 * n + level, 100 * n + 90 - level, f"n{n % names}.{level}")
            for n in range(40) for level in range(5)]  # fmt: skip
    con = duckdb.connect()
    con.execute("CREATE TABLE r (range_id BIGINT, pid BIGINT, thread BIGINT, s BIGINT, e BIGINT, name VARCHAR)")
    con.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?)", rows)
    (tmp_path / "work").mkdir()
    ranges = "SELECT name, pid, thread, s AS start_ns, e AS end_ns, 'user' AS source, NULL AS call_site, NULL AS rank, "
    ranges += "NULL AS host, NULL AS correlation, NULL AS arguments, NULL AS forward_thread, NULL AS forward_ns FROM r"
    events = f"SELECT {', '.join(f'NULL::{kind} AS {name}' for name, kind in EVENT.items())} WHERE false"
    write_timeline(con, tmp_path, TimelineQueries(events, ranges))
    stored = con.execute(f"SELECT range_id, path FROM '{tmp_path / 'ranges.parquet'}'").fetchall()
    levels = [[f"n{n % names}.{level}" for level in range(5)] for n in range(40)]
    expected = ["/".join(own[: level + 1]) for own in levels for level in range(5)]
    assert stored == list(enumerate(expected, 1))
