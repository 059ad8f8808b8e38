"""Texts of roctracer as rocprof v1 leaves them in its data folder, written from the form of its file plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooflens.analysis.base.problems import BadInput
from rooflens.tools.compute_timeline import compute_timeline

PID, TID = 3100, 3101
HIP = """1000:2000 3100:3101 hipMalloc(ptr=0x7f, size=4096) :1
2100:2300 3100:3101 hipMemcpy(dst=0x7f, src=0x1, sizeBytes=4096, kind=1) :2
3000:3050 3100:3101 hipLaunchKernel(func=0x2, grid={64,1,1}, (a, b)) kernel=void scale<float>(float*, int) :3
3060:9000 3100:3101 hipDeviceSynchronize() :4
"""
OPS = """2150:2250 0:0 CopyHostToDevice:2:3100
3200:8800 0:1 void scale<float>:3:3100
8850:8860 0:1 Marker:4:3100
8900:8910 0:1 FillBuffer:5:3100
"""
HSA = "2120:2140 3100:3101 hsa_amd_memory_async_copy(0x1, 0x2) = 0 :77\n"
ROCTX = """900 3100:3101 1:0:"step 0"
950 3100:3101 0:0:"a mark"
2900 3100:3101 1:0:"scale: "inner""
9050 3100:3101 2:0:""
9100 3100:3101 2:0:""
"""


def written(folder: Path, prefix: str = "", **more: str) -> Path:
    inner = folder / "data" / "rpl_data_1" / "input_results_1"
    inner.mkdir(parents=True)
    texts = {"hip_api": HIP, "hcc_ops": OPS, "hsa_api": HSA, "roctx": ROCTX} | more
    for name, text in texts.items():
        (inner / f"{prefix}{name}_trace.txt").write_text(text)
    return folder / "data"


@pytest.mark.parametrize("prefix", ["", "3100_"])
def test_calls_work_and_ranges_are_linked(bench, prefix):
    done = bench.load(written(bench.folder, prefix))
    assert done.format == "rocprof-texts" and not done.warnings
    told = "kind, name, device_id, stream, pid, thread, start_ns, end_ns, direction, correlation, range_id"
    assert bench.rows(done, "events", told) == [
        ("alloc", "hipMalloc", None, None, PID, TID, 1000, 2000, None, 1, 1),
        ("api", "hipMemcpy", None, None, PID, TID, 2100, 2300, None, 2, 1),
        ("api", "hsa_amd_memory_async_copy", None, None, PID, TID, 2120, 2140, None, None, 1),
        ("copy", "h2d", 0, 0, PID, None, 2150, 2250, "h2d", 2, 1),
        ("api", "hipLaunchKernel", None, None, PID, TID, 3000, 3050, None, 3, 2),
        ("sync", "hipDeviceSynchronize", None, None, PID, TID, 3060, 9000, None, 4, 2),
        ("kernel", "void scale<float>", 0, 1, PID, None, 3200, 8800, None, 3, 2),
        ("fill", "fill", 0, 1, PID, None, 8900, 8910, None, 5, None),
    ]  # fmt: skip
    assert bench.rows(done, "ranges", "path, start_ns, end_ns") == [
        ("step 0", 900, 9100), ('step 0/scale: "inner"', 2900, 9050),
    ]  # fmt: skip
    assert bench.rows(done, "dispatches", "kernel, duration_ns, grid, range_id") == [
        ("void scale<float>", 5600.0, None, 2)
    ]
    assert any("neither launch sizes" in note for note in done.notes)
    assert compute_timeline(bench.store, done.workload).kernels.rows[0][0] == "void scale<float>"


def test_copies_of_hsa_are_read_where_hip_tells_none(bench):
    done = bench.load(written(bench.folder, hcc_ops="", async_copy="2130:2240 async-copy:77:3100\n"))
    assert bench.rows(done, "events", "kind, name, start_ns", "kind = 'copy'") == [("copy", "other", 2130)]


def test_lines_of_another_form_are_counted_and_hostile_ones_take_no_time(bench):
    odd = ["x" * 300_000, f"5:{10**18 * 99} 1:1 f() :1", "7:6 0:0 backwards:9:3100", "1:2 0:0 " + ":" * 60_000]
    slow = "\n".join(f"1:2 3:4 f({' ' * 60_000}x" for _ in range(20))
    ops, roctx = OPS + "\n".join(odd), '5 1:1 2:0:""\n' + ROCTX[:60]
    done = bench.load(written(bench.folder, hip_api=slow, hcc_ops=ops, roctx=roctx))
    said = " ".join(done.warnings)
    assert "Skipped in hcc_ops_trace.txt: " in said and "end before they start" in said
    assert "ends of ranges have no begin" in said and "1 range has no end" in said


def test_a_folder_without_a_single_event_is_refused(bench):
    with pytest.raises(BadInput, match="no events of rocprof"):
        bench.load(written(bench.folder, hip_api="12: nothing\n", hcc_ops="", hsa_api="", roctx=""))
