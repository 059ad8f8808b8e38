"""Idle time of devices charged to code of the host: by what the launching thread did, and by whom it waited for."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.tables import device_lines, host_lines
from rooflens.analysis.timeline.busy import Within
from rooflens.analysis.timeline.host_code import HostCode, host_code
from rooflens.analysis.timeline.host_findings import HostFindings, name
from rooflens.analysis.timeline.host_idle import CODE_CAUSES, CodeIdle, code_idle
from rooflens.analysis.timeline.hot_code import hot_codes
from rooflens.analysis.timeline.timeline import timeline
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish
from rooflens.tools.find_hotspots import find_hotspots

MS = 1_000_000


def pair(made: Made, first: tuple[int, int], second: tuple[int, int], **columns: Any) -> None:
    """Two kernels that run at these times in ms, each launched just before."""
    for start, end in (first, second):
        made.launch("k", (start * MS - 20_000, start * MS - 10_000), (start * MS, end * MS), **columns)


def idle_code(store: Store, made: Made) -> tuple[HostCode, CodeIdle]:
    """The code of the host, and the idle time that is charged to it."""
    with Workload.open(store, publish(store, made)) as workload:
        trace = prepare(workload)
        code = host_code(trace)
        assert code is not None
        return code, code_idle(trace, code, Within([trace.whole]))


def charged(store: Store, made: Made) -> dict[tuple[str, str], float]:
    """Function of the innermost frame and cause -> idle ms, of the gaps between work; "?" for unknown code."""
    code, idle = idle_code(store, made)
    sums: dict[tuple[str, str], float] = {}
    for stack, ns in enumerate(idle.ns.T):
        name = code.stacks[stack][-1].function if code.stacks[stack] else "?"
        for cause, value in zip(CODE_CAUSES, ns, strict=True):
            if value >= MS / 10 and cause not in ("start_up", "shut_down"):
                sums[name, cause] = sums.get((name, cause), 0) + round(value / MS, 3)
    return sums


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def host_of(store: Store, made: Made) -> HostFindings:
    """What the timeline says of the host's code."""
    with Workload.open(store, publish(store, made)) as workload:
        host = timeline(workload).host
    assert host is not None
    return host


def test_a_gap_is_charged_to_what_the_launching_thread_did_in_it_and_for_what(store):
    made = Made()
    pair(made, (10, 20), (50, 60))
    made.host("hipMalloc", 30 * MS, 40 * MS)
    a, b, other = made.stack("load train.py:1"), made.stack("buffers train.py:2"), made.stack("idle train.py:3")
    c = made.stack("parse train.py:4")
    made.sample(a, 10 * MS, 30 * MS)
    made.sample(b, 30 * MS, 40 * MS)
    made.sample(c, 40 * MS, 50 * MS)
    made.sample(other, 0, 60 * MS, thread=2)
    found = charged(store, made)
    assert found["buffers", "allocation"] == pytest.approx(10) and ("buffers", "host") not in found
    # From the launch at 10 to that at 50, two thirds of the rest were spent in one, of 20 ms without work.
    assert found["load", "host"] == pytest.approx(20 * 2 / 3, rel=0.01)
    assert found["parse", "host"] == pytest.approx(20 / 3, rel=0.01)
    assert not any(function == "idle" for function, _ in found)


def test_a_wait_costs_nothing_while_the_device_works(store):
    made = Made()
    pair(made, (10, 40), (60, 70))
    made.host("hipStreamSynchronize", 11 * MS, 40 * MS)
    wait, after = made.stack("item train.py:1"), made.stack("log train.py:2")
    made.sample(wait, 10 * MS, 40 * MS)
    made.sample(after, 40 * MS, 60 * MS)
    found = charged(store, made)
    assert found["log", "host"] == pytest.approx(19, rel=0.05)
    assert found.get(("item", "host"), 0) < 1.1


