"""What a column of a profiler's CSV file is: launch metadata under its many spellings, or a counter."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ...analysis.problems import BadInput

# Spellings by rocprof v1 (lower case, 6.0 also capitals), rocprof v2, rocprofv3 and rocprof-compute; case is ignored.
_SPELLINGS = {
    "dispatch_id": ("Dispatch_ID", "Index"),
    "kernel": ("Kernel_Name", "KernelName"),
    "device_id": ("GPU_ID", "gpu-id", "Agent_Id"),
    "queue_id": ("Queue_ID", "queue-id"),
    "pid": ("PID", "Process_Id"),
    "grid": ("Grid_Size", "grd"),
    "workgroup_size": ("Workgroup_Size", "wgr"),
    "lds_bytes": ("LDS_Per_Workgroup", "lds", "LDS_Block_Size"),
    "scratch_bytes": ("Scratch_Per_Workitem", "scr", "Scratch_Size"),
    "vgpr": ("Arch_VGPR", "vgpr", "VGPR_Count"),
    "agpr": ("Accum_VGPR", "Accum_VGPR_Count"),
    "sgpr": ("SGPR", "SGPR_Count"),
    "start": ("Start_Timestamp", "BeginNs"),
    "end": ("End_Timestamp", "EndNs"),
    "duration": ("DurationNs",),
    "xcc": ("XCC_Index", "XCC_ID"),
    "counter_name": ("Counter_Name",),
    "counter_value": ("Counter_Value",),
    "ignored": (
        "queue-index", "Queue_Index", "sig", "obj", "fbar", "wave_size", "Correlation_ID", "Kernel_ID",
        "DispatchNs", "CompleteNs", "TID", "Thread_Id",
    ),
}  # fmt: skip
_ROLE = {spelling.casefold(): role for role, spellings in _SPELLINGS.items() for spelling in spellings}
_COUNTER = re.compile(r"[A-Z][A-Za-z0-9]*_[A-Za-z0-9_]+(\[\d+\])?")
_PLAIN_COUNTER = re.compile(  # rocprof's derived metrics, whose names hold no underscore
    r"Wavefronts|ALUStalledByLDS|LDSBankConflict|PartialWaveRate|Mem(Writes|Reads)32B"
    r"|[A-Z][A-Za-z0-9]*(Busy|Insts|Size|Hit|Stalled|Util|Utilization|Percent|Latency|Flops[A-Z0-9]*|PerCU|PerActiveCU)"
)
_RESERVED = {"row", "file_row_number", "dispatch_id", "kernel", "kernel_id", "duration_ns", "workload", "filename"}
_INSTANCE = re.compile(r"(?P<counter>.+)\[(?P<instance>\d{1,4})\]")
_CLASH = re.compile(r"(?P<name>.+?)_\d+")
_NAME_LIMIT = 120
UNUSED = ("ignored", "unknown")


@dataclass(frozen=True)
class Column:
    """One column of a file: its header text and its role (``counter``, ``instance``, metadata, ``unknown``)."""

    header: str
    role: str

    @property
    def instance(self) -> tuple[str, int]:
        """Counter and channel number of a per-instance column such as ``TCC_HIT[3]``."""
        match = _INSTANCE.fullmatch(self.header)
        assert match is not None
        return match["counter"], int(match["instance"])


def classify(headers: list[str]) -> list[Column]:
    """The role of every header of one file, in order.

    Only metadata loses the ``_<n>`` that a join of passes appends (``obj_2``, ``Kernel_ID_3``):
    ``SQC_DCACHE_REQ_READ_8`` and ``SQ_WAVES_LT_32`` are real counters. A second spelling of one
    role (``wgr`` beside ``WGR``) is ignored.
    """
    seen: set[str] = set()
    result = []
    for header in headers:
        role = role_of(header)
        if role in seen:
            role = "ignored"
        if role not in ("counter", "instance", *UNUSED):
            seen.add(role)
        result.append(Column(header, role))
    return result


def check_unique(source: str, columns: list[Column]) -> None:
    """BadInput where two columns claim to be the same counter (case ignored, as in SQL) or the same launch data."""
    names = [c.header.casefold() for c in columns if c.role in ("counter", "instance")]
    names += [c.header for c in columns if role_of(c.header) not in ("counter", "instance", *UNUSED)]
    if twice := sorted(name for name, n in Counter(names).items() if n > 1):
        raise BadInput(f"{source} names columns twice", ", ".join(twice[:8]), "Remove one of each")


def role_of(header: str) -> str:
    """The role of one header, on its own."""
    if role := _ROLE.get(header.casefold()):
        return role
    clash = _CLASH.fullmatch(header)
    if clash and clash["name"].casefold() in _ROLE:
        return "ignored"
    if len(header) > _NAME_LIMIT or header.casefold() in _RESERVED:
        return "unknown"
    if not (_COUNTER.fullmatch(header) or _PLAIN_COUNTER.fullmatch(header)):
        return "unknown"
    return "instance" if _INSTANCE.fullmatch(header) else "counter"
