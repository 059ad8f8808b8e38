"""Profiles of every format, whole to begin with and then spoilt: files by name, and which of them is to be read."""

from __future__ import annotations

import json
import lzma
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
from hypothesis import strategies as st

from rooflens.tests.cases.readers.case import FOLDER as CASES
from rooflens.tests.fuzz.mutations import CELLS, Draw, few, lines, octets, packed, table, tree
from rooflens.tests.made.cupti import END, START, Recording
from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, Writer, repeated, run
from rooflens.tests.support.bench import SYSINFO
from rooflens.tests.support.ncu_pages import DATA, LAUNCH
from rooflens.tests.unit.tools.code_objects.test_codeobject import BUNDLE, HSACO, elf, note

RUN = run(
    *repeated(3, Launch("k(int, char)"), SQ_WAVES=[16.0, 17.0, 18.0], TCC_HIT=[1.0, 2.0, 3.0]),
    Launch("other<float>", (64, 2, 1), (64, 1, 1), counters={"SQ_WAVES": [2.0]}),
)


@dataclass(frozen=True)
class Spoilt:
    """Files below a folder, by their paths, and the one to read; an empty name is the folder itself."""

    files: dict[str, bytes]
    target: str = ""
    most: int | None = None
    """Launches that the files can hold at most, where that is plain."""

    def __repr__(self) -> str:
        return f"Spoilt({ {name: content[:300] for name, content in self.files.items()} }, {self.target!r})"


@cache
def _made(kind: str) -> dict[str, bytes]:
    """A whole profile of rocprofv3, as it writes it."""
    folder = Path(tempfile.mkdtemp())
    try:
        writer = Writer(folder)
        if kind == "trace":
            writer.trace("4711", RUN)
        elif kind == "counters":
            writer.counters("4711", RUN)
        elif kind == "both":
            writer.trace("timing/4711", RUN)
            writer.counters("pass_1/4712", RUN)
        elif kind == "json":
            writer.json("4711_results.json", RUN, run(Launch("k(int, char)"), pid=12, guid=2))
        else:
            write_rocpd(folder / "4711_results.db", RUN)
        return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
    finally:
        shutil.rmtree(folder)


def _rows(content: bytes) -> list[list[str]]:
    import csv
    import io

    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


@st.composite
def rocprofv3_csv(draw: Draw) -> Spoilt:
    kind = draw(st.sampled_from(["trace", "counters", "both"]))
    files = {name: packed(draw, table(draw, _rows(content))) for name, content in _made(kind).items()}
    rows = sum(content.count(b"\n") + content.count(b"\r") for content in files.values())
    plain = not any(content.startswith(b"\x1f\x8b") for content in files.values())
    return Spoilt(files, "", rows + len(files) if plain else None)


@st.composite
def rocprofv3_json(draw: Draw) -> Spoilt:
    (content,) = _made("json").values()
    text = json.dumps(tree(draw, json.loads(content)), ensure_ascii=draw(st.booleans()))
    return Spoilt({"4711_results.json": octets(draw, text.encode("utf-8", "surrogatepass"))}, "4711_results.json")


_VIEWS = [
    "SELECT * FROM rocpd_string",
    "SELECT 1 AS id, 'x' AS guid, 2 AS pid",
    "SELECT printf('%.*c', 300000000, 'x') AS name, 1 AS id, 'x' AS guid",
    "SELECT d.* FROM {like} d, {like} e, {like} f, {like} g",
    "SELECT count(*) AS id, 'x' AS guid, 'y' AS name FROM " + ", ".join(f"{{like}} t{i}" for i in range(30)),
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, 'x' AS guid, x AS name FROM c",
    "SELECT *, CAST(x'ff80' AS TEXT) AS extra FROM {like}",
]
_ODD = ["text", "1_000", b"\xff\xfe\x00", 2**62, -1, 1e308, float("inf"), None, "", "k" * 5000, "\x00", 1.5]