def test_frames_of_a_thread_that_a_library_started_lie_under_those_of_the_first_one(store):
    made = Made()
    pair(made, (10, 20), (50, 60), thread=9)
    backward = made.stack("train train.py:1", "backward lib/torch.py:9")
    recompute, unpack = made.stack("forward model.py:4"), made.stack("unpack lib/torch.py:2")
    made.sample(backward, 0, 60 * MS)
    for at, stack in ((20, recompute), (25, unpack), (30, recompute)):
        made.sample(stack, at * MS, (at + 5) * MS, thread=9)
    code, idle = idle_code(store, made)
    found = {
        tuple(frame.function for frame in code.stacks[stack]): round(float(ns.sum() - ns[-2:].sum()) / MS)
        for stack, ns in enumerate(idle.ns.T)
    }
    # From the launch at 10 to that at 50, with 30 ms without work: 10 in forward, 5 in unpack, 25 in neither.
    wanted = {("train", "backward"): 19, ("train", "backward", "forward"): 8, ("train", "backward", "unpack"): 4}
    assert {path: ms for path, ms in found.items() if ms} == wanted
    busy = {tuple(frame.function for frame in code.stacks[stack]): ns / MS for stack, ns in enumerate(idle.busy) if ns}
    assert (busy["train", "backward", "forward"], busy["train", "backward", "unpack"]) == (10, 5)


@pytest.mark.parametrize(("pid", "charge"), [(1, "sleep"), (2, "?")])
def test_a_wait_for_nobody_stays_where_it_is_and_another_process_explains_nothing(store, pid, charge):
    made = Made()
    pair(made, (10, 20), (50, 60))
    made.sample(made.stack("train train.py:1", "sleep lib/x.py:3"), 0, 60 * MS, pid=pid, thread=pid)
    assert charged(store, made) == {(charge, "host"): pytest.approx(30, rel=0.01)}


@pytest.mark.parametrize(
    ("frames", "pid", "via"),
    [
        (("train train.py:1", "Condition.wait lib/threading.py:355"), 1, "wait"),
        (("train train.py:1", "Queue.get lib/multiprocessing/queues.py:100"), 2, "wait"),
    ],
)
def test_who_waits_is_followed_to_who_works(store, frames, pid, via):
    made = Made()
    pair(made, (10, 20), (50, 60))
    made.sample(made.stack(*frames), 0, 60 * MS)
    made.sample(made.stack("decode data.py:1"), 0, 60 * MS, pid=pid, thread=7)
    assert charged(store, made) == {("decode", "host"): pytest.approx(30, rel=0.01)}
    with Workload.open(store, "made") as workload:
        trace = prepare(workload)
        code = host_code(trace)
        assert code is not None
        (row,) = hot_codes(trace, code, Within([trace.whole])).rows
    assert (row.frame.function, row.via) == ("decode", via)


@pytest.mark.parametrize(("file", "charge"), [("data.py:1", "decode"), ("lib/kernel.c:9", "read")])
def test_a_wait_is_charged_to_the_programs_code_that_ended_it(store, file, charge):
    made = Made()
    pair(made, (10, 20), (50, 60))
    waker = made.stack(f"decode {file}")
    made.sample(made.stack("train train.py:1", "read lib/pipe.py:7"), 0, 60 * MS)
    made.host_samples[-1]["waker"] = waker
    made.sample(made.stack("other other.py:1"), 0, 60 * MS, thread=7)
    assert charged(store, made) == {(charge, "host"): pytest.approx(30, rel=0.01)}


def test_changing_stacks_share_the_time_that_their_thread_holds_the_interpreter(store):
    made = Made()
    pair(made, (10, 20), (50, 60))
    made.sample(made.stack("train train.py:1"), 0, 60 * MS)
    read, look = (made.stack("Thread.run lib/threading.py:9", f"{name} watch.py:1") for name in ("read", "look"))
    for at in range(0, 60, 10):
        made.sample(read if at % 20 else look, at * MS, (at + 10) * MS, thread=7)
    found = charged(store, made)
    assert found["train", "host"] == pytest.approx(15, rel=0.02)
    assert found["read", "host"] + found["look", "host"] == pytest.approx(15, rel=0.02)


def test_rows_are_the_innermost_functions_that_explain_the_time(store):
    made = Made()
    pair(made, (10, 20), (120, 130))
    spread = [made.stack("main a.py:1", "step lib/s.py:2", f"f{n} lib/f.py:{n}") for n in range(40)]
    hot = made.stack("main a.py:1", "load data.py:9", "inner data.py:4")
    made.sample(hot, 10 * MS, 70 * MS)
    for n, stack in enumerate(spread):
        made.sample(stack, 70 * MS + n * MS, 71 * MS + n * MS)
    host = host_of(store, made)
    first, second = host.codes.rows
    assert (first.frame.function, [f.function for f in first.callers]) == ("inner", ["main", "load"])
    assert (second.frame.function, len(second.below)) == ("step", 3)


