"""list_workloads: what the store holds, or one workload with its passes and kernels by time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from ..analysis.store import Manifest, Store
from ..analysis.workload import Workload
from .parameters import Offset
from .results import NextCall, Result, Table, table

_WORKLOADS = dict.fromkeys(
    ("workload", "name", "created", "arch", "device", "kernels", "dispatches", "counters", "format", "tags")
)
_KERNELS = {
    **dict.fromkeys(("rank", "kernel", "calls")),
    **dict.fromkeys(("total_ns", "mean_ns", "median_ns", "min_ns", "max_ns"), "ns"),
    "pct": "%",
    **dict.fromkeys(("vgpr", "agpr", "sgpr")),
    **dict.fromkeys(("lds_bytes", "scratch_bytes"), "B"),
}
_PASSES = dict.fromkeys(("pass", "source", "dispatches", "matched", "unmatched", "counters"))

_BY_TIME = """
SELECT row_number() OVER (ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)) AS rank, kernel, count(*),
       sum(duration_ns), avg(duration_ns), median(duration_ns), min(duration_ns), max(duration_ns),
       100 * sum(duration_ns) / sum(sum(duration_ns)) OVER (), max(vgpr), max(agpr), max(sgpr), max(lds_bytes),
       max(scratch_bytes)
FROM {} GROUP BY kernel ORDER BY rank"""
_STATED = """
SELECT row_number() OVER (ORDER BY total_ns DESC NULLS LAST) AS rank, kernel, calls, total_ns, mean_ns, NULL, min_ns,
       max_ns, 100 * total_ns / sum(total_ns) OVER (), NULL, NULL, NULL, NULL, NULL
FROM {} ORDER BY rank"""
_BY_PASS = """
SELECT name, source, dispatches, matched, unmatched, len(string_split(nullif(counters, ''), ','))
FROM {} ORDER BY pass_id"""


class WorkloadDetail(Result):
    """One workload's device facts and how it was taken."""

    id: str
    name: str
    created: str
    arch: str | None
    device: str | None
    host: str | None
    command: str | None
    tool: str | None
    tool_version: str | None
    tags: list[str]
    facts: dict[str, float]
    passes: Table


class WorkloadsResult(Result):
    """Workloads, newest first, or the kernels of one, longest total time first."""

    table: Table
    workload: WorkloadDetail | None = None


def list_workloads(
    store: Store,
    workload: Annotated[
        str | None,
        Field(description='one workload with its kernels: id, unique id prefix, name or "latest"; default: all'),
    ] = None,
    limit: Annotated[int, Field(ge=1, le=100000, description="rows in one answer")] = 20,
    offset: Offset = 0,
) -> WorkloadsResult:
    """Stored workloads, newest first; with ``workload``: its device, passes, and kernels by time, registers and LDS."""
    if not workload:
        return _all(store, limit, offset)
    with Workload.open(store, workload) as opened:
        return _one(opened, limit, offset)


def _all(store: Store, limit: int, offset: int) -> WorkloadsResult:
    workloads, broken = store.scan()
    rows = [_row(manifest) for manifest in reversed(workloads)]
    notes = [f"Left out: {sentence}" for sentence in broken[:20]]
    if not rows:
        notes.append("The store is empty: import_profile reads a profile, `rooflens demo` loads the shipped samples.")
    suggested = (
        [NextCall(tool="list_workloads", arguments={"workload": rows[0][0]}, why="kernels of the newest")]
        if rows
        else []
    )
    return WorkloadsResult(table=table(_WORKLOADS, rows, limit=limit, offset=offset), notes=notes, next=suggested)


def _row(manifest: Manifest) -> list[Any]:
    """One line of the list, in the order of ``_WORKLOADS``."""
    shown = {
        "workload": manifest.id,
        "created": _time(manifest),
        "counters": len(manifest.counters),
        "tags": ", ".join(manifest.tags) or None,
    }
    return [shown[name] if name in shown else getattr(manifest, name) for name in _WORKLOADS]


def _one(workload: Workload, limit: int, offset: int) -> WorkloadsResult:
    manifest = workload.manifest
    kernels = _rows(workload, "dispatches", _BY_TIME) or _rows(workload, "kernel_stats", _STATED)
    passes = _rows(workload, "passes", _BY_PASS)
    detail = WorkloadDetail(
        id=manifest.id,
        name=manifest.name,
        created=_time(manifest),
        arch=manifest.arch,
        device=manifest.device,
        host=manifest.host,
        command=manifest.command,
        tool=manifest.tool,
        tool_version=manifest.tool_version,
        tags=manifest.tags,
        facts=manifest.facts,
        passes=table(_PASSES, passes),
    )
    why = "metrics of the longest kernel"
    suggested = [NextCall(tool="compute_metrics", arguments={"workload": manifest.id, "kernel": "#1"}, why=why)]
    return WorkloadsResult(
        workload=detail,
        table=table(_KERNELS, kernels, limit=limit, offset=offset),
        notes=[w.text for w in manifest.warnings],
        next=suggested if manifest.dispatches else [],
    )


def _rows(workload: Workload, name: str, sql: str) -> list[list[Any]]:
    """The rows of one query over one table of a workload; none where it has no such table."""
    return [list(row) for row in workload.rows(sql.format(workload.relation(name)))] if workload.has(name) else []


def _time(manifest: Manifest) -> str:
    return datetime.fromtimestamp(manifest.created_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