@st.composite
def rocpd(draw: Draw) -> Spoilt:
    (content,) = _made("rocpd").values()
    folder = Path(tempfile.mkdtemp())
    file = folder / "4711_results.db"
    try:
        file.write_bytes(content)
        con = sqlite3.connect(file, isolation_level=None)
        con.text_factory = lambda raw: raw.decode("utf-8", "replace")
        names = con.execute(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        ).fetchall()
        tables, views = ([n for n, kind in names if kind == wanted] for wanted in ("table", "view"))
        telling = [n for n in tables if any(part in n for part in ("dispatch", "info_", "pmc"))]
        for _ in range(draw(few)):
            name = draw(st.sampled_from(telling))
            columns = [row[1] for row in con.execute(f'PRAGMA table_info("{name}")')]
            how, column = draw(st.integers(0, 6)), draw(st.sampled_from(columns or ["id"]))
            with suppress(sqlite3.Error):
                if how <= 2:
                    con.execute(f'UPDATE "{name}" SET "{column}" = ? WHERE rowid % 2 = ?',
                                (draw(st.sampled_from(_ODD)), draw(st.integers(0, 1))))  # fmt: skip
                elif how == 3:
                    con.execute(
                        f'ALTER TABLE "{name}" RENAME COLUMN "{column}" TO "{draw(st.sampled_from(CELLS[:30]))}"'
                    )
                elif how == 4:
                    con.execute(f'DROP TABLE "{name}"')
                elif how == 5:
                    view = draw(st.sampled_from(views))
                    con.execute(f'DROP VIEW "{view}"')
                    sql = draw(st.sampled_from(_VIEWS)).format(like=f'"{name}"')
                    con.execute(f'CREATE VIEW "{view}" AS {sql}')
                else:
                    con.execute(f'INSERT INTO "{name}" SELECT * FROM "{name}" WHERE false')
                    con.execute("PRAGMA writable_schema = ON")
                    odd = "replace(sql, 'INTEGER', CAST(x'ff' AS TEXT))"
                    con.execute(f"UPDATE sqlite_master SET sql = {odd} WHERE name = ?", (name,))
        con.close()
        return Spoilt({file.name: octets(draw, file.read_bytes(), 4)}, file.name)
    finally:
        shutil.rmtree(folder)


_V1 = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds"
    ",scr,vgpr,sgpr,fbar,sig,obj,SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs"
)
_V2 = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem"
    ",Arch_VGPR,Accum_VGPR,SGPR,wave_size,Kernel_Name"
    ",Start_Timestamp,End_Timestamp,Correlation_ID,XCC_Index,SQ_WAVES,TCC_HIT[0],TCC_HIT[1]"
)
_SYSTEM = "\n".join(["*******", "Agent 1", "*******", "  Name: gfx90a", "  Device Type: GPU", "  Node: 1",
                     "  Compute Unit: 104", "  Max Clock Freq. (MHz): 1700"])  # fmt: skip


