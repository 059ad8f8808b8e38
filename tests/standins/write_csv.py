"""CSV of rocprofv3, with the columns of each version."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import devices
from .result import Counted, Process, Range, Traced

Version = tuple[int, int, int]


def write(base: Path, process: Process, version: Version) -> list[Path]:
    """The files of one process; their names begin with ``base``."""
    agents = [devices.cpu(), devices.gpu(process.target)]
    files = [_table(base, "agent_info", agents)]
    if process.tracing and process.launches:
        # Rows come in the order of arrival: here queue by queue, latest queue first.
        arrived = sorted(process.launches, key=lambda c: (-c.launch.queue, c.number))
        files.append(_table(base, "kernel_trace", [_trace(process, c, version) for c in arrived]))
    if process.ranges:
        files.append(_table(base, "marker_api_trace", [_marker(process, r, version) for r in process.ranges]))
    if process.calls:
        files.append(_table(base, "hip_api_trace", [_call(process, c) for c in process.calls]))
    if process.copies:
        files.append(_table(base, "memory_copy_trace", [_copy(c, version) for c in process.copies]))
    if process.counted:
        rows = [
            _count(process, c, name, value, version)
            for c in reversed(process.counted)
            for name, value in (c.values or {}).items()
        ]
        files.append(_table(base, "counter_collection", rows))
    return files


def _table(base: Path, kind: str, rows: Iterable[dict[str, Any]]) -> Path:
    """All text quoted, numbers bare, as the real files have it."""
    rows = list(rows)
    path = base.with_name(f"{base.name}_{kind}.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(rows[0])
        body = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        body.writerows(row.values() for row in rows)
    return path


def _agent(version: Version) -> str | int:
    return "Agent 1" if version >= (1, 0, 0) else 1


class _Bare(float):
    """A number printed as the C++ streams of the real program print it."""

    def __repr__(self) -> str:
        return "0.00000000e+00" if self == 0 else f"{float(self):.6f}"

    __str__ = __repr__


def _count(process: Process, c: Counted, name: str, value: float, version: Version) -> dict[str, Any]:
    """Columns of counter_collection.csv; ROCm 6.2 had no times, 6.2 and 6.3 no kernel id and accumulation registers."""
    launched = c.launch
    row: dict[str, Any] = {
        "Correlation_Id": c.correlation, "Dispatch_Id": c.number, "Agent_Id": _agent(version),
        "Queue_Id": launched.queue, "Process_Id": process.pid, "Thread_Id": process.pid, "Grid_Size": launched.items,
        "Kernel_Id": process.symbol_id(launched), "Kernel_Name": launched.kernel,
        "Workgroup_Size": launched.group_size, "LDS_Block_Size": _block(launched.static_lds),
        "Scratch_Size": launched.scratch, "VGPR_Count": launched.vgpr, "Accum_VGPR_Count": launched.agpr,
        "SGPR_Count": launched.sgpr, "Counter_Name": name,
        "Counter_Value": int(value) if version < (0, 6, 0) else _Bare(value),
        "Start_Timestamp": c.start, "End_Timestamp": c.end,
    }  # fmt: skip
    if version < (0, 6, 0):
        del row["Accum_VGPR_Count"], row["Kernel_Id"]
    if version < (0, 5, 0):
        del row["Start_Timestamp"], row["End_Timestamp"]
    return row


def _trace(process: Process, c: Counted, version: Version) -> dict[str, Any]:
    """Columns of kernel_trace.csv: segment sizes where registers are now until 6.4, neither thread nor id in 6.2."""
    launched = c.launch
    row: dict[str, Any] = {
        "Kind": "KERNEL_DISPATCH", "Agent_Id": _agent(version), "Queue_Id": launched.queue,
        "Stream_Id": launched.stream, "Thread_Id": process.pid, "Dispatch_Id": c.number,
        "Kernel_Id": process.symbol_id(launched), "Kernel_Name": launched.kernel, "Correlation_Id": c.correlation,
        "Start_Timestamp": c.start, "End_Timestamp": c.end,
    }  # fmt: skip
    if version >= (1, 0, 0):
        row |= {
            "LDS_Block_Size": _block(launched.static_lds), "Scratch_Size": launched.scratch,
            "VGPR_Count": launched.vgpr, "Accum_VGPR_Count": launched.agpr, "SGPR_Count": launched.sgpr,
        }  # fmt: skip
    else:
        del row["Stream_Id"]
        row |= {"Private_Segment_Size": launched.scratch, "Group_Segment_Size": launched.lds}
        if version < (0, 5, 0):
            del row["Thread_Id"], row["Dispatch_Id"]
    for name, sizes in (("Workgroup_Size", launched.workgroup), ("Grid_Size", launched.grid)):
        row |= {f"{name}_{axis}": size for axis, size in zip("XYZ", sizes, strict=True)}
    return row


def _marker(process: Process, one: Range, version: Version) -> dict[str, Any]:
    """Columns of marker_api_trace.csv: the name of the range stands where other traces name the function."""
    domain = "MARKER_CORE_RANGE_API" if version >= (1, 0, 0) else "MARKER_CORE_API"
    return {
        "Domain": domain, "Function": one.name, "Process_Id": process.pid, "Thread_Id": process.pid,
        "Correlation_Id": one.correlation, "Start_Timestamp": one.start, "End_Timestamp": one.end,
    }  # fmt: skip


def _call(process: Process, one: Traced) -> dict[str, Any]:
    """Columns of hip_api_trace.csv."""
    return {
        "Domain": "HIP_RUNTIME_API", "Function": one.name, "Process_Id": process.pid, "Thread_Id": process.pid,
        "Correlation_Id": one.correlation, "Start_Timestamp": one.start, "End_Timestamp": one.end,
    }  # fmt: skip


def _copy(one: Traced, version: Version) -> dict[str, Any]:
    """Columns of memory_copy_trace.csv, which tells no bytes; streams stand there since 1.0."""
    short = one.name.removeprefix("MEMORY_COPY_")
    row: dict[str, Any] = {
        "Kind": "MEMORY_COPY", "Direction": one.name if version >= (1, 0, 0) else short, "Stream_Id": 0,
        "Source_Agent_Id": "Agent 0" if version >= (1, 0, 0) else 0, "Destination_Agent_Id": _agent(version),
        "Correlation_Id": one.correlation, "Start_Timestamp": one.start, "End_Timestamp": one.end,
    }  # fmt: skip
    if version < (1, 0, 0):
        del row["Stream_Id"]
    return row


def _block(size: int) -> int:
    """LDS of the code object, rounded up to the allocation unit."""
    return -(-size // 512) * 512
