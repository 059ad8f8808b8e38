"""The tables that readers stage: columns with roles, one table per pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.database import sql_name, sql_path
from ....analysis.problems import BadInput
from .names import plain_text

if TYPE_CHECKING:
    import duckdb


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


TEXT_ROLES = {"kernel", "start", "end", "duration", "counter_name", "device_id", *UNUSED}


@dataclass
class Staged:
    """One CSV file as Parquet: the columns of use under their original headers, in file order."""

    name: str
    source: Path
    parquet: Path
    columns: list[Column]
    rows: int
    warnings: list[str] = field(default_factory=list)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Least and greatest value of every numeric column that holds any."""
    infinite: set[str] = field(default_factory=set)
    """Quoted names of columns that hold infinities, which are read as NULL."""
    xcds: int = 1
    """Chiplets seen, where the file has rows per chiplet."""

    def header(self, role: str) -> str | None:
        """The header that plays ``role``, quoted for SQL, or None."""
        return next((sql_name(c.header) for c in self.columns if c.role == role), None)

    def relation(self, names: Iterable[str]) -> str:
        """The staged rows as a FROM clause: ``row``, from 0 in file order, and the columns quoted in ``names``."""
        picks = [f"{self.cell(n)} AS {n}" if n in self.infinite else n for n in dict.fromkeys(names)]
        return (
            f"(SELECT {', '.join(['file_row_number AS row', *picks])} FROM read_parquet("
            f"{sql_path(self.parquet)}, file_row_number = true, hive_partitioning = false))"
        )

    def cell(self, name: str, prefix: str = "") -> str:
        """The value of the column quoted in ``name``; infinities are NULL."""
        value = prefix + name
        return f"CASE WHEN isfinite({value}) THEN {value} END" if name in self.infinite else value

    def named(self, *roles: str) -> list[str]:
        """The quoted headers of those of ``roles`` that the file has."""
        return [header for role in roles if (header := self.header(role))]

    @property
    def all(self) -> str:
        """The staged rows with every column."""
        return self.relation(sql_name(c.header) for c in self.columns if c.role not in UNUSED)

    def counters(self) -> list[str]:
        """The plain counter columns, in file order."""
        return [c.header for c in self.columns if c.role == "counter"]


def measure(con: duckdb.DuckDBPyConnection, staged: Staged) -> None:
    """Note the bounds of every numeric column; infinities and NaN become NULL, with a warning.

    Parquet states the bounds of a column unless it holds such values, so only those columns are read.
    """
    numeric = {c.header for c in staged.columns if c.role not in TEXT_ROLES}
    found = con.execute(
        "SELECT path_in_schema, min(TRY_CAST(stats_min_value AS DOUBLE)), max(TRY_CAST(stats_max_value AS DOUBLE)), "
        "bool_or((stats_min_value IS NULL OR stats_max_value IS NULL) AND coalesce(stats_null_count, 0) < num_values) "
        f"FROM parquet_metadata({sql_path(staged.parquet)}) GROUP BY path_in_schema"
    ).fetchall()
    for header, low, high, doubtful in found:
        if header not in numeric:
            continue
        if doubtful:
            low, high = _finite_bounds(con, staged, header)
        if low is not None:
            staged.bounds[header] = (low, high)


def _finite_bounds(con: duckdb.DuckDBPyConnection, staged: Staged, header: str) -> tuple[float | None, float | None]:
    name = sql_name(header)
    count, low, high = con.execute(
        f"SELECT count(*) FILTER (NOT isfinite({name})), min({name}) FILTER (isfinite({name})), "
        f"max({name}) FILTER (isfinite({name})) FROM {staged.relation([name])}"
    ).fetchone() or (0, None, None)
    if count:
        staged.infinite.add(name)
        staged.warnings.append(not_a_number(staged, header, count, staged.rows, "infinity"))
    return low, high


def not_a_number(staged: Staged, header: str, count: int, rows: int, example: str) -> str:
    return (
        f"{staged.source.name}: column {header} holds text in {count} of {rows} rows "
        f"(for instance {plain_text(str(example), 40)!r}); those cells are taken as not collected."
    )
