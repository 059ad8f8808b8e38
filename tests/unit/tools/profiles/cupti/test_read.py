"""Recordings made by the tests: launches, devices, ranges, and files that are damaged."""

from __future__ import annotations

import struct

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.cupti import END, INSTANT, MAGIC, START, Recording, chunk
from rooflens.tools.query_counters import query_counters


def ranges_of(bench, done) -> dict[int, str | None]:
    """Launch (its number) -> path of its range."""
    sql = "SELECT dispatch_id, r.path FROM dispatches d LEFT JOIN ranges r USING (workload, range_id) "
    return dict(query_counters(bench.store, sql + f"WHERE d.workload = '{done.workload}' ORDER BY 1").table.rows)


def test_a_launch_has_its_sizes(bench):
    done = bench.load(Recording().device().kernel().put(bench.folder / "node_100.record"))
    columns = "kernel, pid, device_id, queue_id, grid, workgroup_size, vgpr, agpr, sgpr, lds_bytes, scratch_bytes, "
    (row,) = bench.rows(done, "dispatches", columns + "cluster, start_ns, end_ns, duration_ns")
    assert row == ("k", 100, 0, 7, 512, 64, 40, None, None, 1040, 8, None, 1000, 1100, 100.0)
    manifest = bench.manifest(done)
    assert (manifest.arch, manifest.device, manifest.host, manifest.format) == ("sm_90", "NVIDIA H200", "node", "cupti")
    assert manifest.facts == {"cu_per_gpu": 132, "max_sclk": 1980, "memory_bytes": 150_109_880_320}


def test_launches_come_in_the_order_of_their_calls(bench):
    made = Recording().device().kernel("b", 500, at=2).kernel("a", 900, at=1).kernel("c", 100, at=3)
    done = bench.load(made.put(bench.folder / "node_100.record"))
    assert bench.column(done, "dispatches", "kernel") == ["a", "b", "c"]


def test_a_mangled_name_is_shown_readable_and_kept(bench):
    done = bench.load(Recording().device().kernel("_Z4axpyIfEvPT_i").put(bench.folder / "node_100.record"))
    ((kernel, raw),) = bench.rows(done, "dispatches", "kernel, kernel_raw")
    assert raw == "_Z4axpyIfEvPT_i"
    assert kernel in ("void axpy<float>(float*, int)", raw)


def test_a_launch_belongs_to_the_innermost_range_of_its_thread(bench):
    made = Recording().device()
    made.mark(10, 1, START, "step").launch(15).mark(20, 2, START, "forward").launch(25).mark(30, 2, END)
    made.launch(35).mark(40, 1, END).launch(45)
    done = bench.load(made.put(bench.folder / "node_100.record"))
    assert ranges_of(bench, done) == {0: "step", 1: "step/forward", 2: "step", 3: None}
    columns = "range_id, name, path, thread, start_ns, end_ns, depth, source"
    assert bench.rows(done, "ranges", columns) == [
        (1, "step", "step", 1, 10, 40, 0, "nvtx"),
        (2, "forward", "step/forward", 1, 20, 30, 1, "nvtx"),
    ]
    assert any("2 ranges" in note for note in done.notes) and any("3 of 4 launches" in note for note in done.notes)


def test_a_thread_without_ranges_works_for_the_only_one_that_has_some(bench):
    made = Recording().device()
    made.mark(10, 1, START, "step").launch(15, thread=2).mark(20, 2, START, "other", thread=3)
    made.launch(25, thread=2).launch(26, thread=1).launch(27, thread=3).mark(30, 2, END, thread=3).launch(35, thread=2)
    done = bench.load(made.mark(40, 1, END).put(bench.folder / "node_100.record"))
    assert ranges_of(bench, done) == {0: "step", 1: None, 2: "step", 3: "other", 4: "step"}


def test_ranges_that_overlap_end_each_for_itself(bench):
    made = Recording().device().mark(10, 1, START, "a").mark(20, 2, START, "b").mark(30, 1, END).launch(35)
    done = bench.load(made.mark(40, 2, END).put(bench.folder / "node_100.record"))
    assert ranges_of(bench, done) == {0: "a/b"}
    assert bench.rows(done, "ranges", "name, start_ns, end_ns") == [("a", 10, 30), ("b", 20, 40)]


def test_an_open_range_ends_with_the_recording(bench):
    made = Recording().device().mark(10, 1, START, "step").launch(15).mark(12, 9, INSTANT, "now")
    done = bench.load(made.put(bench.folder / "node_100.record", ended=False))
    assert bench.rows(done, "ranges", "name, start_ns, end_ns") == [("step", 10, 20)]
    assert any("1 range was still open" in note for note in done.notes)
    assert any("exit handlers" in warning for warning in done.warnings)


def test_ranges_of_two_processes_stay_apart(bench):
    for pid in (100, 200):
        made = Recording(process=pid, realtime_ns=pid).device()
        made.mark(10, 1, START, f"of {pid}").launch(15).mark(40, 1, END)
        made.put(bench.folder / "rec" / f"node_{pid}.record")
    done = bench.load(bench.folder / "rec")
    assert ranges_of(bench, done) == {0: "of 100", 1: "of 200"}
    assert bench.rows(done, "ranges", "name, pid") == [("of 100", 100), ("of 200", 200)]


