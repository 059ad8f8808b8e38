"""Stacks of the host beside a timeline: what is stored of them, on which clock, and what is said if they lack."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tools.base.profile_files import WORK
from rooflens.tools.profiles.host.own_run import FACTS, LOG, SAMPLES, sampled_run
from rooflens.tools.profiles.host.py_spy import read_recording
from rooflens.tools.profiles.host.stored_stacks import write_host_stacks

BEGAN = 1_700_000_000_000_000_000
LOGGED = """\
[2023-11-14T22:13:19.998000000Z INFO  py_spy::config] config Config {
[2023-11-14T22:13:20.000440000Z INFO  py_spy::python_process_info] Got virtual memory maps from pid 7:
py-spy> Wrote chrome trace to 'x'. Samples: 100 Errors: 1
"""
PROGRAM = "/home/user/app/train.py"
LIBRARY = "/opt/venv/lib/python3.12/site-packages/transformers/trainer.py"


def frame(name: str, file: str = "", line: int = 0) -> tuple[str, str, int]:
    return name, file, line


class Writer:
    """The output of py-spy for stacks that are given one after the other."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []
        self.open: dict[int, list[tuple[str, str, int]]] = {}

    def sample(self, ms: float, *frames: tuple[str, str, int], pid: int = 7, tid: int = 70, thread: int = 7) -> Writer:
        """The stack of a thread from a time on; without frames, the thread has ended."""
        roots = [frame(f'process {pid}:"python train.py"'), frame(f"thread ({thread}): MainThread")]
        before, after = self.open.get(tid, []), [*roots, *frames] if frames else []
        same = next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
        )
        for one in reversed(before[same:]):
            self._add("E", ms, one, pid, tid)
        for one in after[same:]:
            self._add("B", ms, one, pid, tid)
        self.open[tid] = after
        return self

    def _add(self, kind: str, ms: float, one: tuple[str, str, int], pid: int, tid: int) -> None:
        name, file, line = one
        args = {"filename": file, "line": line}
        self.events.append({"ph": kind, "ts": int(ms * 1000), "pid": pid, "tid": tid, "name": name, "args": args})

    def put(self, folder: Path, **facts: object) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / SAMPLES).write_text(json.dumps(self.events))
        (folder / LOG).write_text(LOGGED)
        clocks = {"realtime": BEGAN, "monotonic": 5_000_000_000, "boottime": 6_000_000_000}
        (folder / FACTS).write_text(json.dumps({"rate": 100, "clocks": clocks, **facts}))
        return folder


def usual() -> Writer:
    main, step = frame("<module>", PROGRAM, 90), frame("Trainer.step", LIBRARY, 12)
    return Writer().sample(10, main, frame("load", PROGRAM, 4)).sample(40, main, step).sample(100)


def stored(
    tmp_path: Path, folder: Path, *, first: int, last: int, shift: int | None = None
) -> duckdb.DuckDBPyConnection:
    """What is stored of the samples beside a timeline from ``first`` to ``last``, as tables."""
    out = tmp_path / "out"
    (out / WORK).mkdir(parents=True)
    con = duckdb.connect()
    event = f"SELECT 'api' AS kind, 'f' AS name, {first} AS start_ns, {last} AS end_ns, 7 AS pid, 7 AS thread"
    con.execute(f"COPY ({event}) TO '{out}/events.parquet' (FORMAT parquet)")
    run = sampled_run(folder)
    assert run is not None
    recording, *said = run.recording(con, out / WORK)
    said += write_host_stacks(con, [recording] if recording else [], out, shift)
    con.execute(
        "CREATE TABLE said AS SELECT unnest(?::VARCHAR[]) AS text", [[note.text for notes in said for note in notes]]
    )
    for table in ("host_samples", "host_stacks"):
        if (out / f"{table}.parquet").exists():
            con.execute(f"CREATE VIEW {table} AS FROM '{out}/{table}.parquet'")
    return con


