"""list_workloads: what the store holds, or one workload with its passes and kernels by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.base.kernel_names import short
from ..analysis.base.text import count_text, short_time
from ..analysis.engine import launching_ranges
from ..analysis.hotspots.kernels import has_code, sampled_kernels
from ..analysis.launches import outliers
from ..analysis.launches.coverage import counted_launches
from ..analysis.store.doubts import DURATION
from ..analysis.store.schema import iso, kernel_of
from ..analysis.store.store import Manifest, Store
from ..analysis.workload import Workload
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .base.parameters import Offset, Reference
from .base.results import NextCall, Result, Table, table

_WORKLOADS = dict.fromkeys(
    ("workload", "name", "created", "arch", "device", "kernels", "dispatches", "counters", "format", "tags")
)
_TIMES = {
    **dict.fromkeys(("total_ns", "mean_ns", "median_ns", "min_ns", "max_ns"), "ns"),
    "pct": "%",
    "total_ms": "ms",
    **dict.fromkeys(("p95_ns", "std_ns"), "ns"),
    "cv_pct": "%",
}
"""``std_ns`` is the standard deviation of the launches, ``cv_pct`` its share of the mean; both need two launches."""
_TAKEN = {**dict.fromkeys(("vgpr", "agpr", "sgpr")), **dict.fromkeys(("lds_bytes", "scratch_bytes"), "B")}
_TRUST = dict.fromkeys(("status", "reason"))
_KERNELS = {**dict.fromkeys(("rank", "kernel", "calls")), **_TIMES, **_TAKEN, "configurations": None, **_TRUST}
_SAMPLED = {
    **dict.fromkeys(("rank", "kernel", "samples")),
    "cycles": "cycles",
    "pct": "%",
    "instructions": None,
}
"""Columns for a profile without launches. ``pct`` is the share of all samples, or of all cycles in thread traces."""
_NO_LAUNCHES = "The profile has samples or counts per instruction but no launches, so kernels are ordered by those."
_LAUNCHES = {
    **dict.fromkeys(("number", "kernel", "configuration", "calls")),
    **_TIMES,
    **dict.fromkeys(("grid", "workgroup_size"), "work-items"),
    **_TAKEN,
    "cluster": "work-groups",
    **_TRUST,
}
_COUNTED = "counted"
"""Column with the number of launches that have counters, shown if only some launches were to be counted."""
By = Literal["kernel", "launch", "range"]
_RANGES = {
    **dict.fromkeys(("range", "entered", "launches")),
    "total_ns": "ns",
    "pct": "%",
    "mean_ns": "ns",
    "host_ns": "ns",
}
_NESTED = (
    "total_ns is the time of the launches in a range and in ranges nested in it, mean_ns the same per entry of the "
    "range, host_ns the time that the program spent in it."
)
_PASSES = dict.fromkeys(("pass", "source", "dispatches", "matched", "unmatched", "counters"))

_NEAR_TIE = 0.01
"""The first two kernels count as nearly equal if their times differ by at most this share of the longer one."""
_WHERE_IS = (
    "To find the workloads that contain a kernel: query_counters with SELECT DISTINCT workload, kernel FROM dispatches "
    "WHERE kernel ILIKE '%name%'."
)
_SPREAD = """quantile_cont(duration_ns, 0.95), stddev_samp(duration_ns),
       100 * stddev_samp(duration_ns) / nullif(avg(duration_ns), 0)"""
_BY_TIME = f"""
SELECT row_number() OVER (ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)) AS rank, kernel, count(*),
       sum(duration_ns), avg(duration_ns), median(duration_ns), min(duration_ns), max(duration_ns),
       100 * sum(duration_ns) / sum(sum(duration_ns)) OVER (), sum(duration_ns) / 1e6, {_SPREAD},
       max(vgpr), max(agpr), max(sgpr), max(lds_bytes), max(scratch_bytes), count(DISTINCT launch)
FROM {{}} GROUP BY kernel ORDER BY rank"""
_BY_LAUNCH = f"""
SELECT d.kernel, any_value(configuration), count(*), sum(duration_ns) AS total, avg(duration_ns), median(duration_ns),
       min(duration_ns), max(duration_ns), 100 * total / sum(total) OVER (), total / 1e6, {_SPREAD}, any_value(grid),
       any_value(workgroup_size), any_value(vgpr), any_value(agpr), any_value(sgpr), any_value(lds_bytes),
       any_value(scratch_bytes), any_value(cluster)
FROM {{}} d GROUP BY d.kernel ORDER BY total DESC NULLS LAST, min(dispatch_id)"""
_STATED = """
SELECT row_number() OVER (ORDER BY total_ns DESC NULLS LAST) AS rank, kernel, calls, total_ns, mean_ns, NULL, min_ns,
       max_ns, 100 * total_ns / sum(total_ns) OVER (), total_ns / 1e6, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL
FROM {} ORDER BY rank"""
_BY_PASS = """
SELECT name, source, dispatches, matched, unmatched, len(string_split(nullif(counters, ''), ','))
FROM {} ORDER BY pass_id"""


class WorkloadDetail(Result):
    """Device facts and provenance of one workload."""

    id: str
    name: str
    created: str
    arch: str | None
    device: str | None
    host: str | None
    commit: str | None
    branch: str | None
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
        Reference | None,
        Field(description='its kernels: id, id prefix, name or "latest"; default: all'),
    ] = None,
    by: Annotated[By, Field(description="launch: launch configurations; range: NVTX, ROCTX")] = "kernel",
    limit: Annotated[int, Field(ge=1, le=100000, description="most rows")] = 20,
    offset: Offset = 0,
) -> WorkloadsResult:
    """Stored workloads, newest first; with workload: its device, passes, and kernels by time, with registers and
    LDS."""
    if workload is None:
        workloads, broken = store.scan()
        rows = [_row(manifest) for manifest in reversed(workloads)]
        notes = [f"Skipped: {sentence}" for sentence in broken[:20]]
        if len(rows) > 1:
            notes.append(_WHERE_IS)
        suggested = [next_call("list_workloads", "kernels of the newest", workload=rows[0][0])] if rows else []
        shown = table(_WORKLOADS, rows, limit=limit, offset=offset)
        return WorkloadsResult(answer=_of_the_store(rows, offset), table=shown, notes=notes, next=suggested)
    with Workload.open(store, workload, by="launch" if by == "launch" else "kernel") as opened:
        return _one(opened, by, limit, offset)


def _of_the_store(rows: list[list[Any]], offset: int) -> str:
    """Say how many workloads there are, and which is the newest."""
    if not rows:
        return sentence("workloads.none")
    if offset >= len(rows):
        return sentence("workloads.past", offset=offset, count=len(rows))
    newest = dict(zip(_WORKLOADS, rows[0], strict=True))
    newest["device"] = newest["device"] or newest["arch"] or "an unknown device"
    return sentence("workloads.one" if len(rows) == 1 else "workloads.several", count=len(rows), **newest)


def _row(manifest: Manifest) -> list[Any]:
    """Return one row of the list, in the order of ``_WORKLOADS``."""
    shown = {
        "workload": manifest.id,
        "created": iso(manifest.created_ns),
        "kernels": manifest.kernel_count,
        "dispatches": manifest.dispatch_count,
        "counters": len(manifest.counters),
        "tags": ", ".join(manifest.tags) or None,
    }
    return [shown[name] if name in shown else getattr(manifest, name) for name in _WORKLOADS]


def _one(workload: Workload, by: By, limit: int, offset: int) -> WorkloadsResult:
    manifest = workload.manifest
    if by == "range":
        columns, rows = _RANGES, launching_ranges.range_times(workload)
    else:
        columns, rows = _launches(workload) if by == "launch" and manifest.dispatches else _kernels(workload)
    passes = _rows(workload, "passes", _BY_PASS)
    shown = table(columns, rows, limit=limit, offset=offset)
    shared = {name: getattr(manifest, name) for name in WorkloadDetail.model_fields if hasattr(manifest, name)}
    odd = outliers.notes(workload, workload.kernels) if by != "range" and manifest.dispatches else []
    detail = WorkloadDetail(**shared, created=iso(manifest.created_ns), passes=table(_PASSES, passes))
    return WorkloadsResult(
        answer=_of_one(manifest, columns, rows),
        workload=detail,
        table=shown,
        notes=[
            *_total(shown, rows, offset),
            *_tie(rows, columns),
            *(note.text for note in odd),
            *([_NESTED] if by == "range" else []),
            *([_NO_LAUNCHES] if columns is _SAMPLED else []),
            *(w.text for w in manifest.warnings),
        ],
        next=[*_next(workload, by)],
    )


def _of_one(manifest: Manifest, columns: Mapping[str, str | None], rows: list[list[Any]]) -> str:
    """Say what was profiled where, how long it took, and which kernel takes the most time."""
    contents = ""
    if rows and "total_ns" in columns and "calls" in columns:
        records = [dict(zip(columns, row, strict=False)) for row in rows]
        kernels = count_text(manifest.kernels, "kernel") if manifest.kernels else count_text(len(rows), "row")
        contents = sentence(
            "workloads.detail_time",
            launches=count_text(sum(one["calls"] or 0 for one in records), "launch"),
            kernels=kernels,
            time=short_time(sum(one["total_ns"] or 0 for one in records)),
        )
        # Several rows may be launch configurations of one kernel.
        shares = Counter[str]()
        for one in records:
            shares[one.get("kernel", "")] += one["pct"] or 0
        kernel, share = shares.most_common(1)[0]
        if kernel and share:
            contents += sentence("workloads.longest", kernel=short(kernel), share=share)
    elif manifest.events:
        contents = sentence("workloads.events", events=count_text(manifest.events, "event"))
    elif manifest.samples:
        contents = sentence("workloads.sampled", samples=count_text(manifest.samples, "sample"))
    device = manifest.device or manifest.arch or "an unknown device"
    return sentence("workloads.detail", name=manifest.name, device=device, contents=contents)


def _total(shown: Table, rows: list[list[Any]], offset: int) -> Iterator[str]:
    """Return the share of the total time in the rows shown; nothing if no row has a time or the rows are ranges."""
    if "total_ms" not in shown.columns or len(rows) < 2:
        return
    at = shown.columns.index("total_ns")
    whole, part = (sum(row[at] or 0 for row in some) for some in (rows, shown.rows))
    if whole and len(shown.rows) == len(rows):
        yield f"All {count_text(len(rows), 'row')} together take {short_time(whole)}."
    elif whole and shown.rows:
        last = offset + len(shown.rows)
        yield f"Rows {offset + 1} to {last} of {len(rows)} take {100 * part / whole:.1f} % of {short_time(whole)}."


def _tie(rows: list[list[Any]], columns: Mapping[str, str | None]) -> Iterator[str]:
    """Return a note if the times of the first two rows are too close for their order to matter."""
    if len(rows) < 2 or not {"total_ms", "rank"} <= columns.keys():
        return
    first, second = (dict(zip(columns, row, strict=False)) for row in rows[:2])
    longest, next_longest = first["total_ms"], second["total_ms"]
    if longest and next_longest and longest - next_longest <= _NEAR_TIE * longest:
        shares = f"{first['pct']:.2f} and {second['pct']:.2f} %"
        yield f"#1 and #2 are nearly equal ({shares}): their order is not significant."


def _next(workload: Workload, by: By) -> Iterator[NextCall]:
    """Suggest the timeline, hot lines, metrics of the kernel with the most time, configurations, and ranges."""
    manifest, here = workload.manifest, {"workload": workload.id}
    if manifest.events:
        yield next_call("compute_timeline", "where the wall time goes, and whether the GPU is the limit", **here)
    if not manifest.dispatches:
        if has_code(workload):
            yield next_call("find_hotspots", "the lines and instructions that cost the time", **here)
        return
    if manifest.counters or not manifest.events:
        longest = f"#{next(iter(workload.kernels.values())).number}"
        why = f"metrics of {longest}, which takes the largest share of the time"
        yield next_call("compute_metrics", why, **here, kernel=longest)
    if workload.by == "kernel" and any(k.configurations > 1 for k in workload.kernels.values()):
        why = "launch configurations separately, with their sizes and times"
        yield next_call("list_workloads", why, **here, by="launch")
    if by != "range" and workload.has("ranges"):
        yield next_call("list_workloads", "time by the ranges that the program marks", **here, by="range")


def _kernels(workload: Workload) -> tuple[dict[str, str | None], list[list[Any]]]:
    """Return the columns and rows of kernels by time."""
    rows = _rows(workload, "dispatches", _BY_TIME)
    if not rows and has_code(workload):
        kernels = sampled_kernels(workload)
        samples, cycles = sum(one.samples for one in kernels), sum(one.cycles for one in kernels)
        return _SAMPLED, [
            [
                int(one.number),
                one.kernel,
                one.samples if samples else None,
                one.cycles if cycles else None,
                _share(one.samples, samples) if samples else _share(one.cycles, cycles),
                one.instructions,
            ]
            for one in kernels
        ]
    counted = bool(rows)
    rows = [[*row, *_trust(workload, str(row[1]))] for row in rows or _rows(workload, "kernel_stats", _STATED)]
    return _with_counted(workload, _KERNELS, rows, [row[1] for row in rows]) if counted else (_KERNELS, rows)


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _launches(workload: Workload) -> tuple[dict[str, str | None], list[list[Any]]]:
    """Return the columns and rows of launch configurations by time, each with the name of its kernel."""
    rows = [list(row) for row in workload.rows(_BY_LAUNCH.format(workload.relation("dispatches")))]
    labels = [row[0] for row in rows]
    named = []
    for row in rows:
        label, configuration, *figures = row
        number = f"#{workload.kernels[label].number}"
        kernel = kernel_of(label, configuration)
        named.append([number, kernel, configuration, *figures, *_trust(workload, kernel)])
    return _with_counted(workload, _LAUNCHES, named, labels)


def _with_counted(
    workload: Workload, columns: dict[str, str | None], rows: list[list[Any]], names: list[str]
) -> tuple[dict[str, str | None], list[list[Any]]]:
    """Add a column with the number of launches that have counters, if only some launches were to be counted."""
    if not workload.manifest.sampled:
        return columns, rows
    counted = counted_launches(workload)
    return {**columns, _COUNTED: None}, [[*row, counted.get(n, 0)] for row, n in zip(rows, names, strict=True)]


def _rows(workload: Workload, name: str, sql: str) -> list[list[Any]]:
    """Return the rows of a query over one table of a workload; none if the workload does not have the table."""
    return [list(row) for row in workload.rows(sql.format(workload.relation(name)))] if workload.has(name) else []


def _trust(workload: Workload, kernel: str) -> tuple[str, str | None]:
    """Return the status of the times of a kernel, and the reason if they are suspect."""
    doubt = workload.doubts.about(frozenset({DURATION}), [kernel])
    return ("suspect", doubt.text) if doubt else ("ok", None)