@pytest.mark.parametrize(
    ("uuids", "numbers"),
    [
        ([(0, b"a" * 16), (1, b"b" * 16)], [0, 1]),  # both see both
        ([(0, b"a" * 16), (0, b"b" * 16)], [0, 1]),  # each sees one
        ([(0, b"a" * 16), (0, b"a" * 16)], [0, 0]),  # one GPU
        ([(1, b"a" * 16), (0, b"a" * 16)], [0, 0]),  # one GPU under two numbers
        ([(3, b"a" * 16), (5, b"b" * 16)], [3, 5]),  # numbers that say which is which
    ],
)
def test_gpus_are_told_apart_by_what_they_are(bench, uuids, numbers):
    for i, (device, uuid) in enumerate(uuids):
        made = Recording(process=100 + i, realtime_ns=i).device(device, uuid).kernel(device=device)
        made.put(bench.folder / "rec" / f"node_{i}.record")
    done = bench.load(bench.folder / "rec")
    assert bench.column(done, "dispatches", "device_id") == numbers


def test_processes_are_numbered_by_rank_else_as_they_began(bench):
    for i, (rank, began) in enumerate([(1, 5), (0, 9)]):
        for folder, info in (("ranked", {"RANK": rank}), ("plain", {})):
            made = Recording(process=100 + i, realtime_ns=began, **info).device().kernel(f"of {100 + i}")
            made.put(bench.folder / folder / f"node_{i}.record")
    ranked, plain = bench.load(bench.folder / "ranked"), bench.load(bench.folder / "plain")
    assert bench.rows(ranked, "dispatches", "rank, kernel") == [(0, "of 101"), (1, "of 100")]
    assert bench.column(plain, "dispatches", "kernel") == ["of 100", "of 101"]


def test_a_process_without_launches_does_not_count(bench):
    Recording(process=1).put(bench.folder / "rec" / "node_1.record")
    Recording(process=2).device().kernel().put(bench.folder / "rec" / "node_2.record")
    done = bench.load(bench.folder / "rec")
    assert (done.dispatches, done.warnings) == (1, [])


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_file_cut_in_its_last_chunk_is_read_up_to_there(bench, cut):
    whole = Recording().device().kernel("a").kernel("b", at=2)
    path = whole.put(bench.folder / "node_100.record", ended=False)
    path.write_bytes(path.read_bytes()[:-cut])
    done = bench.load(path)
    assert bench.column(done, "dispatches", "kernel") == ["a"]


def test_what_a_later_recorder_adds_is_skipped(bench):
    made = Recording().device().kernel("longer", more=b"12345678")
    made.content += chunk("COPY", b"x" * 640, 64)
    done = bench.load(made.kernel("k", at=2).put(bench.folder / "node_100.record"))
    assert bench.column(done, "dispatches", "kernel") == ["longer", "k"]


def test_records_that_were_dropped_are_told(bench):
    made = Recording().device().kernel()
    made.content += chunk("LOST", struct.pack("<Q", 1234), 8)
    done = bench.load(made.put(bench.folder / "node_100.record"))
    assert any("dropped 1,234 records" in warning for warning in done.warnings)


def test_names_that_are_missing_or_hostile_do_no_harm(bench):
    made = Recording().device().kernel("evil\x1b[31m\u202ename")
    made.names["gone"] = 77
    done = bench.load(made.kernel("gone", at=2).put(bench.folder / "node_100.record"))
    assert bench.column(done, "dispatches", "kernel") == ["evilname", "(no name)"]


@pytest.mark.parametrize(
    "content",
    [
        b"RFLREC1",
        MAGIC,
        MAGIC + b"KERN",
        MAGIC + chunk("KERN", b"x" * 40, 40),
        MAGIC + chunk("KERN", b"x" * 40, 0),
        MAGIC + struct.pack("<4sIQ", b"KERN", 104, 1 << 62),
        MAGIC + struct.pack("<4sIQ", b"NAME", 0, 1 << 62) + b"\xff" * 64,
        MAGIC + chunk("DEVC", b"\xff" * 48, 48),
        MAGIC + chunk("MARK", b"\xff" * 40, 40) + chunk("LNCH", b"\xff" * 32, 32),
    ],
)
def test_a_file_without_launches_or_damaged_is_refused(bench, content):
    path = bench.folder / "node_100.record"
    path.write_bytes(content)
    with pytest.raises(BadInput):
        bench.load(path, format="cupti")
    assert bench.is_clean()


def test_numbers_beyond_measure_become_null(bench):
    made = Recording().device()
    made.name("k")
    for kind, size in (("KERN", 104), ("MARK", 40), ("LNCH", 32)):
        made.content += chunk(kind, b"\xff" * size, size)
    done = bench.load(made.put(bench.folder / "node_100.record"))
    assert bench.rows(done, "dispatches", "grid, start_ns, duration_ns") == [(None, None, None)]
