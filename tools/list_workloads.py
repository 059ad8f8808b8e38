"""list_workloads: what the store holds, or one workload with its passes and kernels by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

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
from .answers.sentences import optional_sentence, sentence
from .answers.tables import Row, table_from
from .base.parameters import Reference
from .base.results import NextCall, Result, Table

_COUNTED = "counted"
"""Column with the number of launches that have counters, shown if only some launches were to be counted."""
By = Literal["kernel", "launch", "range"]
_RANGES = ("range", "entered", "launches", "total_ns", "pct", "mean_ns", "host_ns")
_ABOUT = {
    "sampled_kernels": "The profile has samples or counts per instruction but no launches, so kernels are ordered by "
    "those.",
    "range_times": "total_ns is the time of the launches in a range and in ranges nested in it, mean_ns the same per "
    "entry of the range, host_ns the time that the program spent in it.",
}
"""Notes on tables by their names."""
_NEAR_TIE = 0.01
"""The first two kernels count as nearly equal if their times differ by at most this share of the longer one."""
_WHERE_IS = (
    "To find the workloads that contain a kernel: query_counters with SELECT DISTINCT workload, kernel FROM dispatches "
    "WHERE kernel ILIKE '%name%'."
)
_TIMES = """count(*) AS calls, sum(duration_ns) AS total_ns, avg(duration_ns) AS mean_ns,
       median(duration_ns) AS median_ns, min(duration_ns) AS min_ns, max(duration_ns) AS max_ns,
       100 * sum(duration_ns) / sum(sum(duration_ns)) OVER () AS pct, sum(duration_ns) / 1e6 AS total_ms,
       quantile_cont(duration_ns, 0.95) AS p95_ns, stddev_samp(duration_ns) AS std_ns,
       100 * stddev_samp(duration_ns) / nullif(avg(duration_ns), 0) AS cv_pct"""
_BY_TIME = f"""
SELECT row_number() OVER (ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)) AS rank, kernel, {_TIMES},
       max(vgpr) AS vgpr, max(agpr) AS agpr, max(sgpr) AS sgpr, max(lds_bytes) AS lds_bytes,
       max(scratch_bytes) AS scratch_bytes, count(DISTINCT launch) AS configurations
FROM {{}} GROUP BY kernel ORDER BY rank"""
_BY_LAUNCH = f"""
SELECT d.kernel AS label, any_value(configuration) AS configuration, {_TIMES}, any_value(grid) AS grid,
       any_value(workgroup_size) AS workgroup_size, any_value(vgpr) AS vgpr, any_value(agpr) AS agpr,
       any_value(sgpr) AS sgpr, any_value(lds_bytes) AS lds_bytes, any_value(scratch_bytes) AS scratch_bytes,
       any_value(cluster) AS cluster
FROM {{}} d GROUP BY d.kernel ORDER BY total_ns DESC NULLS LAST, min(dispatch_id)"""
_STATED = """
SELECT row_number() OVER (ORDER BY total_ns DESC NULLS LAST) AS rank, kernel, calls, total_ns, mean_ns,
       NULL AS median_ns, min_ns, max_ns, 100 * total_ns / sum(total_ns) OVER () AS pct, total_ns / 1e6 AS total_ms,
       NULL AS p95_ns, NULL AS std_ns, NULL AS cv_pct, NULL AS vgpr, NULL AS agpr, NULL AS sgpr, NULL AS lds_bytes,
       NULL AS scratch_bytes, NULL AS configurations
FROM {} ORDER BY rank"""
_BY_PASS = """
SELECT name, source, dispatches, matched, unmatched, len(string_split(nullif(counters, ''), ',')) AS counters
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
    workload: Reference | None = None,
    by: By = "kernel",
    limit: int = 20,
    offset: int = 0,
) -> WorkloadsResult:
    """Stored workloads, newest first; with workload: its device, passes, and kernels by time, with registers and
    LDS."""
    if workload is None:
        workloads, broken = store.scan()
        workloads.reverse()
        notes = [f"Skipped: {sentence}" for sentence in broken[:20]]
        if len(workloads) > 1:
            notes.append(_WHERE_IS)
        return WorkloadsResult(
            answer=_of_the_store(workloads, offset),
            table=table_from("stored", [*map(_row, workloads)], limit=limit, offset=offset),
            notes=notes,
            next=[next_call("list_workloads", "kernels of the newest", workload=one.id) for one in workloads[:1]],
        )
    with Workload.open(store, workload, by="launch" if by == "launch" else "kernel") as opened:
        return _one(opened, by, limit, offset)


def _of_the_store(workloads: list[Manifest], offset: int) -> str:
    """Say how many workloads there are, and which is the newest."""
    if offset >= len(workloads):
        return sentence("workloads.past" if workloads else "workloads.none", offset=offset, count=len(workloads))
    newest, code = workloads[0], "workloads.one" if len(workloads) == 1 else "workloads.several"
    created = iso(newest.created_ns)
    return sentence(code, count=len(workloads), of=newest, created=created, device=_device(newest))


def _device(manifest: Manifest) -> str:
    return manifest.device or manifest.arch or "an unknown device"


def _row(manifest: Manifest) -> Row:
    created, tags = iso(manifest.created_ns), ", ".join(manifest.tags) or None
    return {"manifest": manifest, "created": created, "counters": len(manifest.counters), "tags": tags}