def test_what_is_too_little_for_a_row_counts_for_the_function_above_it(store):
    made = Made()
    pair(made, (10, 20), (120, 130))
    made.sample(made.stack("main a.py:1", "load data.py:9"), 10 * MS, 70 * MS)
    for n in range(20):
        end = (70 + n) * MS, (71 + n) * MS
        made.sample(made.stack("main a.py:2", f"f{n} a.py:{n}", f"g{n} a.py:{n}"), *end)
    host = host_of(store, made)
    assert [row.frame.function for row in host.codes.rows] == ["load", "main"]
    assert sum(row.idle_ns for row in host.codes.rows) == pytest.approx(float(host.codes.total.sum()), rel=0.01)


def test_what_the_modules_of_a_model_launch_is_one_row(store):
    made = Made()
    call = "call lib/torch/nn/modules/module.py:9"
    model = ("main a.py:1", call, "Model.forward m.py:2", call, "Layer.forward m.py:5")
    attention, norm = (made.stack(*model, call, f"{name}.forward m.py:8") for name in ("Attention", "Norm"))
    choose = made.stack("main a.py:3", "choose a.py:7")
    for n in range(300):
        start = n * 100_000
        made.launch("k", (start - 12_000, start - 8_000), (start, start + 10_000))
        made.sample((attention, norm, choose)[n % 3], start - 95_000, start + 5_000)
    host = host_of(store, made)
    first, second = host.codes.rows
    assert (first.frame.function, first.main_cause, set(first.below)) == (
        "Layer.forward",
        "launch",
        {"Attention.forward", "Norm.forward"},
    )
    assert second.frame.function == "choose"
    assert first.idle_ns == pytest.approx(2 * second.idle_ns, rel=0.05)


def test_a_function_that_is_called_from_two_places_is_one_row(store):
    made = Made()
    pair(made, (10, 20), (50, 60))
    made.sample(made.stack("main a.py:1", "train a.py:5", "forward m.py:7"), 10 * MS, 35 * MS)
    made.sample(made.stack("main a.py:2", "check a.py:9", "forward m.py:8"), 35 * MS, 50 * MS)
    host = host_of(store, made)
    (row,) = host.codes.rows
    assert (row.frame.line, row.callers[-1].function) == (7, "train")
    assert row.idle_ns == pytest.approx(30 * MS, rel=0.01)


def test_code_between_two_calls_is_that_of_the_function_that_makes_both(store):
    made = Made()
    first, second = made.stack("main m.cpp:9", "step m.cpp:20"), made.stack("main m.cpp:9", "step m.cpp:40")
    for start, stack in ((10, first), (50, second)):
        number = made.host("cudaLaunchKernel", start * MS - 20_000, start * MS - 10_000, stack=stack)
        made.add("kernel", "k", start * MS, (start + 5) * MS, device_id=0, stream=7, correlation=number)
    with Workload.open(store, publish(store, made, vendor="nvidia")) as workload:
        (row,) = [row for row in host_lines.rows(workload) if row["host_ns"] > MS and row["function"] == "step"]
        lines = device_lines.rows(workload)
        host = timeline(workload).host
    assert host is not None
    assert [name(one.frame) for one in host.codes.rows] == ["step (m.cpp:20-40)"]
    assert (row["line"], round(row["host_ns"] / MS)) == (20, 35)
    assert {(row["line"], row["launches"], row["kernel"]) for row in lines} == {(20, 1, "k"), (40, 1, "k")}


def test_code_of_the_program_without_sources_is_named_by_its_functions(store):
    made = Made()
    start = {"file": None, "line": None, "module": "app"}
    for depth, (function, own) in enumerate((("_start", True), ("0x2a1ca", False), ("main", True), ("solve", True))):
        made.host_stacks.append({"stack": 1, "depth": depth, "function": function, "own": own, **start})
    for at in (10, 50):
        number = made.host("cudaLaunchKernel", at * MS - 20_000, at * MS - 10_000, stack=1)
        made.add("kernel", "k", at * MS, (at + 5) * MS, device_id=0, stream=7, correlation=number)
    with Workload.open(store, publish(store, made, vendor="nvidia")) as workload:
        host, lines = timeline(workload).host, device_lines.rows(workload)
    assert host is not None
    assert [(name(row.frame), row.callers[-1].function) for row in host.codes.rows] == [("solve", "main")]
    assert [row["function"] for row in lines] == ["solve"]


