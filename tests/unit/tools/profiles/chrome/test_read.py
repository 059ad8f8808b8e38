"""Traces in Chrome's format: what is in them is in the store, and what is wrong in them is named."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import rooflens
from rooflens.analysis.base.problems import BadInput, LimitExceeded
from rooflens.analysis.tables import device_lines
from rooflens.analysis.workload import Workload
from rooflens.tests.made.chrome import complete, step, trace, write
from rooflens.tools.profiles.parsing import spool

TRACES = {  # kernels and copies busy, in % of the time from the first step; kernels of a step (traces/README.md)
    "gpu_bound": (96.8, 0.7, 44),
    "launch_bound": (7.7, 0.0, 924),
    "dataloader": (0.4, 2.6, 7),
    "pageable": (5.3, 90.1, 4),
}


def union(spans):
    """Time that intervals cover, counted once."""
    total, last = 0, None
    for start, end in sorted(spans):
        last = start if last is None else max(last, start)
        total, last = total + max(0, end - last), max(last, end)
    return total


@pytest.mark.parametrize("name", TRACES)
def test_recorded_traces_give_the_counts_times_and_shares_that_their_json_has(shared, bench, name):
    text = gzip.decompress((shared / "traces" / f"{name}.json.gz").read_bytes())
    events = [e for e in json.loads(text, parse_float=Decimal)["traceEvents"] if e.get("ph") == "X"]
    done = bench.load(shared / "traces" / f"{name}.json.gz")
    assert (done.format, done.arch, done.warnings) == ("torch", "sm_90", [])
    spans = {}
    for cat, kind in (("kernel", "kernel"), ("gpu_memcpy", "copy"), ("gpu_memset", "fill")):
        expected = sorted((int(e["ts"] * 1000), int((e["ts"] + e["dur"]) * 1000)) for e in events if e["cat"] == cat)
        spans[kind] = sorted(bench.rows(done, "events", "start_ns, end_ns", f"kind = '{kind}'"))
        assert spans[kind] == expected
    calls = [e["name"] for e in events if e["cat"] in ("cuda_runtime", "cuda_driver")]
    host = "kind IN ('api', 'sync', 'alloc') AND category != 'profiler'"
    assert sorted(bench.column(done, "events", "name", host)) == sorted(calls)
    assert len(bench.column(done, "ranges", "name", "source = 'torch'")) == sum(e["cat"] == "cpu_op" for e in events)
    first = min(bench.column(done, "ranges", "start_ns", "name = 'step'"))
    wall = max(bench.column(done, "events", "end_ns") + bench.column(done, "ranges", "end_ns")) - first
    kernels, copies, per_step = TRACES[name]
    assert 100 * union(spans["kernel"]) / wall == pytest.approx(kernels, abs=0.06)
    assert 100 * union(spans["copy"]) / wall == pytest.approx(copies, abs=0.06)
    assert len(spans["kernel"]) == done.dispatches == 6 * per_step


def test_device_work_belongs_to_the_innermost_range_around_its_call(shared, bench):
    done = bench.load(shared / "traces" / "gpu_bound.json.gz")
    events = json.loads(gzip.decompress((shared / "traces" / "gpu_bound.json.gz").read_bytes()))["traceEvents"]
    ranges = [e for e in events if e.get("cat") in ("cpu_op", "user_annotation")]
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    names = dict(bench.rows(done, "ranges", "range_id, name"))
    found = bench.rows(done, "events", "correlation, range_id", "kind IN ('kernel', 'copy', 'fill')")
    assert len(found) == 366
    for correlation, range_id in found:
        call = calls[correlation]
        around = [r for r in ranges if r["tid"] == call["tid"] and r["ts"] <= call["ts"] < r["ts"] + r["dur"]]
        assert names[range_id] == max(around, key=lambda r: (r["ts"], -r["dur"]))["name"]
    assert None not in bench.column(done, "dispatches", "range_id")


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.pt.trace.json.gz"])
def test_every_field_of_the_contract_is_filled_from_a_trace(bench, name):
    done = bench.load(write(bench.folder / name, trace(step(0, 1000.5) + step(1, 2000.5))))
    assert (done.format, done.name, done.arch, done.device) == ("torch", "t", "sm_90", "NVIDIA H200")
    kernel, copy = (
        bench.rows(done, "events", "* EXCLUDE (event_id, host)", f"kind = '{k}'")[0] for k in ("kernel", "copy")
    )
    assert kernel == (
        "kernel",
        "gemm(float*)",
        0,
        7,
        7,
        None,
        1030500,
        1070750,
        None,
        None,
        None,
        0,
        2,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
    )
    assert copy == ("copy", "h2d", 0, 7, 7, None, 1071500, 1079500, 4096, "h2d", True, 1, 1, *[None] * 7)
    assert bench.rows(done, "events", "kind, name, category, range_id", "kind IN ('api', 'sync')")[:3] == [
        ("api", "cudaLaunchKernel", "launch", 2), ("api", "cudaMemcpyAsync", "copy", 1),
        ("sync", "cudaStreamSynchronize", "runtime", 1),
    ]  # fmt: skip
    assert bench.rows(done, "ranges", "name, path, depth, source, thread")[:2] == [
        ("step", "step", 0, "user", 7), ("aten::mm", "step/aten::mm", 1, "torch", 7),
    ]  # fmt: skip
    assert bench.column(done, "events", "event_id") == list(range(1, 11))
    assert bench.rows(done, "dispatches", "kernel, kernel_raw, grid, workgroup_size, vgpr, duration_ns, range_id") == [
        ("gemm(float*)", "_Z4gemmPf", 1024, 128, 32, 40250.0, n) for n in (2, 4)
    ]
    assert bench.manifest(done).events == 10 and len(bench.rows(done, "passes")) == 1


def test_arguments_of_operators_and_collectives_are_kept_as_stated(bench):
    operator = {
        "Input Dims": [[4, 8], []],
        "Input type": ["float", "Scalar"],
        "Concrete Inputs": ["", "1"],
        "Ev Idx": 3,
    }
    facts = {"Collective name": "allreduce", "In msg nelems": 64, "Out msg nelems": 64, "dtype": "Float",
             "Group size": 8, "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
             "In split size": "[]"}  # fmt: skip
    events = [
        complete("cpu_op", "aten::mul", 0, 10, args=operator),
        complete("cpu_op", "aten::rand", 20, 5, args={"Input Dims": []}),
        complete("kernel", "ncclDevKernel", 40, 10, pid=0, args={"device": 0, "stream": 1, **facts, "grid": [1, 1, 1]}),
        complete("kernel", "gemm", 60, 10, pid=0, args={"device": 0, "stream": 1, "Collective name": 7}),
    ]
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert bench.column(done, "ranges", "arguments") == ['[[[4,8],[]],["float","Scalar"],["","1"]]', None]
    stated, none = bench.column(done, "events", "arguments")
    assert none is None and json.loads(stated) == {
        "collective": "allreduce", "in": 64, "out": 64, "type": "Float", "ranks": 8, "group": "0", "members": "[0, 1]",
        "split": "[]",
    }  # fmt: skip


def test_the_work_of_gradients_is_listed_by_who_called_the_forward_pass_and_by_who_called_backward(bench):
    device, thread = {"device": 0, "stream": 7}, {"tid": 8}
    arrow = {"id": 3, "pid": 7, "cat": "fwdbwd", "name": "fwdbwd"}
    events = [
        complete("python_function", "train.py(3): main", 0, 100),
        complete("python_function", "model.py(31): forward", 10, 20),
        complete("cpu_op", "aten::index", 12, 10),
        complete("python_function", "torch/_tensor.py(5): backward", 40, 50),
        complete("cpu_op", "autograd::engine::evaluate_function: IndexBackward0", 49, 30, **thread),
        complete("cpu_op", "IndexBackward0", 50, 20, **thread),
        {**arrow, "ph": "s", "tid": 7, "ts": 12},
        {**arrow, "ph": "f", "tid": 8, "ts": 50, "bp": "e"},
        {**arrow, "ph": "s", "tid": 7, "ts": 41, "id": 4},  # its end was not recorded
    ]
    for number, (at, tid) in enumerate(((15, 7), (55, 8), (72, 8))):
        args = {"correlation": number}
        events.append(complete("cuda_runtime", "cudaLaunchKernel", at, 2, tid=tid, args=args))
        events.append(complete("kernel", f"k{number}", at + 3, 4, pid=0, tid=7, args={**device, **args}))
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert bench.rows(done, "ranges", "name, forward_thread, forward_ns", "forward_ns IS NOT NULL") == [
        ("IndexBackward0", 7, 12_000)
    ]
    with Workload.open(bench.store, done.workload) as workload:
        rows = {
            row["kernel"]: (row["function"], row["called"], row["gradient_of"]) for row in device_lines.rows(workload)
        }
    assert rows == {
        "k0": ("forward", None, None),
        "k1": ("main", "backward", "forward (model.py:31)"),
        "k2": ("main", "backward", None),
    }


def test_a_trace_with_the_python_stack_takes_less_than_300_mib(tmp_path):
    script = Path(rooflens.__file__).parent / "benchmarks" / "timeline_import.py"
    command = [sys.executable, script, tmp_path / "t.json", "--events", "80000", "--shape", "python"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (tmp_path / "t.json").stat().st_size > 15e6
    assert 0 < int(re.search(r"([\d,]+) MiB", said)[1].replace(",", "")) < 300, said


def test_times_since_1970_keep_their_nanoseconds(bench):
    text = '{"deviceProperties": [], "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, '
    text += '"ts": 1790857026123456.789, "dur": 0.001, "args": {"device": 0}}]}'
    (bench.folder / "t.json").write_text(text)
    done = bench.load(bench.folder / "t.json", format="torch")
    assert bench.rows(done, "events", "start_ns, end_ns") == [(1790857026123456789, 1790857026123456790)]


def test_runs_one_after_the_other_in_a_folder_are_refused_and_processes_side_by_side_are_one(bench):
    def written(folder, *starts):
        for number, start in enumerate(starts):
            events = [{**e, "pid": e["pid"] and 7 + number} for e in step(0, start)]
            write(bench.folder / folder / f"trace_{'abc'[number]}.json", trace(events))
        return bench.folder / folder

    with pytest.raises(BadInput, match="contains traces of 2 runs, .* trace_a.json, trace_b.json"):
        bench.load(written("apart", 1000.0, 9_000_000.0, 9_000_050.0))
    together = bench.load(written("together", 1000.0, 1050.0))
    assert any("2 traces without ranks are treated as one program" in str(w) for w in together.warnings)
    assert len(set(bench.column(together, "events", "pid"))) == 2


def test_device_work_of_several_processes_in_one_trace_belongs_to_the_process_that_called(bench):
    events = []
    for number in range(30):
        kernel = {"device": number % 3, "stream": 7, "correlation": number}
        call = complete("cuda_runtime", "cudaLaunchKernel", 100.0 * number, 5.0, args={"correlation": number})
        events += [{**call, "pid": 70 + number % 3}, complete("kernel", "k", 100.0 * number + 9, 60.0, args=kernel)]
    done = bench.load(write(bench.folder / "three.json", trace(events)))
    found = bench.rows(done, "events", "device_id, pid", "kind = 'kernel'")
    assert set(found) == {(0, 70), (1, 71), (2, 72)}


def test_processes_that_are_named_in_words_are_kept_apart_without_a_warning(bench):
    events = [{**e, "pid": e["pid"] and "python train.py", "tid": "MainThread"} for e in step(0, 1000.0)]
    done = bench.load(write(bench.folder / "words.json", trace(events)))
    assert done.warnings == [] and bench.column(done, "dispatches", "pid") == [None]
    assert bench.rows(done, "events", "count(DISTINCT pid)") == [(1,)]


def test_traces_of_one_process_taken_now_and_then_are_one_workload(bench):
    for number in (0, 1):
        write(bench.folder / "cycles" / f"part{number}.json", trace(step(0, 1000.0 + 9e6 * number)))
    assert bench.load(bench.folder / "cycles").events == 2 * bench.load(bench.folder / "cycles" / "part0.json").events


def test_ranks_of_a_folder_are_one_workload_on_one_clock(bench):
    for rank, base in ((0, 5_000_000), (1, 5_002_000)):
        more = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}, "baseTimeNanoseconds": base}
        events = [{**e, "pid": e["pid"] and 7 + rank} for e in step(0, 1000.0)]
        write(bench.folder / "run" / f"rank{rank}.pt.trace.json", trace(events, **more))
    done = bench.load(bench.folder / "run")
    found = bench.rows(done, "events", "rank, start_ns", "name = 'cudaLaunchKernel'")
    assert found == [(0, 1010000), (1, 1012000)]
    assert {r for (r,) in bench.rows(done, "events", "rank")} == {0, 1} and done.name == "run"


WRONG = {
    "end before they start": complete("kernel", "k", 5.0, -1.0, pid=0),
    "have no start": {"ph": "X", "cat": "kernel", "name": "k", "dur": 5.0},
    "have no end": {"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc", "ts": 5.0},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_placed_in_time_is_named_and_left_out(bench, what):
    done = bench.load(write(bench.folder / "t.json", trace([*step(0, 1000.0), WRONG[what]])))
    assert [w for w in done.warnings if what in w] and bench.manifest(done).events == 5


@pytest.mark.parametrize("odd", ["NaN", "-1e999", "{}", "9" * 300])
def test_odd_values_anywhere_end_in_an_import_or_in_words(bench, odd):
    whole = json.dumps(trace(step(0, 1000.0)))
    for place in ('"ts": 1030.0', '"dur": 40.25', '"pid": 7', '"tid": 7', '"name": "aten::mm"', '"bytes": 4096',
                  '"correlation": 0', '"grid": [4, 2, 1]', '"cat": "kernel"', '"ph": "X"'):  # fmt: skip
        assert place in whole
        (bench.folder / "t.json").write_text(whole.replace(place, f"{place.partition(':')[0]}: {odd}", 1))
        done = bench.load(bench.folder / "t.json")
        assert all(end >= start for start, end in bench.rows(done, "events", "start_ns, end_ns"))


@pytest.mark.parametrize("odd", ["1", "0.5", "true", '"text"', "[7]", "null"])
def test_facts_of_another_type_are_not_known(bench, odd):
    facts = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "schemaVersion")
    text = json.dumps(step(0, 1000.0))
    stated = "".join(f'"{name}": {odd}, ' for name in facts)
    (bench.folder / "t.json").write_text(f'{{{stated}"traceEvents": {text}, "deviceProperties": [{{"name": "A100"}}]}}')
    manifest = bench.manifest(bench.load(bench.folder / "t.json"))
    assert (manifest.events, manifest.device, manifest.rank) == (5, "A100", None)


def test_begins_and_ends_become_ranges_and_lone_ones_are_named(bench):
    marks = [("B", "outer", 1), ("B", "inner", 2), ("E", "inner", 5), ("E", "outer", 9), ("E", "x", 10), ("B", "y", 11)]
    events = [{"ph": ph, "name": name, "pid": 1, "tid": 2, "ts": at} for ph, name, at in reversed(marks)]
    done = bench.load(write(bench.folder / "t.json", events))
    assert done.format == "chrome"
    assert bench.rows(done, "ranges", "path, start_ns, end_ns") == [
        ("outer", 1000, 9000), ("outer/inner", 2000, 5000), ("y", 11000, 11000),
    ]  # fmt: skip
    assert [w for w in done.warnings if "no begin" in w] and [w for w in done.warnings if "no end" in w]


def test_an_array_may_end_without_its_bracket_but_not_within_an_event(bench):
    text = json.dumps(step(0, 1000.0))
    (bench.folder / "t.json").write_text(text.removesuffix("]"))
    assert bench.manifest(bench.load(bench.folder / "t.json")).events == 5
    (bench.folder / "t.json").write_text(text[:-30])
    with pytest.raises(BadInput, match="damaged"):
        bench.load(bench.folder / "t.json")


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_cut_gzip_is_refused(bench, cut):
    file = write(bench.folder / "t.json.gz", trace(step(0, 1000.0)))
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(BadInput):
        bench.load(file, format="torch")
    assert bench.is_clean()


def test_a_gzip_that_grows_without_measure_is_refused(bench):
    with gzip.open(bench.folder / "t.json.gz", "wb") as out:
        out.write(b'{"deviceProperties": [], "traceEvents": [')
        for _ in range(64):
            out.write(b" " * (1 << 20))
    with pytest.raises(LimitExceeded, match="unpacks to more than"):
        bench.load(bench.folder / "t.json.gz", format="torch")


@pytest.mark.parametrize("deep", ['{"a":' * 50_000, "[" * 100_000])
def test_deep_nesting_is_refused(bench, deep):
    (bench.folder / "t.json").write_text(f'{{"traceEvents": [{{"ph": "X", "args": {deep}')
    with pytest.raises(BadInput, match="damaged"):
        bench.load(bench.folder / "t.json", format="chrome")


def test_ranges_that_overlap_by_the_thousand_do_not_take_for_ever(bench):
    events = [complete("user_annotation", f"r{i}", float(i), 1e6) for i in range(20_000)]
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert done.dispatches == 0 and len(bench.column(done, "ranges", "name")) == 20_000


def test_a_trace_of_rocprof_v1_has_its_lanes_arrows_and_exact_times(bench):
    def lane(pid, name):
        return {"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name"}

    def event(lane, row, name, span, **args):
        begin, end = span
        exact = {"BeginNs": str(begin), "EndNs": str(end), **args}
        return {"ts": begin // 1000, "dur": (end - begin) // 1000, "ph": "X", "pid": lane, "tid": row, "name": name,
                "args": exact}  # fmt: skip

    events = [
        {}, lane(2, "CPU HIP API"), lane(1, "COPY"), lane(6, "GPU0"), lane(0, "Markers and Ranges"),
        event(0, 11, "step", (1_000_000, 9_000_000), pid="99", tid="11"),
        event(2, 11, "hipLaunchKernel", (2_000_001, 2_005_003), pid="99", tid="11"),
        event(2, 11, "hipDeviceSynchronize", (3_000_000, 8_000_000), pid="99", tid="11"),
        event(6, 0, "axpy(float*) [clone .kd]", (4_000_007, 4_100_009), pid="99"),
        event(1, 0, "CopyHostToDevice", (5_000_000, 5_000_900), pid="99"),
        {"ts": 2000, "ph": "s", "cat": "DataFlow", "id": 3, "pid": 2, "tid": 11, "name": "dep"},
        {"ts": 4000, "ph": "t", "cat": "DataFlow", "id": 3, "pid": 6, "tid": 0, "name": "dep"},
    ]  # fmt: skip
    done = bench.load(write(bench.folder / "results.json", {"traceEvents": events}))
    assert (done.format, bench.manifest(done).vendor) == ("rocprof-trace", "amd")
    assert bench.rows(done, "events", "kind, name, device_id, start_ns, end_ns, correlation, range_id") == [
        ("api", "hipLaunchKernel", None, 2_000_001, 2_005_003, 3, 1),
        ("sync", "hipDeviceSynchronize", None, 3_000_000, 8_000_000, None, 1),
        ("kernel", "axpy(float*)", 0, 4_000_007, 4_100_009, 3, 1),
        ("copy", "h2d", None, 5_000_000, 5_000_900, None, None),
    ]
    assert bench.rows(done, "ranges", "name, source, pid, thread") == [("step", "roctx", 99, 11)]


@pytest.mark.parametrize("text", ['{"traceEvents": []}', '{"displayTimeUnit": "ms", "traceEvents": [ ], "x": 1}\n'])
def test_a_trace_without_events_is_called_that(bench, text):
    (bench.folder / "t.json").write_text(text)
    with pytest.raises(BadInput, match="t.json is a trace without events"):
        bench.load(bench.folder / "t.json")


@pytest.mark.parametrize("events", [
    [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1_765_432_109_876_543_210, "dur": 5_000}],
    [{"ph": "X", "name": "k", "ts": "1765432109876543210.5", "dur": 5_000}],
    [{"ph": "B", "name": "k", "tid": 1, "ts": 1.76e18}, {"ph": "E", "tid": 1, "ts": 1.77e18}],
])  # fmt: skip
def test_times_in_ns_where_the_format_has_us_are_told_as_such(bench, events):
    with pytest.raises(BadInput, match=r"it looks like ns.*Divide ts and dur by 1000"):
        bench.load(write(bench.folder / "t.json", {"traceEvents": events}))
    assert bench.is_clean()


def test_a_time_that_no_unit_explains_is_not_called_ns(bench):
    events = [{"ph": "X", "name": "k", "ts": 10**40, "dur": 5}]
    with pytest.raises(BadInput, match="no start") as found:
        bench.load(write(bench.folder / "t.json", {"traceEvents": events}))
    assert "looks like ns" not in found.value.text


def of_rank(rank, events):
    """The events of one rank in a trace that TraceLens merged from those of several ranks."""
    merged = json.loads(json.dumps(events))
    for event in merged:
        event["pid"] += 1000 * rank
        args = event.setdefault("args", {})
        args["rank"] = rank
        if "correlation" in args:
            args["correlation"] += 1000 * rank
    return merged


def test_the_ranks_of_a_merged_trace_are_those_that_its_events_state(bench):
    events = [event for rank in (0, 3) for n in range(3) for event in of_rank(rank, step(n, 1000.0 * (n + 1)))]
    merged = trace(events, distributedInfo={"rank": 0, "world_size": 4})
    done = bench.load(write(bench.folder / "t.json", merged))
    assert bench.rows(done, "ranks", "rank, dispatches") == [(0, 3), (3, 3)]
    for table in ("events", "ranges"):
        assert sorted(set(bench.column(done, table, "rank"))) == [0, 3]
    assert set(bench.column(done, "dispatches", "rank")) == {0, 3} and bench.manifest(done).rank is None


def test_device_work_of_an_unknown_category_is_named_with_its_number(bench):
    odd = [complete("mtia_ccp_events", f"job {n}", 500.0 + n, 1.0, args={"stream": 3}) for n in range(5)]
    odd += [complete("privateuse1_kernel", "k", 600.0, 1.0, args={"correlation": 3}), complete("other", "x", 1.0, 1.0)]
    done = bench.load(write(bench.folder / "t.json", trace(step(0, 1000.0) + odd)))
    (warning,) = done.warnings
    assert "6 events" in warning and "mtia_ccp_events (5), privateuse1_kernel." in warning


def test_skipped_instants_are_named(bench):
    instants = [{"ph": "i", "name": "Iteration Start", "ts": 1, "pid": 1, "tid": 1, "s": "g"}] * 3
    instants.append({"ph": "i", "name": "Record Window End", "ts": 9, "pid": 1, "tid": 1})
    done = bench.load(write(bench.folder / "t.json", trace(step(0, 1000.0) + instants)))
    assert "4 instants of the trace were skipped: Iteration Start (3), Record Window End." in done.notes


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("ts", "NaN", "NaN"),
        ("dur", "-Infinity", "-Infinity"),
        ("ts", "1e400", "1e400"),
        ("dur", f"{2**70}", f"{2**70}"),
    ],
)
def test_a_time_that_is_no_number_is_shown_as_the_file_spells_it(bench, field, value, shown):
    event = {"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 7, "tid": 7, "ts": 1, "dur": 1, field: "ODD"}
    text = json.dumps(trace([*step(0, 1000.0), event])).replace('"ODD"', value)
    (bench.folder / "t.json").write_text(text)
    done = bench.load(bench.folder / "t.json")
    assert f"1 value of {field} cannot be used: {shown}." in done.warnings


def test_a_size_beyond_64_bits_is_named(bench):
    events = step(0, 1000.0)
    events[5]["args"]["bytes"] = 2**63
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert done.warnings == [f"1 value of bytes cannot be used: {2**63}."]
    assert bench.rows(done, "events", "bytes", "kind = 'copy'") == [(None,)]


V1_TABLE = """Index,KernelName,gpu-id,queue-id,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,BeginNs,EndNs
0,"axpy(float*) [clone .kd]",0,0,99,11,65536,256,512,0,24,16,4000007,4100009
"""


@pytest.mark.parametrize("packed", [False, True])
def test_sizes_and_registers_come_from_the_table_beside_a_trace_of_rocprof_v1(bench, packed):
    def event(begin, end):
        exact = {"BeginNs": str(begin), "EndNs": str(end), "pid": "99"}
        return {"ts": begin // 1000, "dur": 100, "ph": "X", "pid": 6, "tid": 0, "name": "axpy(float*)", "args": exact}

    lanes = [{"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name"}
             for pid, name in ((2, "CPU HIP API"), (6, "GPU0"))]  # fmt: skip
    events = [*lanes, event(4_000_007, 4_100_009), event(5_000_000, 5_000_100)]
    file = write(bench.folder / "in" / "results.json", {"traceEvents": events})
    table = V1_TABLE.encode()
    (file.parent / ("results.csv.gz" if packed else "results.csv")).write_bytes(
        gzip.compress(table) if packed else table
    )
    agent = "*******\nAgent 1\n*******\n  Name:  gfx90a\n  Marketing Name: AMD Instinct MI210\n  Device Type: GPU\n"
    (file.parent / "results.sysinfo.txt").write_text(agent)
    done = bench.load(file)
    sizes = bench.rows(done, "dispatches", "grid, workgroup_size, vgpr, lds_bytes")
    assert sizes == [(65536, 256, 24, 512), (None, None, None, None)]
    assert (done.arch, done.device) == ("gfx90a", "AMD Instinct MI210")
    assert any("1 launch is not in results.csv" in warning for warning in done.warnings)


@pytest.mark.parametrize(("stated", "stored"), [(7, 7), ("0x7f2a10", 0x7F2A10), ("default", None), (None, None)])
def test_a_host_call_has_the_stream_that_it_names(bench, stated, stored):
    events = step(0, 1000.0)
    events[2]["args"]["stream"] = stated
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert bench.rows(done, "events", "stream", "name = 'cudaLaunchKernel'") == [(stored,)]


@pytest.mark.parametrize(("units", "version", "target"), [(304, (9, 4), "gfx942"), (104, (9, 0), "gfx90a"),
                                                          (120, (9, 0), "gfx908"), (77, (9, 0), None)])  # fmt: skip
def test_an_amd_gpu_without_a_name_is_known_by_its_version_and_compute_units(bench, units, version, target):
    events = [{**event, "cat": event["cat"].replace("cuda_", "hip_"), "name": event["name"].replace("cuda", "hip")}
              for event in step(0, 1000.0)]  # fmt: skip
    device = {"id": 0, "name": "", "computeMajor": version[0], "computeMinor": version[1], "numSms": units}
    done = bench.load(write(bench.folder / "t.json", trace(events, deviceProperties=[device])))
    assert (done.device, done.arch, bench.manifest(done).vendor) == (None, target, "amd")


def test_the_first_device_with_a_name_is_the_device_of_a_trace(bench):
    named = {"id": 1, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}
    done = bench.load(write(bench.folder / "t.json", trace(step(0, 1000.0), deviceProperties=[{"id": 0}, named])))
    assert (done.device, done.arch) == ("NVIDIA H100 80GB HBM3", "sm_90")


OLD = {"user_annotation": "Operator", "cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel",
       "gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}  # fmt: skip


def of_old_kineto(events):
    """The events as PyTorch 1.8 and 1.9 spelled them; every event refers to an operator."""
    old = []
    for event in events:
        if event["ph"] == "s":
            old.append({**event, "cat": "async"})
            continue
        stated = {"kernel": "external id", "cuda_runtime": "external id"}.get(event["cat"], "External id")
        thread = "stream 7" if event["pid"] == 0 else str(event["tid"])
        args = {**event.get("args", {}), stated: 5}
        old.append({**event, "cat": OLD[event["cat"]], "tid": thread, "args": args})
    return old


def test_old_categories_of_kineto_are_read_as_those_of_today(bench):
    events = step(0, 1000.5) + step(1, 2000.5)
    fill = {"device": 0, "stream": 7, "correlation": 5, "bytes": 64}
    events.append(complete("gpu_memset", "Memset (Device)", 2090.0, 1.0, pid=0, tid=7, args=fill))
    for event in events:
        if event["name"] == "step":
            event["name"] = "ProfilerStep#3"
    new = bench.load(write(bench.folder / "new.json", trace(events)))
    old = bench.load(write(bench.folder / "old.json", trace(of_old_kineto(events))))
    assert (old.format, old.arch, old.device, old.warnings) == ("torch", "sm_90", "NVIDIA H200", [])
    tables = ("events", "* EXCLUDE (host)"), ("ranges", "name, path, source, pid, thread, start_ns, end_ns")
    for table, columns in tables:
        assert bench.rows(old, table, columns) == bench.rows(new, table, columns) != []
    sizes = "kernel, grid, workgroup_size, vgpr, duration_ns, range_id"
    assert bench.rows(old, "dispatches", sizes) == bench.rows(new, "dispatches", sizes)
    assert set(bench.rows(old, "ranges", "name, source")) == {("ProfilerStep#3", "user"), ("aten::mm", "torch")}


def test_what_the_first_versions_of_pytorch_wrote_besides_json_is_read(bench):
    """Bandwidths that are not known are a bare N/A, and devices are computeProperties with a major and a minor."""
    events = [event for n in range(300) for event in step(n, 1000.5 + 1000 * n)]
    device = {"id": 0, "name": "Tesla V100-DGXS-32GB", "major": 7, "minor": 0}
    text = json.dumps({"schemaVersion": 1, "computeProperties": [device], "traceEvents": events})
    whole = write(bench.folder / "whole.json", trace(events))
    bare = bench.folder / "bare.json"
    bare.write_text(text.replace('"bytes":', '"memory bandwidth (GB/s)": N/A, "bytes":'))
    assert "N/A, " in bare.read_text()
    done = bench.load(bare)
    assert (done.device, done.arch) == ("Tesla V100-DGXS-32GB", "sm_70")
    columns = "* EXCLUDE (host)"
    assert bench.rows(done, "events", columns) == bench.rows(bench.load(whole), "events", columns) != []


@pytest.mark.parametrize("category", ["cpu_op", "Operator"])
def test_steps_with_the_category_of_operators_are_ranges_of_the_user(bench, category):
    names = ["ProfilerStep#12", "Optimizer.step#SGD.step", "enumerate(DataLoader)#_Iter.__next__", "aten::add_", 7]
    events = [complete(category, name, 10.0 * n, 5.0, args={"External id": n}) for n, name in enumerate(names)]
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert bench.column(done, "ranges", "source") == ["user", "user", "user", "torch", "torch"]


def test_the_device_s_side_of_an_old_range_is_no_second_range(bench):
    args = {"External id": 1}
    ranges = [
        complete("Operator", "ProfilerStep#1", 1.0, 5.0, args=args),
        complete("User", "ProfilerStep#1", 2.0, 5.0, pid=0, tid="stream 7 user", args=args),
    ]
    done = bench.load(write(bench.folder / "t.json", trace(ranges)))
    assert bench.rows(done, "ranges", "name, start_ns") == [("ProfilerStep#1", 1000)]


def test_old_categories_are_common_words_that_other_programs_use_for_ranges(bench):
    words = ["Kernel", "Operator", "Runtime", "User", "Memcpy"]
    events = [complete(word, word, 10.0 * n, 5.0, args={"ep": "x"}) for n, word in enumerate(words)]
    done = bench.load(write(bench.folder / "t.json", events))
    assert (done.format, done.dispatches, bench.manifest(done).events) == ("chrome", 0, 0)
    assert bench.rows(done, "ranges", "name, source") == [(word, "chrome") for word in words]


def test_memory_of_an_instant_without_a_category_is_a_sample(bench):
    args = {"Total Allocated": 4096, "Device Id": 0, "Device Type": 1}
    memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": 7, "tid": 7, "ts": 1001.0, "args": args}
    done = bench.load(write(bench.folder / "t.json", trace([*step(0, 1000.0), memory])))
    assert bench.rows(done, "events", "name, value, device_id", "kind = 'sample'") == [
        ("PyTorch memory allocated", 4096.0, 0)
    ]


def test_arrows_and_sizes_of_old_operators_are_read(bench):
    arrow = {"id": 3, "pid": 7, "cat": "forward_backward", "name": "fwd_bwd"}
    events = [
        complete("Operator", "aten::index", 12, 10, args={"External id": 1, "Input dims": [[4, 8]]}),
        complete("Operator", "IndexBackward", 50, 20, tid="8", args={"External id": 2}),
        {**arrow, "ph": "s", "tid": 7, "ts": 12},
        {**arrow, "ph": "f", "tid": 8, "ts": 50, "bp": "e"},
    ]
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert bench.rows(done, "ranges", "name, arguments, forward_ns") == [
        ("aten::index", "[[[4,8]],null,null]", None), ("IndexBackward", None, 12_000),
    ]  # fmt: skip


def asynchronous(phase, name, at_us, **more):
    """A begin or an end of an asynchronous operation, on any thread."""
    return {"ph": phase, "cat": "request", "id": 1, "name": name, "pid": 1, "tid": at_us, "ts": at_us, **more}


@pytest.mark.parametrize("known", [1, 100_000])
def test_asynchronous_operations_are_ranges_from_their_begin_to_their_end(bench, monkeypatch, known):
    monkeypatch.setattr(spool, "_TEXTS_KNOWN", known)
    keys = [{}, {"id": "0x1"}, {"cat": "other"}, {"scope": "s"}, {"pid": 2}, {"id": None, "id2": {"local": "0x1"}}]
    begins = [asynchronous("b", "work", n, **key) for n, key in enumerate(keys, 1)]
    ends = [asynchronous("e", "work", 10 * n, **key) for n, key in enumerate(keys, 1)]
    done = bench.load(write(bench.folder / "t.json", begins + ends))
    assert (done.format, done.warnings) == ("chrome", [])
    found = sorted(bench.rows(done, "ranges", "pid, start_ns, end_ns"))
    expected = [(2 if n == 5 else 1, n * 1000, 10 * n * 1000) for n in range(1, 7)]
    assert found == sorted(expected)
    assert set(bench.column(done, "ranges", "path")) == {"work"}  # none is nested in another one that is longer


def test_asynchronous_operations_of_one_id_nest_and_pair_by_name(bench):
    events = [
        asynchronous("b", "outer", 1), asynchronous("b", "outer", 2), asynchronous("b", "other", 3),
        asynchronous("n", "first token", 3), asynchronous("e", "outer", 4), asynchronous("e", "other", 5),
        asynchronous("e", "outer", 6), asynchronous("S", "old", 7), asynchronous("F", "old", 9),
    ]  # fmt: skip
    done = bench.load(write(bench.folder / "t.json", events))
    assert sorted(bench.rows(done, "ranges", "start_ns, end_ns, path")) == [
        (1000, 6000, "outer"), (2000, 4000, "outer/outer"), (3000, 5000, "other"), (7000, 9000, "old"),
    ]  # fmt: skip
    assert "1 instants of the trace were skipped: first token." in done.notes and done.warnings == []


def test_an_asynchronous_operation_takes_no_part_in_the_ranges_of_a_thread(bench):
    events = [*step(0, 1000.0), asynchronous("b", "request", 1001, pid=7, tid=7),
              asynchronous("e", "request", 1090, pid=7, tid=7), asynchronous("e", "lost", 1095)]  # fmt: skip
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    names = dict(bench.rows(done, "ranges", "range_id, name"))
    assert sorted(names.values()) == ["aten::mm", "request", "step"]
    assert {names[r] for r in bench.column(done, "events", "range_id")} == {"aten::mm", "step"}
    assert [w for w in done.warnings if "no begin" in w]


def test_a_trace_of_instants_alone_names_them_in_its_refusal(bench):
    events = [asynchronous("n", "token", n) for n in range(5)]
    with pytest.raises(BadInput, match=r"5 instants of the trace were skipped: token \(5\)"):
        bench.load(write(bench.folder / "t.json", events))
