"""Profiles of JAX and XLA: every kind of plane and line gives its rows, and what is not read is named."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.xplane import PID, Plane, part, space, write

_EVENTS = "kind, name, device_id, stream, thread, start_ns, end_ns, bytes, direction, pinned, correlation"
_RUN = "plugins/profile/2026_11_24_09_30_28"


@pytest.mark.parametrize("name", ["node.xplane.pb", "node.xplane.pb.gz", f"{_RUN}/node.xplane.pb"])
def test_every_kind_of_line_becomes_rows(bench, name):
    file = write(bench.folder / "run" / name)
    done = bench.load(bench.folder / "run" if "/" in name else file)
    assert (done.format, done.name, done.device, done.arch) == ("xplane", "node", "NVIDIA H100 80GB HBM3", "sm_90")
    assert bench.rows(done, "events", _EVENTS) == [
        ("api", "cuLaunchKernel", None, None, 100, 1_010_000, 1_015_000, None, None, None, 11),
        ("api", "cuMemcpyHtoDAsync_v2", None, None, 100, 1_016_000, 1_018_000, None, None, None, 12),
        ("kernel", "gemm_fusion", 1, 7, None, 1_030_000, 1_070_250, None, None, None, 11),
        ("api", "cuGraphLaunch", None, None, 100, 1_060_000, 1_064_000, None, None, None, 14),
        ("sync", "cuStreamSynchronize", None, None, 100, 1_065_000, 1_095_000, None, None, None, 15),
        ("copy", "h2d", 1, 13, None, 1_071_000, 1_079_000, 4096, "h2d", True, 12),
        ("fill", "fill", 1, 7, None, 1_080_000, 1_082_000, 64, None, None, 13),
        ("kernel", "loop_add_fusion", 1, 7, None, 1_090_000, 1_095_000, None, None, None, 14),
    ]
    launch = "kernel, grid, workgroup_size, vgpr, lds_bytes, duration_ns, device_id, queue_id, pid"
    assert bench.rows(done, "dispatches", launch) == [
        ("gemm_fusion", 1024, 128, 40, 1536, 40250.0, 1, 7, PID),
        ("loop_add_fusion", None, None, None, None, 5000.0, 1, 7, PID),
    ]
    manifest = bench.manifest(done)
    assert (manifest.vendor, manifest.host, manifest.tool) == ("nvidia", "node01", "XLA profiler")
    assert manifest.facts == {"cu_per_gpu": 132.0, "memory_bytes": 85e9}


def test_ranges_are_those_of_the_program_python_the_runtime_and_the_device(bench):
    done = bench.load(write(bench.folder / "node.xplane.pb"))
    rows = bench.rows(done, "ranges", "path, source, pid", "thread = 100")
    assert rows == [
        ("train", "user", PID), ("train/$loop.py:5 body", "python", PID), ("train/$loop.py:5 body/inner", "user", PID),
        ("train/$loop.py:5 body/inner/PjitFunction(f)", "xla", PID),
        ("train/$loop.py:5 body/inner/PjitFunction(f)/TSL:dot.1", "nvtx", PID),
    ]  # fmt: skip
    assert bench.rows(done, "ranges", "name, source", "thread < 0") == [
        ("dot.1", "xla"),
        ("add.2", "xla"),
        ("0", "user"),
    ]
    names = dict(bench.rows(done, "ranges", "range_id, name"))
    (kernel,) = bench.column(done, "events", "range_id", "name = 'gemm_fusion'")
    assert names[kernel] == "TSL:dot.1"


def test_what_is_not_read_is_named_with_its_number(bench):
    done = bench.load(write(bench.folder / "node.xplane.pb"))
    assert done.warnings == ["XLA warns: 2 events dropped"]
    (note,) = [note for note in done.notes if note.startswith("Events that were skipped")]
    for words in ("instants (1)", "/device:GPU:1 _counters_ (1)", "/device:TPU:0 (3)"):
        assert words in note


@pytest.mark.parametrize("part_of_it", [0.2, 0.5, 0.9])
def test_a_cut_file_is_refused(bench, part_of_it):
    content = space()
    with pytest.raises(BadInput, match="node.xplane.pb is damaged"):
        bench.load(write(bench.folder / "node.xplane.pb", content[: int(len(content) * part_of_it)]))


def test_a_profile_without_events_is_refused(bench):
    empty = part(1, Plane("/host:metadata").message())
    with pytest.raises(BadInput, match="contains no events"):
        bench.load(write(bench.folder / "node.xplane.pb", empty))


def test_the_profiles_of_several_hosts_are_imported_one_by_one(bench):
    for host in ("a", "b"):
        write(bench.folder / "run" / _RUN / f"{host}.xplane.pb")
    with pytest.raises(BadInput, match="contains 2 profiles of XLA"):
        bench.load(bench.folder / "run")


def test_an_event_that_ends_before_it_starts_is_named_and_one_without_a_name_is_read(bench):
    gpu = Plane("/device:GPU:0")
    gpu.line(1, "Stream #1", gpu.event("k", 1, 2), gpu.event("unknown", 4, 1), gpu.event("back", 5, -3))
    gpu.events = {"k": 1}
    done = bench.load(write(bench.folder / "node.xplane.pb", part(1, gpu.message())))
    rows = bench.rows(done, "events", "name, end_ns - start_ns", "kind = 'kernel'")
    assert rows == [("k", 2000), ("(no name)", 1000)]
    assert "Events that were skipped: totals and impossible times (1)." in done.notes