@st.composite
def rocprof(draw: Draw) -> Spoilt:
    first = draw(st.booleans())
    header = (_V1 if first else _V2).split(",")
    rows = [
        [i, "k(int) [clone .kd]", 1, 0, 0, 7, 7, 1024, 256, 0, 0, 8, 16, 0, "0x0", "0x7f", 16, 10, 100 * i + 20,
         100 * i + 90, 99, 70] if first else
        [i // 2, 1, 0, 7, 7, 1024, 256, 0, 0, 8, 4, 16, 64, "k(int)", 1000 * i, 1000 * i + 500, i, i % 2, 16, 3, 4]
        for i in range(6)
    ]  # fmt: skip
    files = {"results.csv": packed(draw, table(draw, [header, *rows]))}
    if draw(st.booleans()):
        files["results.sysinfo.txt"] = octets(draw, lines(draw, _SYSTEM))
    return Spoilt(files, draw(st.sampled_from(["", "results.csv"])), 60)


@st.composite
def statistics(draw: Draw) -> Spoilt:
    header = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev"]
    rows = [[f"kernel_{i}(int)", 3 + i, 300, 100.0, 50.0, 90, 110, 7.5] for i in range(4)]
    name = draw(st.sampled_from(["results.stats.csv", "4711_kernel_stats.csv"]))
    return Spoilt({name: packed(draw, table(draw, [header, *rows]))}, name, 0)


@st.composite
def workload_folder(draw: Draw) -> Spoilt:
    counters = ["SQ_WAVES", "SQ_BUSY_CYCLES", "GRBM_GUI_ACTIVE", "TCC_HIT[0]", "TCC_HIT[1]", "SQ_ACCUM_PREV_HIRES"]
    header = ["Dispatch_ID", "Kernel_Name", "GPU_ID", "Grid_Size", "Workgroup_Size", "Arch_VGPR", "Accum_VGPR", "SGPR",
              "Start_Timestamp", "End_Timestamp", *counters]  # fmt: skip
    rows = [
        [i, f"k{i % 2}(int)", 2, 1024, 256, 8, 0, 16, 10_000 * i, 10_000 * i + 900, 16, 99, 88, 3, 4, 5]
        for i in range(6)
    ]
    names = draw(
        st.sampled_from(
            [["pmc_perf.csv"], ["pmc_perf.csv", "SQ_LEVEL_WAVES.csv"], ["pmc_perf_0.csv", "pmc_perf_1.csv"]]
        )
    )
    files = {name: packed(draw, table(draw, [header, *rows])) for name in names}
    files["sysinfo.csv"] = octets(draw, table(draw, [list(SYSINFO), list(SYSINFO.values())]))
    if draw(st.booleans()):
        ceilings = [["device", "HBMBw", "HBMBwLow", "HBMBwHigh", "FP32Flops"], [0, 1300.0, 1290.0, 1310.0, 20000.0]]
        files["roofline.csv"] = octets(draw, table(draw, ceilings))
    if draw(st.booleans()):
        files["profiling_config.yaml"] = octets(draw, b"name: made\nkernel: [a]\ndispatch: null\n")
    return Spoilt(files, "", 60)


_METRICS = {"gpu__time_duration.sum": ("us", 12.5), "sm__cycles_elapsed.max": ("cycle", "12,345"),
            "dram__bytes.sum": ("Mbyte", 1.5), "launch__registers_per_thread": ("register/thread", 32),
            "smsp__inst_executed.sum": ("inst", "10 (5; 5)"),
            "device__attribute_multiprocessor_count": ("", 132)}  # fmt: skip


@st.composite
def ncu_raw(draw: Draw) -> Spoilt:
    header = [*LAUNCH, *_METRICS]
    units = [[*[""] * len(LAUNCH), *(unit for unit, _ in _METRICS.values())]] if draw(st.integers(0, 4)) else []
    rows = [[*(LAUNCH | {"ID": str(i)}).values(), *(value for _, value in _METRICS.values())] for i in range(4)]
    before = draw(st.sampled_from([b"", b"==PROF== Connected\n", b'"ID"\n', b"\xff\n"]))
    return Spoilt({"page.csv": packed(draw, before + table(draw, [header, *units, *rows]))}, "page.csv", 60)


@cache
def _report() -> bytes:
    return lzma.decompress((DATA / "ncu" / "small.ncu-rep.xz").read_bytes())


@st.composite
def ncu_report(draw: Draw) -> Spoilt:
    whole = _report()
    if draw(st.integers(0, 5)) == 0:  # a header of its own before anything
        whole = draw(st.sampled_from([b"NVR\x00", b"NVR", b""])) + draw(st.binary(max_size=200)) + whole[:300]
    if draw(st.booleans()):  # bytes that change in place, so that the library gets to read them
        spoilt = bytearray(whole)
        for _ in range(draw(st.integers(1, 40))):
            spoilt[draw(st.integers(4, len(spoilt) - 1))] ^= 1 << draw(st.integers(0, 7))
        return Spoilt({"report.ncu-rep": bytes(spoilt)}, "report.ncu-rep", 5)
    return Spoilt({"report.ncu-rep": octets(draw, whole, 1)}, "report.ncu-rep", 5)


_LISTING = CASES / "perf" / "the_published_listing_is_read_as_it_stands" / "profile" / "stat.txt"
_TABLE = """# started on Sat Nov 21 10:00:00 2026

3691580000,ns,duration_time,3691580000,100.00,,
3691.58,msec,task-clock:u,3691580000,100.00,1.000,CPUs utilized
2547,,page-faults:u,3691580000,100.00,689.949,/sec
11573436803,,cycles:u,3075000000,83.32,3.135,GHz
<not supported>,,LLC-loads,0,100.00,,
"""
_JSON = "\n".join(
    json.dumps({"counter-value": v, "unit": u, "event": e, "event-runtime": 5, "pcnt-running": p})
    for v, u, e, p in [("3691580000.0", "ns", "duration_time", 100.0), ("11573436803.0", "", "cycles:u", 83.32),
                       ("<not counted>", "", "LLC-loads", 0.0), ("36.5", "msec", "task-clock", 100.0)]
)  # fmt: skip


@st.composite
def perf(draw: Draw) -> Spoilt:
    form = draw(st.integers(0, 3))
    if form == 0:
        content = lines(draw, _LISTING.read_text(encoding="utf-8"))
    elif form == 1:
        content = lines(draw, _TABLE.replace(",", draw(st.sampled_from(",;|\t:^"))))
    elif form == 2:
        content = lines(draw, _JSON)
    else:
        content = "\n".join(json.dumps(tree(draw, json.loads(line))) for line in _JSON.splitlines()).encode()
    return Spoilt({"stat.txt": octets(draw, content)}, "stat.txt", 500)


_KERNEL: dict[str, Any] = {
    ".name": "axpy", ".vgpr_count": 32, ".agpr_count": 8, ".sgpr_count": 16, ".vgpr_spill_count": 0,
    ".group_segment_fixed_size": 1024, ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 256,
    ".wavefront_size": 64, ".args": [{".size": 8, ".offset": 0}], ".reqd_workgroup_size": [64, 1, 1],
}  # fmt: skip


@st.composite
def code_object(draw: Draw) -> Spoilt:
    how = draw(st.integers(0, 2))
    if how == 0:
        notes = {
            "amdhsa.kernels": [_KERNEL, _KERNEL],
            "amdhsa.target": "amdgcn-amd-amdhsa--gfx90a",
            "amdhsa.version": [1, 2],
        }
        spoilt = tree(draw, notes)
        with suppress(OverflowError, UnicodeEncodeError, ValueError):
            content = note(b"AMDGPU", 32, octets(draw, msgpack.packb(spoilt)))
            segment = draw(st.sampled_from([".note", None]))
            return Spoilt({"k.hsaco": octets(draw, elf(224, {".note": (7, content)}, segment, 0x3F))}, "k.hsaco")
    return Spoilt({"k.hsaco": octets(draw, (HSACO if how == 1 else BUNDLE).read_bytes(), 1)}, "k.hsaco")


@st.composite
def recorder(draw: Draw) -> Spoilt:
    made = Recording(RANK=0).device().mark(5, 1, START, "step")
    for i in range(8):
        made.launch(10 + 7 * i, thread=1 + i % 2, name=f"_Z{1 + i % 3}kPf")
    return Spoilt(
        {"node_100.record": octets(draw, made.mark(90, 1, END).content, 1)},
        draw(st.sampled_from(["", "node_100.record"])),
    )


READERS: dict[str, Callable[[], st.SearchStrategy[Spoilt]]] = {
    "rocprofv3 CSV": rocprofv3_csv, "rocprofv3 JSON": rocprofv3_json, "rocpd": rocpd, "rocprof": rocprof,
    "statistics": statistics, "rocprof-compute": workload_folder, "ncu raw": ncu_raw,
    "ncu report": ncu_report, "recorder": recorder, "perf": perf, "code object": code_object,
}  # fmt: skip