def test_lines_are_kept_where_files_can_be_read_and_without_python_nothing_is_said(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("import x\nloss = model(batch).item()\n")
    writer = Writer().sample(10, frame("<module>", str(source), 2)).sample(30)
    con = stored(tmp_path, writer.put(tmp_path / "host"), first=0, last=1, shift=0)
    assert con.execute("SELECT text FROM host_stacks").fetchall() == [("loss = model(batch).item()",)]
    without_python = stored(tmp_path / "other", Writer().put(tmp_path / "none"), first=0, last=1)
    assert without_python.execute("FROM said").fetchall() == []


@pytest.mark.parametrize(
    ("clock", "zero"), [("realtime", BEGAN), ("monotonic", 5_000_000_000), ("boottime", 6_000_000_000)]
)
def test_the_clock_is_the_one_on_which_the_events_were_sampled(tmp_path: Path, clock: str, zero: int) -> None:
    con = stored(tmp_path, usual().put(tmp_path / "host"), first=zero + 20_000_000, last=zero + 90_000_000)
    assert con.execute("SELECT min(start_ns) FROM host_samples").fetchone() == (zero + 5_000_000,), clock


def test_samples_of_another_time_lose_their_times_and_it_is_said(tmp_path: Path) -> None:
    con = stored(tmp_path, usual().put(tmp_path / "host"), first=1, last=2)
    assert "cannot be matched" in str(con.execute("FROM said").fetchall())
    rows = con.execute("SELECT start_ns, end_ns, time_ns, stack FROM host_samples ORDER BY stack").fetchall()
    assert rows == [(None, None, 30_000_000, 1), (None, None, 60_000_000, 2)]


def test_a_forked_child_does_not_end_the_stack_of_its_parent(tmp_path: Path) -> None:
    main, child = frame("main", PROGRAM, 1), frame("child", PROGRAM, 2)
    writer = Writer().sample(10, main).sample(12, child, pid=8, thread=8).sample(20, main)
    writer.sample(22, child, pid=8, thread=8).sample(30, main).sample(40)
    folder = writer.put(tmp_path / "host")
    spans = read_recording(folder / SAMPLES, folder / LOG, 100).spans
    times = {pid: sum(s.end - s.start for s in spans if s.pid == pid) for pid in (7, 8)}
    assert times == {7: 30_000_000, 8: 18_000_000}


def test_a_stack_read_while_it_changed_gets_its_outermost_frames_from_another(tmp_path: Path) -> None:
    main, step, load = frame("<module>", PROGRAM, 90), frame("step", LIBRARY, 12), frame("load", PROGRAM, 4)
    forward, look = frame("forward", LIBRARY, 7), frame("look", PROGRAM, 5)
    made = Writer().sample(0, main, load).sample(980, forward, look).sample(985, main, step, forward)
    made.sample(990, main, load).sample(995, look).sample(1000, main, load).sample(2000)
    spans = read_recording(made.put(tmp_path / "host") / SAMPLES, tmp_path / "host" / LOG, 100).spans
    found = [(span.start // 1_000_000, span.end // 1_000_000, [f[0] for f in span.stack]) for span in spans]
    assert found == [
        (0, 980, ["<module>", "load"]),
        (980, 985, ["<module>", "step", "forward", "look"]),
        (985, 990, ["<module>", "step", "forward"]),
        (990, 1000, ["<module>", "load"]),
        (1000, 2000, ["<module>", "load"]),
    ]


def test_stacks_that_lack_their_outermost_frames_are_completed_also_if_they_are_many(tmp_path: Path) -> None:
    main, write = frame("<module>", PROGRAM, 90), frame("write", PROGRAM, 4)
    values, record = frame("values", LIBRARY, 7), frame("record", LIBRARY, 8)
    made = Writer()
    for start in range(0, 1000, 20):
        made.sample(start, main, write, values, record).sample(start + 10, values, record)
    spans = read_recording(made.sample(1000).put(tmp_path / "host") / SAMPLES, tmp_path / "host" / LOG, 100).spans
    assert {tuple(name for name, *_ in span.stack) for span in spans} == {("<module>", "write", "values", "record")}


def test_what_to_allow_is_said_where_the_program_had_to_sample_itself(tmp_path: Path) -> None:
    folder = usual().put(tmp_path / "host", sampler="in-process", unreadable=os.strerror(1), began=BEGAN + 7)
    con = stored(tmp_path, folder, first=0, last=1, shift=-BEGAN)
    assert con.execute("SELECT DISTINCT source FROM host_samples").fetchall() == [("in-process",)]
    assert con.execute("SELECT min(start_ns) FROM host_samples").fetchone() == (5_000_007,)
    assert "--cap-add=SYS_PTRACE" in str(con.execute("FROM said").fetchall())


def test_it_is_said_if_no_process_sampled_itself_or_the_sampler_is_missing(tmp_path: Path) -> None:
    folder = Writer().put(tmp_path / "host", sampler="in-process", unreadable=os.strerror(1), began=BEGAN)
    con = stored(tmp_path, folder, first=0, last=1, shift=-BEGAN)
    assert "ignores PYTHONPATH (options -I, -E and -S)" in str(con.execute("FROM said").fetchall())
    (folder / SAMPLES).unlink()
    (folder / FACTS).write_text(json.dumps({"refused": os.strerror(2)}))
    con = stored(tmp_path / "missing", folder, first=0, last=1)
    assert "pip install py-spy" in str(con.execute("FROM said").fetchall())


@pytest.mark.parametrize("content", ['{"a": 1}', '[{"ph": "B"}]', "no json"])
def test_other_files_are_refused_without_losing_the_profile(tmp_path: Path, content: str) -> None:
    folder = usual().put(tmp_path / "host")
    (folder / SAMPLES).write_text(content)
    with pytest.raises(BadInput, match="not an output of py-spy"):
        read_recording(folder / SAMPLES, folder / LOG, 100)
    con = stored(tmp_path, folder, first=0, last=1)
    assert "not an output of py-spy" in str(con.execute("FROM said").fetchall())


def test_the_process_between_sampler_and_program_is_left_out(tmp_path: Path) -> None:
    wrapper, program = frame("<module>", "/x/sampled_program.py", 180), frame("<module>", PROGRAM, 9)
    writer = Writer().sample(5, wrapper, frame("Popen.wait", "/usr/lib/python3.12/subprocess.py", 1))
    writer.sample(6, wrapper, pid=8, tid=80, thread=8).sample(10, program, pid=8, tid=80, thread=8)
    writer.sample(90, pid=8, tid=80, thread=8).sample(95)
    con = stored(tmp_path, writer.put(tmp_path / "host"), first=0, last=1, shift=-BEGAN)
    assert con.execute("SELECT pid, start_ns, end_ns FROM host_samples").fetchall() == [(8, 5_000_000, 85_000_000)]
