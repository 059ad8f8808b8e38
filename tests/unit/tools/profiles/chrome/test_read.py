"""Traces in Chrome's format: what is in them is in the store, and what is wrong in them is named."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal

import pytest

from rooflens.analysis.base.problems import BadInput, LimitExceeded
from rooflens.tests.made.chrome import complete, step, trace, write
from rooflens.tests.support.bench import Bench
from rooflens.tools.base import size_limits
from rooflens.tools.profiles.parsing import spool

KERNELS, COPIES, PER_STEP = 96.8, 0.7, 44
"""Kernels and copies busy, in % of the time from the first step; kernels of a step (traces/README.md)."""


def union(spans):
    """Time that intervals cover, counted once."""
    total, last = 0, None
    for start, end in sorted(spans):
        last = start if last is None else max(last, start)
        total, last = total + max(0, end - last), max(last, end)
    return total


@pytest.fixture(scope="module")
def recorded_trace(shared, tmp_path_factory):
    """A recorded trace of PyTorch as it was imported, and its events."""
    bench, file = Bench(tmp_path_factory.mktemp("trace")), shared / "traces" / "gpu_bound.json.gz"
    events = json.loads(gzip.decompress(file.read_bytes()), parse_float=Decimal)["traceEvents"]
    return bench, bench.load(file), events


def test_a_recorded_trace_gives_the_counts_times_and_shares_that_its_json_has(recorded_trace):
    bench, done, every = recorded_trace
    events = [event for event in every if event.get("ph") == "X"]
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
    assert 100 * union(spans["kernel"]) / wall == pytest.approx(KERNELS, abs=0.06)
    assert 100 * union(spans["copy"]) / wall == pytest.approx(COPIES, abs=0.06)
    assert len(spans["kernel"]) == done.dispatches == 6 * PER_STEP


def test_device_work_belongs_to_the_innermost_range_around_its_call(recorded_trace):
    bench, done, events = recorded_trace
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


ODD = ("NaN", "-1e999", "{}", "9" * 300)
PLACES = ('"ts": 1030.0', '"dur": 40.25', '"pid": 7', '"tid": 7', '"name": "aten::mm"', '"bytes": 4096',
          '"correlation": 0', '"grid": [4, 2, 1]', '"cat": "kernel"', '"ph": "X"')  # fmt: skip


def test_odd_values_anywhere_cost_no_other_event_of_the_trace(bench):
    whole = json.dumps(step(0, 1000.0))[1:-1]
    assert all(place in whole for place in PLACES)
    odd = [whole.replace(place, f"{place.partition(':')[0]}: {value}", 1) for place in PLACES for value in ODD]
    (bench.folder / "t.json").write_text(f'{{"deviceProperties": [], "traceEvents": [{", ".join([*odd, whole])}]}}')
    done = bench.load(bench.folder / "t.json")
    spans = bench.rows(done, "events", "start_ns, end_ns")
    assert len(spans) > 4 * len(odd) and all(end >= start for start, end in spans)


def test_a_gzip_that_grows_without_measure_is_refused(bench, monkeypatch):
    monkeypatch.setattr(size_limits, "GZIP_FREE", 1 << 20)
    content = b'{"deviceProperties": [], "traceEvents": [' + b" " * (4 << 20)
    (bench.folder / "t.json.gz").write_bytes(gzip.compress(content))
    with pytest.raises(LimitExceeded, match="unpacks to more than"):
        bench.load(bench.folder / "t.json.gz", format="torch")


@pytest.mark.parametrize("deep", ['{"a":' * 50_000, "[" * 100_000])
def test_deep_nesting_is_refused(bench, deep):
    (bench.folder / "t.json").write_text(f'{{"traceEvents": [{{"ph": "X", "args": {deep}')
    with pytest.raises(BadInput, match="damaged"):
        bench.load(bench.folder / "t.json", format="chrome")


def test_ranges_that_overlap_by_the_thousand_do_not_take_for_ever(bench):
    events = [complete("user_annotation", f"r{i}", float(i), 1e6) for i in range(4_000)]
    done = bench.load(write(bench.folder / "t.json", trace(events)))
    assert done.dispatches == 0 and len(bench.column(done, "ranges", "name")) == 4_000


def test_what_the_first_versions_of_pytorch_wrote_besides_json_is_read(bench):
    """Bandwidths that are not known are a bare N/A, and devices are computeProperties with a major and a minor."""
    events = [event for n in range(12) for event in step(n, 1000.5 + 1000 * n)]
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


def asynchronous(phase, name, at_us, **more):
    """A begin or an end of an asynchronous operation, on any thread."""
    return {"ph": phase, "cat": "request", "id": 1, "name": name, "pid": 1, "tid": at_us, "ts": at_us, **more}


def test_asynchronous_operations_find_their_end_also_if_their_names_are_forgotten(bench, monkeypatch):
    monkeypatch.setattr(spool, "_TEXTS_KNOWN", 1)
    keys = [{}, {"id": "0x1"}, {"cat": "other"}, {"scope": "s"}, {"pid": 2}, {"id": None, "id2": {"local": "0x1"}}]
    begins = [asynchronous("b", "work", n, **key) for n, key in enumerate(keys, 1)]
    ends = [asynchronous("e", "work", 10 * n, **key) for n, key in enumerate(keys, 1)]
    done = bench.load(write(bench.folder / "t.json", begins + ends))
    assert (done.format, done.warnings) == ("chrome", [])
    found = sorted(bench.rows(done, "ranges", "pid, start_ns, end_ns"))
    expected = [(2 if n == 5 else 1, n * 1000, 10 * n * 1000) for n in range(1, 7)]
    assert found == sorted(expected)
    assert set(bench.column(done, "ranges", "path")) == {"work"}  # none is nested in another one that is longer
