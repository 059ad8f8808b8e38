"""Stacks that rocprof-sys sampled: regions of a real database, to which samples are added as it writes them."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest

from rooflens.tools.profiles.parsing.sqlite_database import open_database

_SUFFIX = "_3224963d0bd2e790224c3b2186eb8bd0"
_BEGAN, _PID, _THREAD = 23_040_400_000_000, 67979, 67991
FRAMES = [
    ({"name": "main", "pc": "4011A6", "file": "/app/program"}, {"line_address": "4011A0", "name": "main"}),
    (
        {"name": "solve", "pc": "401200", "file": "/app/program"},
        {"name": "solve", "inlined": {"name": "dot", "location": "/app/blas.h", "line": "12"}},
    ),
    (
        {"name": "axpy", "pc": "401300", "file": "/app/program"},
        {"name": "axpy", "inlined": {"name": "axpy", "location": "/app/blas.cc", "line": "30"}},
    ),
]


@pytest.fixture
def sampled(bench, shared):
    """Writes a database with three samples of a thread, 1 ms apart; the last one ends in ``solve``."""

    def write(category="timer_sampling", column="call_stack", lines=True):
        file = bench.folder / "rocprof_sys.db"
        shutil.copy(shared / "rocprofv3" / "rocprof_sys_mi350x.db", file)
        con = sqlite3.connect(file)

        def add(table, **values):
            marks = ", ".join("?" * len(values))
            columns = ", ".join(f'"{name}"' for name in values)
            sql = f"INSERT INTO rocpd_{table}{_SUFFIX} ({columns}) VALUES ({marks})"
            return con.execute(sql, list(values.values())).lastrowid

        nid, pid = con.execute("SELECT nid, pid FROM rocpd_region LIMIT 1").fetchone()
        (kind,) = con.execute("SELECT id FROM rocpd_string WHERE string = ?", (category,)).fetchone()
        names = {frame["name"]: add("string", string=f"sampled {frame['name']}") for frame, _ in FRAMES}
        for sample, depth in enumerate((3, 3, 2)):
            start = _BEGAN + 1_000_000 * sample
            for frame, line in FRAMES[:depth]:
                texts = {column: json.dumps(frame)} | ({"line_info": json.dumps(line)} if lines else {})
                event = add("event", category_id=kind, stack_id=0, parent_stack_id=0, correlation_id=0, **texts)
                add("region", nid=nid, pid=pid, tid=2, start=start, end=start + 1_000_000,
                    name_id=names[frame["name"]], event_id=event)  # fmt: skip
        con.commit()
        con.close()
        return file

    return write


def _frames(bench, done, number):
    return bench.rows(done, "host_stacks", "function, file, line, module", f"stack = {number}")


def test_samples_have_frames_and_what_is_inlined_in_them_and_are_no_calls(bench, sampled):
    done = bench.load(sampled())
    rows = bench.rows(done, "host_samples", "start_ns, end_ns, samples, pid, thread, source, stack")
    half = 500_000
    assert [row[:6] for row in rows] == [
        (_BEGAN + half, _BEGAN + 5 * half, 2, _PID, _THREAD, "rocprof-sys"),
        (_BEGAN + 5 * half, _BEGAN + 7 * half, 1, _PID, _THREAD, "rocprof-sys"),
    ]
    assert _frames(bench, done, rows[0][-1]) == [
        ("main", None, None, "program"), ("solve", None, None, "program"), ("dot", "/app/blas.h", 12, "program"),
        ("axpy", "/app/blas.cc", 30, "program"),
    ]  # fmt: skip
    assert [function for function, *_ in _frames(bench, done, rows[1][-1])] == ["main", "solve", "dot"]
    assert bench.rows(done, "events", "name", "name LIKE 'sampled%'") == []
    assert bench.rows(done, "ranges", "source, count(*)", "true GROUP BY ALL") == [("rocprof-sys", 12)]


def test_samples_of_counters_that_overflow_are_stacks_and_without_lines_say_so(bench, sampled):
    done = bench.load(sampled("overflow_sampling", "extdata", lines=False))
    stacks = bench.column(done, "host_samples", "stack")
    assert [[function for function, *_ in _frames(bench, done, stack)] for stack in stacks] == [
        ["main", "solve", "axpy"], ["main", "solve"],
    ]  # fmt: skip
    codes = {warning.code for warning in bench.manifest(done).warnings}
    assert codes >= {"host_functions_only", "host_idle_unknown"}


def test_call_stacks_are_read_of_events_alone(sampled):
    file = sampled()
    con = sqlite3.connect(file)
    con.execute("CREATE TABLE other AS SELECT call_stack FROM rocpd_event")
    con.execute("CREATE VIEW renamed AS SELECT call_stack AS x FROM rocpd_event")
    con.commit()
    con.close()
    with open_database(file) as db:
        assert db.rows("SELECT count(call_stack) FROM other") == [(0,)]
        assert db.rows("SELECT count(x) FROM renamed")[0][0] > 0
