"""Traces of every format, whole to begin with and then spoilt; and the list of all readers that are tried."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st

from rooflens.tests.cases.readers.case import FOLDER as CASES
from rooflens.tests.fuzz import host, profiles, samples
from rooflens.tests.fuzz.mutations import Draw, few, octets, packed, table, tree
from rooflens.tests.fuzz.profiles import Spoilt
from rooflens.tests.made.chrome import step, trace

_LANES = [
    {"args": {"name": n}, "ph": "M", "pid": p, "name": "process_name"} for p, n in ((2, "CPU HIP API"), (6, "GPU0"))
]
_V1 = [
    {"ts": "10", "dur": "5", "ph": "X", "pid": 2, "tid": 1, "name": "hipLaunchKernel", "args": {"BeginNs": "10001",
     "EndNs": "15002", "pid": "9", "tid": "1"}},
    {"ts": 20, "dur": 5, "ph": "X", "pid": 6, "tid": 0, "name": "k(int)", "args": {"BeginNs": "20001"}},
    {"ts": 10, "ph": "s", "cat": "DataFlow", "id": 1, "pid": 2, "tid": 1, "name": "dep"},
    {"ts": 20, "ph": "t", "cat": "DataFlow", "id": 1, "pid": 6, "tid": 0, "name": "dep"},
    {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 1}, {"ph": "E", "pid": 1, "tid": 1, "ts": 9},
    {"ph": "C", "name": "power", "pid": 1, "ts": 3, "args": {"W": 250.5}},
]  # fmt: skip


@st.composite
def chrome(draw: Draw) -> Spoilt:
    whole = draw(st.sampled_from([
        trace(step(0, 1000.5) + step(1, 2000.25), distributedInfo={"rank": 1}, baseTimeNanoseconds=5),
        {"traceEvents": [*_LANES, *_V1]}, [*_LANES, *_V1],
    ]))  # fmt: skip
    text = json.dumps(tree(draw, whole), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    return Spoilt({"t.json": packed(draw, text)}, draw(st.sampled_from(["", "t.json"])))


_PERFETTO = CASES / "perfetto" / "a_trace_of_rocprof_sys_becomes_events_ranges_launches_and_samples" / "profile"
_XPLANE = CASES / "xplane" / "every_kind_of_line_becomes_rows" / "profile"
_NSYS = CASES / "nsys" / "calls_samples_and_waits_have_stacks_with_the_outermost_frame_first" / "profile"


def _content(folder: Path, kind: str) -> bytes:
    """The file of a kind in the profile of a case."""
    return next(iter(sorted(folder.rglob(f"*.{kind}")))).read_bytes()


@st.composite
def perfetto(draw: Draw) -> Spoilt:
    return Spoilt(
        {"t.pftrace": octets(draw, _content(_PERFETTO, "pftrace"), 1)}, draw(st.sampled_from(["", "t.pftrace"])), 20
    )


@st.composite
def xplane(draw: Draw) -> Spoilt:
    content = octets(draw, _content(_XPLANE, "pb"), 1)
    return Spoilt({"t.xplane.pb": content}, draw(st.sampled_from(["", "t.xplane.pb"])), 20)


_ODD = ["text", b"\xff\xfe\x00", 2**62, -(2**63), -1, 0, 1e308, float("inf"), None, "", "k" * 5000, "\x00", 1.5]


@st.composite
def nsys(draw: Draw) -> Spoilt:
    folder = Path(tempfile.mkdtemp())
    try:
        file = folder / "r.sqlite"
        file.write_bytes(_content(_NSYS, "sqlite"))
        con = sqlite3.connect(file, isolation_level=None)
        tables = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for _ in range(draw(few)):
            name = draw(st.sampled_from(tables))
            columns = [row[1] for row in con.execute(f'PRAGMA table_info("{name}")')]
            how, column = draw(st.integers(0, 4)), draw(st.sampled_from(columns or ["id"]))
            with suppress(sqlite3.Error):
                if how <= 2:
                    con.execute(f'UPDATE "{name}" SET "{column}" = ?', (draw(st.sampled_from(_ODD)),))
                elif how == 3:
                    con.execute(f'ALTER TABLE "{name}" DROP COLUMN "{column}"')
                else:
                    con.execute(f'DROP TABLE "{name}"')
        con.close()
        return Spoilt({file.name: octets(draw, file.read_bytes(), 4)}, file.name, 1)
    finally:
        shutil.rmtree(folder)


_KERNELS = ["Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,"
            "Start_Timestamp,End_Timestamp,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,"
            "Grid_Size_Z", *(f"KERNEL_DISPATCH,Agent 1,1,0,7,{i},1,k(int),{i},{100 * i},{100 * i + 50},64,1,1,64,1,1"
                             for i in range(1, 5))]  # fmt: skip
_CALLS = [
    "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp",
    *(f"HIP_RUNTIME_API,hipLaunchKernel,7,7,{i},{100 * i - 20},{100 * i - 10}" for i in range(1, 5)),
]
_COPIES = ["Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp",
           "MEMORY_COPY,MEMORY_COPY_HOST_TO_DEVICE,Agent 0,Agent 1,9,900,990"]  # fmt: skip
_MARKERS = [_CALLS[0], *(f"MARKER_CORE_RANGE_API,step,7,7,{50 + i},{100 * i - 30},{100 * i + 60}" for i in range(1, 5))]


@st.composite
def rocprofv3_traces(draw: Draw) -> Spoilt:
    kinds = {
        "kernel_trace": _KERNELS,
        "hip_api_trace": _CALLS,
        "memory_copy_trace": _COPIES,
        "marker_api_trace": _MARKERS,
    }
    chosen = draw(st.sets(st.sampled_from(sorted(kinds)), min_size=1))
    files = {f"7_{k}.csv": packed(draw, table(draw, [r.split(",") for r in kinds[k]])) for k in sorted(chosen)}
    return Spoilt(files)


READERS: dict[str, Callable[[], st.SearchStrategy[Spoilt]]] = {
    **profiles.READERS, "Chrome trace": chrome, "Perfetto": perfetto, "XPlane": xplane, "Nsight Systems": nsys,
    "rocprofv3 traces": rocprofv3_traces, **samples.READERS, **host.READERS,
}  # fmt: skip