def test_a_gap_before_a_process_began_is_charged_to_the_code_that_started_it(store):
    made = Made()
    start = made.stack("build main.py:12")
    made.sample(start, 0, 90 * MS, pid=9, thread=9)
    own = made.stack("main m.cpp:20")
    for pid, at in ((1, 20), (2, 70)):
        made.host("cudaMalloc", at * MS - 10 * MS, at * MS - 20_000, pid=pid, thread=pid, stack=own)
        number = made.host("cudaLaunchKernel", at * MS - 15_000, at * MS - 10_000, pid=pid, thread=pid, stack=own)
        made.add("kernel", "k", at * MS, (at + 5) * MS, device_id=0, stream=7, correlation=number, pid=pid)
    found = charged(store, made)
    assert found["build", "host"] == pytest.approx(35, abs=1) and ("?", "host") not in found


def test_before_a_thread_begins_the_first_one_of_its_process_is_charged(store):
    made = Made()
    main, worker = made.stack("read train.py:3"), made.stack("run lib/threading.py:9", "work train.py:8")
    made.sample(main, 0, 70 * MS)
    made.sample(worker, 50 * MS, 70 * MS, thread=2)
    made.launch("k", (10 * MS - 20_000, 10 * MS - 10_000), (10 * MS, 20 * MS))
    made.launch("k", (60 * MS - 20_000, 60 * MS - 10_000), (60 * MS, 70 * MS), thread=2)
    found = charged(store, made)
    assert (found["read", "host"], found["work", "host"]) == (pytest.approx(30, abs=0.1), pytest.approx(10, abs=0.1))


def test_device_time_is_listed_by_the_line_that_launched_it(store):
    made = Made()
    pair(made, (10, 20), (50, 90))
    made.sample(made.stack("train train.py:1", "Loss.backward lib/loss.py:3"), 0, 40 * MS)
    made.sample(made.stack("train train.py:2"), 40 * MS, 100 * MS)
    with Workload.open(store, publish(store, made)) as workload:
        rows = device_lines.rows(workload)
    told = [(r["function"], r["line"], r["called"], r["launches"], r["device_ns"] // MS, r["share_pct"]) for r in rows]
    assert told == [("train", 2, None, 1, 40, 80.0), ("train", 1, "Loss.backward", 1, 10, 20.0)]


def test_calls_of_torch_profiler_are_stacks(store):
    made = Made()
    pair(made, (10, 20), (50, 60))
    for call, start, end in (
        ("train.py(10): main", 0, 60),
        ("data.py(3): load", 22, 48),
        ("/opt/lib/python3.12/json/decoder.py(5): decode", 30, 40),
    ):
        made.range(call, start * MS, end * MS, source="python")
    found = charged(store, made)
    # Of the 40 ms since the first launch, 26 are in load, 10 of them in decode.
    assert found["load", "host"] == pytest.approx(30 * 16 / 40, rel=0.01)
    assert found["decode", "host"] == pytest.approx(30 * 10 / 40, rel=0.01)
    with Workload.open(store, "made") as workload:
        rows = {row["function"]: row for row in host_lines.rows(workload)}
    assert (rows["decode"]["module"], rows["load"]["own"]) == ("python", True)
    assert rows["load"]["idle_total_ns"] > rows["load"]["idle_ns"]


def test_the_answer_on_host_lines_names_who_launches_also_if_no_device_waits(store):
    made = Made()
    made.launch("k", (10 * MS, 10 * MS), (10 * MS, 60 * MS))
    made.launch("k", (20 * MS, 20 * MS), (60 * MS, 90 * MS))
    made.sample(made.stack("train train.py:1"), 10 * MS, 15 * MS)
    made.sample(made.stack("train train.py:2"), 15 * MS, 90 * MS)
    publish(store, made)
    answer = find_hotspots(store, "made", by="host_line").answer
    assert "do not wait for the host's code. train (train.py:1) launches 62 %" in answer
    waiting = Made()
    pair(waiting, (10, 20), (50, 60))
    waiting.sample(waiting.stack("load train.py:7"), 0, 60 * MS)
    publish(store, waiting, "waiting")
    answer = find_hotspots(store, "waiting", by="host_line").answer
    assert "wait longest for load (train.py:7)" in answer and "launches 100 %" in answer
