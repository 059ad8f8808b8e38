"""Perfetto traces: track events of every kind, on whatever clock, and damage."""

from __future__ import annotations

import zlib

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.perfetto import begin, end, message, named, packet, slice_, thread, trace


@pytest.fixture
def load(bench):
    def write(content, name="run.pftrace"):
        (bench.folder / name).write_bytes(content)
        return bench.load(bench.folder / name)

    return write


def test_a_trace_becomes_events_ranges_launches_and_samples(bench, load):
    done = load(trace())
    assert (done.format, done.name, done.dispatches, done.warnings) == ("perfetto", "run", 1, [])
    columns = "kind, name, device_id, stream, pid, thread, start_ns, end_ns, bytes, correlation, range_id, category"
    assert bench.rows(done, "events", columns) == [
        ("api", "hipLaunchKernel", None, None, 50, 51, 1100, 1200, None, 7, 1, "launch"),
        ("api", "hipMemcpyAsync", None, None, 50, 51, 1250, 1300, None, 8, 1, "copy"),
        ("sync", "hipDeviceSynchronize", None, None, 50, 51, 1400, 2600, None, 9, 1, "runtime"),
        ("kernel", "axpy(float*)", 1, 3, 50, None, 1500, 2000, None, 7, 1, None),
        ("sample", "GPU Power [1] (S)", 1, None, 50, None, 1600, 1600, None, None, None, "watts"),
        ("copy", "h2d", 1, 3, 50, None, 2100, 2500, 4096, 8, 1, None),
    ]
    assert bench.rows(done, "ranges", "name, source, thread, start_ns, end_ns") == [
        ("main", "rocprof-sys", 51, 1000, 3000)
    ]
    assert bench.column(done, "events", "value", "kind = 'sample'") == [251.5]


def test_packed_packets_and_interned_names_are_read(bench, load):
    interned = message(f1=message(f1=1, f2="rocm_hip_api"), f2=message(f1=2, f2="hipMalloc"))
    first = packet(f8=10, f10=5, f12=interned, f13=1, f11=message(f9=1, f11=1, f3=1, f10=2))
    second = packet(f8=20, f10=5, f11=message(f9=2, f11=1))
    done = load(thread(1, 50, 51) + packet(f50=zlib.compress(first + second)))
    assert bench.rows(done, "events", "kind, name, start_ns, end_ns") == [("alloc", "hipMalloc", 10, 20)]


def test_times_that_count_from_the_last_packet_add_up_from_the_snapshot(bench, load):
    clocks = [message(f1=6, f2=5_000_000), message(f1=64, f2=100, f3=1, f4=10)]
    start = packet(f10=5, f6=message(f1=clocks), f59=message(f58=64, f11=message(f11=1)))
    one = packet(f8=7, f10=5, f11=message(f9=1, f23="hipFree", f22="hip_api"))
    two = packet(f8=30, f10=5, f11=message(f9=2))
    done = load(thread(1, 50, 51) + start + one + two)
    assert bench.rows(done, "events", "start_ns, end_ns") == [(5_000_070, 5_000_370)]


def test_other_programs_have_their_slices_as_ranges(bench, load):
    done = load(named(9, "work") + slice_((5, 9), 9, "outer", "app") + begin(10, 9, "never ended", "app") + end(3, 9))
    assert [w for w in done.warnings if "no begin" in w] and [w for w in done.warnings if "no end" in w]
    assert bench.rows(done, "ranges", "name, source") == [("outer", "perfetto"), ("never ended", "perfetto")]
    assert done.dispatches == 0 and not bench.rows(done, "dispatches")


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_cut_trace_is_refused(bench, load, cut):
    with pytest.raises(BadInput, match="damaged"):
        load(trace()[:-cut])
    assert bench.is_clean()


@pytest.mark.parametrize("odd", [b"\x0a\xff\xff\xff\xff\x7f", b"\x0a\x02\x5b", b"\x0a\x03\x42\xff\xff", b"\x0b"])
def test_what_is_no_message_is_refused(bench, load, odd):
    with pytest.raises(BadInput):
        load(trace() + odd)
    assert bench.is_clean()
