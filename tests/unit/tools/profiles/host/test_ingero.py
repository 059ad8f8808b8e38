"""The database of ingero: calls of CUDA with the stacks that made them, in the schema that its store creates."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.tables import host_lines
from rooflens.analysis.workload import Workload

BEGAN = 1_700_000_000_000_000_000
TABLES = {
    "events": "id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, pid INTEGER NOT NULL, tid INTEGER NOT NULL, "
    "source INTEGER NOT NULL, op INTEGER NOT NULL, duration INTEGER NOT NULL, gpu_id INTEGER, arg0 INTEGER, "
    "arg1 INTEGER, ret_code INTEGER, stack_hash INTEGER NOT NULL DEFAULT 0, node TEXT, rank INTEGER, comm TEXT",
    "stack_traces": "hash INTEGER PRIMARY KEY, ips TEXT NOT NULL, frames TEXT NOT NULL DEFAULT ''",
    "sources": "id INTEGER PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL",
    "ops": "source_id INTEGER, op_id INTEGER, name TEXT, description TEXT, PRIMARY KEY (source_id, op_id)",
}
OPERATIONS = [(1, 5, "cudaStreamSync", ""), (4, 1, "cuLaunchKernel", ""), (3, 1, "sched_switch", "")]
PYTHON = [{"pf": "/app/train.py", "pfn": "step", "pl": 8}, {"pf": "/app/train.py", "pfn": "<module>", "pl": 1}]
WITH_INTERPRETER = [
    {"s": "cublasSgemm_v2+0xa6", "f": "libcublas.so.12"}, {"i": "0x765c", "f": "libtorch_cuda.so"}, *PYTHON,
    {"s": "_PyEval_EvalFrameDefault+0x1", "f": "libpython3.12.so"}, {"s": "main", "f": "python3.12"},
]  # fmt: skip
WITHOUT = [*PYTHON, {"s": "cublasSgemm_v2", "f": "libcublas.so.12", "l": 7}]


def database(folder: Path, events: bool = True, frames: str | None = None) -> Path:
    """A database with two calls, a wait of which is abbreviated, and an event of the kernel of Linux."""
    file = folder / "ingero.db"
    con = sqlite3.connect(file)
    for name, columns in TABLES.items():
        con.execute(f"CREATE TABLE {name} ({columns})")
    con.executemany("INSERT INTO ops VALUES (?, ?, ?, ?)", OPERATIONS)
    stacks = [(-7, "[]", json.dumps(WITH_INTERPRETER) if frames is None else frames), (9, "[]", json.dumps(WITHOUT))]
    con.executemany("INSERT INTO stack_traces VALUES (?, ?, ?)", stacks)
    rows = [("n:1", 1_000, 4, 1, 200, -7), ("n:2", 2_000, 1, 5, 5_000, 9), ("n:3", 1_500, 3, 1, 100, 0)]
    for number, start, source, operation, lasted, stack in rows[: len(rows) if events else 0]:
        con.execute(
            "INSERT INTO events (id, timestamp, pid, tid, source, op, duration, stack_hash) VALUES (?,?,?,?,?,?,?,?)",
            (number, BEGAN + start, 10, 11, source, operation, lasted, stack),
        )
    con.commit()
    con.close()
    return file


def functions(bench, done, number):
    return bench.column(done, "host_stacks", "function", f"stack = {number}")


def test_calls_of_both_libraries_are_events_and_those_of_the_kernel_are_not(bench):
    done = bench.load(database(bench.folder))
    rows = bench.rows(done, "events", "kind, name, pid, thread, start_ns, end_ns")
    assert rows == [
        ("api", "cuLaunchKernel", 10, 11, BEGAN + 1_000, BEGAN + 1_200),
        ("sync", "cudaStreamSynchronize", 10, 11, BEGAN + 2_000, BEGAN + 7_000),
    ]
    assert (done.format, bench.manifest(done).vendor) == ("ingero", "nvidia")


def test_stacks_begin_with_the_outermost_frame_wherever_python_was_inserted(bench):
    done = bench.load(database(bench.folder))
    launch, wait = bench.column(done, "events", "stack")
    assert functions(bench, done, launch) == [
        "main", "_PyEval_EvalFrameDefault", "<module>", "step", "0x765c", "cublasSgemm_v2",
    ]  # fmt: skip
    assert functions(bench, done, wait) == ["<module>", "step", "cublasSgemm_v2"]
    assert bench.rows(done, "host_stacks", "file, line", f"stack = {wait} AND depth = 1") == [("/app/train.py", 8)]


def test_lines_have_the_time_of_their_calls(bench):
    done = bench.load(database(bench.folder))
    lines = host_lines.rows(Workload.open(bench.store, done.workload))
    assert [(row["function"], row["self_ns"], row["total_ns"]) for row in lines if row["own"] and row["file"]] == [
        ("<module>", 0, 5_200), ("step", 0, 5_200),
    ]  # fmt: skip


def test_it_is_said_that_only_calls_were_recorded(bench):
    manifest = bench.manifest(bench.load(database(bench.folder)))
    assert {warning.code for warning in manifest.warnings} == {"host_calls_only"}


@pytest.mark.parametrize(("events", "frames", "said"), [(False, None, "no calls of CUDA"), (True, "{", "is damaged")])
def test_databases_without_calls_or_with_broken_stacks_are_refused(bench, events, frames, said):
    with pytest.raises(BadInput, match=said):
        bench.load(database(bench.folder, events, frames))
    assert bench.is_clean()