def _one(workload: Workload, by: By, limit: int, offset: int) -> WorkloadsResult:
    manifest = workload.manifest
    if by == "range":
        name = "range_times"
        rows = [dict(zip(_RANGES, row, strict=True)) for row in launching_ranges.range_times(workload)]
    elif by == "launch" and manifest.dispatches:
        name, rows = "launch_times", _launches(workload)
    else:
        name, rows = _kernels(workload)
    shown = table_from(name, rows, limit=limit, offset=offset)
    shared = {field: getattr(manifest, field) for field in WorkloadDetail.model_fields if hasattr(manifest, field)}
    odd = outliers.notes(workload, workload.kernels) if by != "range" and manifest.dispatches else []
    passes = table_from("passes", _records(workload, "passes", _BY_PASS))
    detail = WorkloadDetail(**shared, created=iso(manifest.created_ns), passes=passes)
    return WorkloadsResult(
        answer=_of_one(manifest, rows),
        workload=detail,
        table=shown,
        notes=[
            *_total(shown, rows, offset),
            *_tie(rows),
            *(note.text for note in odd),
            *filter(None, [_ABOUT.get(name)]),
            *(w.text for w in manifest.warnings),
        ],
        next=[*_next(workload, by)],
    )


def _of_one(manifest: Manifest, rows: list[Row]) -> str:
    """Say what was profiled where, how long it took, and which kernel takes the most time."""
    contents = ""
    if rows and {"total_ns", "calls"} <= rows[0].keys():
        contents = sentence(
            "workloads.detail_time",
            launches=sum(one["calls"] or 0 for one in rows),
            kernels=count_text(manifest.kernels, "kernel") if manifest.kernels else count_text(len(rows), "row"),
            time=short_time(sum(one["total_ns"] or 0 for one in rows)),
        )
        # Several rows may be launch configurations of one kernel.
        shares = Counter[str]()
        for one in rows:
            shares[one["kernel"]] += one["pct"] or 0
        kernel, share = shares.most_common(1)[0]
        contents += optional_sentence("workloads.longest", kernel=short(kernel or ""), share=share)
    elif manifest.events or manifest.samples:
        contents = sentence("workloads.events" if manifest.events else "workloads.sampled", of=manifest)
    return sentence("workloads.detail", name=manifest.name, device=_device(manifest), contents=contents)


def _total(shown: Table, rows: list[Row], offset: int) -> Iterator[str]:
    """Return the share of the total time in the rows shown; nothing if no row has a time or the rows are ranges."""
    if "total_ms" not in shown.columns or len(rows) < 2:
        return
    last = offset + len(shown.rows)
    whole, part = (sum(row["total_ns"] or 0 for row in some) for some in (rows, rows[offset:last]))
    if whole and shown.rows:
        code = "listed.all" if len(shown.rows) == len(rows) else "listed.some"
        yield sentence(code, first=offset + 1, last=last, n=len(rows), share=part / whole, time=short_time(whole))


def _tie(rows: list[Row]) -> Iterator[str]:
    """Return a note if the times of the first two rows are too close for their order to matter."""
    for first, second in [rows[:2]] if len(rows) > 1 and {"total_ms", "rank"} <= rows[0].keys() else []:
        if second["total_ms"] and second["total_ms"] >= (1 - _NEAR_TIE) * first["total_ms"]:
            yield sentence("listed.tie", first=first["pct"], second=second["pct"])


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
        yield next_call(
            "list_workloads", "launch configurations separately, with their sizes and times", **here, by="launch"
        )
    if by != "range" and workload.has("ranges"):
        yield next_call("list_workloads", "time by the ranges that the program marks", **here, by="range")


def _kernels(workload: Workload) -> tuple[str, list[Row]]:
    """Return the name of a table of kernels by time, and its rows."""
    rows = _records(workload, "dispatches", _BY_TIME)
    if not rows and has_code(workload):
        kernels = sampled_kernels(workload)
        totals = {unit: sum(getattr(one, unit) for one in kernels) for unit in ("samples", "cycles")}
        measured = [unit for unit, total in totals.items() if total]
        return "sampled_kernels", [
            {"of": one, "rank": int(one.number), **{unit: getattr(one, unit) for unit in measured}}
            | ({"pct": 100 * getattr(one, measured[0]) / totals[measured[0]]} if measured else {})
            for one in kernels
        ]
    if rows:
        return "kernel_times", _with_trust(workload, rows, "kernel")
    return "kernel_times", _with_trust(workload, _records(workload, "kernel_stats", _STATED), None)


def _launches(workload: Workload) -> list[Row]:
    """Return the rows of launch configurations by time, each with the name of its kernel."""
    rows = _records(workload, "dispatches", _BY_LAUNCH)
    for row in rows:
        row["number"] = f"#{workload.kernels[row['label']].number}"
        row["kernel"] = kernel_of(row["label"], row["configuration"])
    return _with_trust(workload, rows, "label")


def _records(workload: Workload, name: str, sql: str) -> list[Row]:
    """Return the rows of a query over one table of a workload; none if the workload does not have the table."""
    if not workload.has(name):
        return []
    cursor = workload.cursor.execute(sql.format(workload.relation(name)))
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _with_trust(workload: Workload, rows: list[Row], launched: str | None) -> list[Row]:
    """Return the rows with the status of their times, and the reason if they are suspect.

    ``launched`` names the column by which the launches with counters are counted, if only some were to be counted.
    """
    counted = counted_launches(workload) if launched and workload.manifest.sampled else {}
    for row in rows:
        doubt = workload.doubts.about(frozenset({DURATION}), [row["kernel"]])
        row |= {"status": "suspect" if doubt else "ok", "reason": doubt.text if doubt else None}
        row |= {_COUNTED: counted.get(row[launched], 0)} if launched and workload.manifest.sampled else {}
    return rows
