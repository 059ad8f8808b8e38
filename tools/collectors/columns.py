"""What a column of a profiler's CSV file is: launch metadata under its many spellings, or a counter."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Spellings by rocprof v1 (lower case, 6.0 also capitals), rocprof v2, rocprofv3 and rocprof-compute.
_SPELLINGS = {
    "dispatch_id": ("Dispatch_ID", "Index", "Dispatch_Id"),
    "kernel": ("Kernel_Name", "KernelName"),
    "device_id": ("GPU_ID", "gpu-id", "Agent_Id"),
    "queue_id": ("Queue_ID", "queue-id", "Queue_Id"),
    "pid": ("PID", "pid", "Process_Id"),
    "tid": ("TID", "tid", "Thread_Id"),
    "grid": ("Grid_Size", "grd", "GRD"),
    "workgroup_size": ("Workgroup_Size", "wgr", "WGR"),
    "lds_bytes": ("LDS_Per_Workgroup", "lds", "LDS", "LDS_Block_Size"),
    "scratch_bytes": ("Scratch_Per_Workitem", "scr", "SCR", "Scratch_Size"),
    "vgpr": ("Arch_VGPR", "arch_vgpr", "vgpr", "VGPR", "VGPR_Count"),
    "agpr": ("Accum_VGPR", "accum_vgpr", "Accum_VGPR_Count"),
    "sgpr": ("SGPR", "sgpr", "SGPR_Count"),
    "start": ("Start_Timestamp", "BeginNs"),
    "end": ("End_Timestamp", "EndNs"),
    "xcc": ("XCC_Index", "XCC_ID"),
    "counter_name": ("Counter_Name",),
    "counter_value": ("Counter_Value",),
    "ignored": (
        "queue-index", "sig", "obj", "fbar", "wave_size", "Wave_Size", "Correlation_ID", "Correlation_Id",
        "Kernel_ID", "Kernel_Id", "DispatchNs", "CompleteNs", "DurationNs",
    ),
}  # fmt: skip
_ROLE = {spelling: role for role, spellings in _SPELLINGS.items() for spelling in spellings}
_COUNTER = re.compile(r"[A-Z][A-Za-z0-9]*_[A-Za-z0-9_]+(\[\d+\])?")
_PLAIN_COUNTERS = {  # rocprof's derived metrics, whose names hold no underscore
    "FetchSize", "WriteSize", "GPUBusy", "Wavefronts", "VALUInsts", "SALUInsts", "VFetchInsts", "SFetchInsts",
    "VWriteInsts", "FlatVMemInsts", "LDSInsts", "FlatLDSInsts", "GDSInsts", "VALUUtilization", "VALUBusy",
    "SALUBusy", "L2CacheHit", "MemUnitBusy", "MemUnitStalled", "WriteUnitStalled", "ALUStalledByLDS",
    "LDSBankConflict", "MeanOccupancyPerCU", "MeanOccupancyPerActiveCU", "MfmaUtil", "OccupancyPercent",
}  # fmt: skip
_INSTANCE = re.compile(r"(?P<counter>.+)\[(?P<instance>\d+)\]")
_CLASH = re.compile(r"(?P<name>.+?)_\d+")


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
        role = _ROLE.get(header) or _role_of_unnamed(header)
        if role in seen:
            role = "ignored"
        if role not in ("counter", "instance", "ignored", "unknown"):
            seen.add(role)
        result.append(Column(header, role))
    return result


def _role_of_unnamed(header: str) -> str:
    clash = _CLASH.fullmatch(header)
    if clash and clash["name"] in _ROLE:
        return "ignored"
    if _INSTANCE.fullmatch(header):
        return "instance"
    return "counter" if _COUNTER.fullmatch(header) or header in _PLAIN_COUNTERS else "unknown"


def plain_kernel_name(expression: str) -> str:
    """SQL that strips what profilers append to a kernel's name: `` [clone .kd]``, `` (.kd)``, ``.kd``."""
    return f"regexp_replace({expression}, '( \\[clone \\.kd\\]| \\(\\.kd\\)|\\.kd)$', '')"
