"""The tool compute_roofline: ceilings, and where each kernel lies below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.catalogue.work import LEVELS, LevelName
from ..analysis.rooflines import flop as roofline
from ..analysis.rooflines import instruction as instruction_roofline
from ..analysis.rooflines.ceilings import Ceilings
from ..analysis.rooflines.inputs import Asked, RooflineInputs, prepare
from ..analysis.rooflines.limits import View
from ..analysis.store import Manifest, Store
from ..analysis.workload import Workload
from .results import NextCall, Result, Table, table

_POINTS = {
    **dict.fromkeys(("rank", "kernel", "dispatch", "level", "datatype")),
    "intensity": "operations/B",
    "performance": None,
    "unit": None,
    "bytes": "B",
    "operations": None,
    "time_ns": "ns",
    "attainable": None,
    "pct_of_attainable": "%",
    "bandwidth": "GB/s",
    "pct_of_bandwidth": "%",
    **dict.fromkeys(("bound", "limiter", "status", "reason")),
    "n": "dispatches",
}
_INSTRUCTIONS = {
    **dict.fromkeys(("rank", "kernel", "dispatch", "level")),
    "intensity": "inst/B",
    "per_transaction": "inst/txn",
    "performance": "GIPS",
    "unit": None,
    "bytes": "B",
    "operations": "inst",
    "transactions": "txn",
    "gtxn": "GTXN/s",
    "time_ns": "ns",
    "attainable": "GIPS",
    "pct_of_attainable": "%",
    "pct_of_peak": "%",
    "gips_paper": "GIPS",
    "intensity_paper": "inst/B",
    **dict.fromkeys(("bound", "limiter", "status", "reason")),
    "n": "dispatches",
}
_OPERATIONS: dict[str, str | None] = {
    **dict.fromkeys(("rank", "operation", "operations", "rate", "unit", "ceiling")),
    "pct_of_ceiling": "%",
    "n": "dispatches",
}
_WALLS: dict[str, str | None] = dict.fromkeys(("rank", "wall", "value", "walls", "reading"))
_PIPES = ("hbm", "l2", "vl1d", "lds", "valu", "valu.issue", "matrix")
_BUSY = ("valu", "matrix", "lds")
_MORE_BUSY = ("vl1d", "l2", "hbm")
"""Told on some GPUs only."""


def points_table(made: Sequence[roofline.Point], more: bool) -> Table:
    """The points of one page; ``more`` says that further kernels follow, whose rows are not known yet."""
    return _page(_POINTS, [_row(p) for p in made], more)


def instruction_points(made: Sequence[instruction_roofline.InstructionPoint], more: bool) -> Table:
    """The same for the instruction roofline."""
    return _page(_INSTRUCTIONS, [_instruction_row(p) for p in made], more)


def operations(rates: Sequence[roofline.Rate]) -> Table:
    """The work of each kernel by pipe and data type, against its own ceiling."""
    rows = [[r.rank, r.name, r.operations, r.rate, r.unit, r.ceiling, r.pct_of_ceiling, r.n] for r in rates]
    return table(_OPERATIONS, rows)


def walls_table(found: Sequence[instruction_roofline.Wall]) -> Table:
    """Where accesses lie between the memory and bank-conflict walls."""
    rows: list[list[Any]] = []
    for wall in found:
        marks = ", ".join(f"{name} {mark:g}" for name, mark in wall.walls.items())
        rows.append([wall.rank, wall.kind, wall.value, marks, wall.reading])
    return table(_WALLS, rows)


def _row(point: roofline.Point) -> list[Any]:
    values = {**vars(point), "time_ns": _whole(point.time_ns)}
    return [values[column] for column in _POINTS]


def _instruction_row(point: instruction_roofline.InstructionPoint) -> list[Any]:
    values = {
        **vars(point),
        "performance": point.gips,
        "unit": "GIPS",
        "operations": point.instructions,
        "time_ns": _whole(point.time_ns),
    }
    return [values[column] for column in _INSTRUCTIONS]


def _whole(time_ns: float | None) -> int | None:
    return None if time_ns is None else round(time_ns)


def _page(columns: dict[str, str | None], rows: list[list[Any]], more: bool) -> Table:
    made = table(columns, rows)
    return made.model_copy(update={"truncated": True, "total_rows": None}) if more else made


def pipes(views: list[View]) -> Table:
    """The mixed-pipe view: least times as shares of the run time, busy cycles, and the verdict."""
    units = [*_BUSY, *(name for name in _MORE_BUSY if any(name in view.busy for view in views))]
    columns: dict[str, str | None] = {"rank": None, "dispatch": None, "time_ns": "ns", "attainable_time_ns": "ns"}
    columns |= {f"{name}_pct": "%" for name in _PIPES} | {f"{name}_busy_pct": "%" for name in units}
    columns |= dict.fromkeys(("bound", "limiter", "why"))
    rows = []
    for rank, view in enumerate(views, 1):
        shares = [view.shares[name].value if name in view.shares else None for name in _PIPES]
        most = max((s for s in shares if s is not None), default=None)
        attainable = most * view.time_ns if most is not None and view.time_ns is not None else None
        busy = [view.busy.get(name) for name in units]
        figures = [None if share is None else 100 * share for share in [*shares, *busy]]
        rows.append(
            [
                rank,
                view.dispatch,
                _whole(view.time_ns),
                _whole(attainable),
                *figures,
                view.bound,
                view.limiter,
                view.why,
            ]
        )
    return table(columns, rows)


def ceilings_table(chosen: Ceilings, theory: Ceilings, kind: str, detail: str) -> Table:
    """Ceilings with the ridge point at each level; in full also their interval, share of theory and origin."""
    columns: dict[str, str | None] = {"ceiling": None, "value": None, "unit": None}
    columns |= {f"ridge_{level}": "operations/B" for level in LEVELS}
    if detail == "full":
        columns |= {"low": None, "high": None, "pct_of_theory": "%", "kind": None, "source": None}
    rows = []
    for name, ceiling in chosen.known.items():
        issue = ceiling.unit == "GIPS"
        if ceiling.unit != "GB/s" and issue != (kind == "instruction"):
            continue
        row: list[Any] = [name, ceiling.value, ceiling.unit]
        row += [None if name.endswith(".bw") else chosen.ridge(name, level) for level in LEVELS]
        if detail == "full":
            best = theory.value(name)
            share = 100 * ceiling.value / best if best else None
            row += [ceiling.low, ceiling.high, share, ceiling.kind, ceiling.source]
        rows.append(row)
    return table(columns, rows)


def sweep(chosen: Ceilings) -> Table:
    """The measured roof: rates reached at intensities in between the ceilings."""
    columns = {"ceiling": None, "intensity": "operations/B", "value": None, "unit": None}
    return table(columns, [[p.name, p.intensity, p.value, p.unit] for p in chosen.sweep])


def peak_note(found: RooflineInputs) -> str:
    issue = found.theory.known.get("issue")
    if issue is None:
        return "The peak of instruction issue is unknown: the profile states no clock."
    words = found.formulas.words
    return (
        f"Theoretical peak {issue.value:.2f} GIPS = {words.units} x schedulers x IPC x clock. Instructions are "
        f"{words.instructions}."
    )


def flop_notes(found: RooflineInputs, result: roofline.Roofline) -> list[str]:
    notes = []
    if not found.formulas.operations(found.target, "flop"):
        notes.append(
            f"{found.target} has no counters of floating-point operations: no FLOP roofline is possible. "
            'kind="instruction" works; bandwidths and the bound below come from bytes and instructions.'
        )
    if result.not_counted:
        parts = [f"{name} ({why})" for name, why in list(result.not_counted.items())[:4]]
        more = len(result.not_counted) - len(parts)
        notes.append(
            f"Not counted: {', '.join(parts)}{f' and {more} more' if more > 0 else ''}; totals are lower bounds."
        )
    done = {r.name for r in result.rates}
    notes += dict.fromkeys(o.note for o in found.formulas.operation if o.note and o.name in done)
    if any(p.datatype == "flop" and p.operations == 0 for p in result.points):
        notes.append("Kernels without floating point are judged by bandwidth and integer operations (datatype iop).")
    if any(p.status == "impossible" for p in result.points):
        notes.append("Points with status impossible contradict the hardware or themselves: do not draw conclusions.")
    return notes


def common_notes(
    manifest: Manifest, found: RooflineInputs, shown: Sequence[str], limit: int, offset: int, by: str
) -> list[str]:
    notes = list(found.ceilings.notes)
    if found.ceilings.kind == "theoretical" and found.ceilings.missing:
        names = list(found.ceilings.missing)
        why = sorted(set(found.ceilings.missing.values()))
        notes.append(
            f"No ceiling for {len(names)} of them ({', '.join(why[:3])}); ceilings= takes measured ones by hand."
        )
    notes += [level.note for level in found.formulas.level if level.note and level.name in shown]
    if apart := [name for name in found.scattered if name in shown]:
        notes.append(f"Operations and bytes of {', '.join(apart)} come from different passes, whose runs can differ.")
    if found.collected.total > offset + limit:
        first = offset + 1
        plural = "kernels" if by == "kernel" else "dispatches"
        notes.append(
            f"{plural.capitalize()} {first} to {offset + limit} of {found.collected.total}, by time; offset= for more."
        )
    gpu = targets.gpu(manifest.arch or "")
    if not gpu.validated_on_hardware:
        notes.append(f"Figures of {gpu.target} come from documents and recorded profiles; not validated on hardware.")
    return notes


def next_calls(
    manifest: Manifest, found: RooflineInputs, views: list[View], kind: str, datatype: str | None
) -> list[NextCall]:
    suggested = []
    here = {"workload": manifest.id}
    if kind == "flop" and not found.formulas.operations(found.target, "flop"):
        suggested.append(
            NextCall(
                tool="compute_roofline",
                arguments={**here, "kind": "instruction"},
                why="the instruction roofline needs no FLOP counters",
            )
        )
    limiter = next((v.limiter for v in views if v.limiter in catalog.SUBSYSTEMS), None)
    if limiter:
        suggested.append(
            NextCall(
                tool="compute_metrics",
                arguments={**here, "metrics": [limiter], "kernel": "#1"},
                why=f"what {limiter} does in the longest kernel",
            )
        )
    if any(v.bound == "unknown" for v in views):
        suggested.append(NextCall(tool="list_workloads", arguments=here, why="which passes and counters exist"))
    if kind == "flop" and datatype is None and not suggested:
        suggested.append(
            NextCall(tool="compute_roofline", arguments={**here, "datatype": "all"}, why="points per data type")
        )
    return suggested


class RooflineResult(Result):
    """Points of kernels, the mixed-pipe view behind their verdict, and the ceilings they are held against.

    ``points`` has a row per kernel, memory level and data type. ``pipes`` has a row per kernel: the least time that
    each pipe and level needs, as a share of the run time; the greatest is the limit. ``operations`` lists the work by
    data type, ``walls`` the memory and bank-conflict walls of the instruction roofline.
    """

    workload: str
    name: str
    arch: str | None
    kind: str
    ceiling_source: str
    device: str
    ceilings: Table
    points: Table
    pipes: Table
    operations: Table | None = None
    walls: Table | None = None
    sweep: Table | None = None
    """In full: what the device reached at each intensity, where that was measured."""


def compute_roofline(
    store: Store,
    workload: Annotated[str, Field(description='id, name or "latest"')],
    kernel: Annotated[str | None, Field(description='regex, or "#1" = longest')] = None,
    kind: Literal["flop", "instruction"] = "flop",
    levels: list[LevelName] | None = None,
    datatype: Annotated[str | None, Field(description="default: total; iop, f16, i8, matrix.bf16, ..., all")] = None,
    ceiling_source: Annotated[
        Literal["empirical", "theoretical"], Field(description="empirical falls back to theory")
    ] = "empirical",
    by: Literal["kernel", "dispatch"] = "kernel",
    dispatches: Annotated[str | list[int] | None, Field(description='ids: "0,2,5-9"')] = None,
    ceilings: Annotated[dict[str, float], Field(description='by hand: {"hbm.bw": 1390}')] = {},  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=10_000, description="kernels")] = 2,
    offset: Annotated[int, Field(ge=0)] = 0,
    detail: Literal["summary", "full"] = "summary",
) -> RooflineResult:
    """Hierarchical roofline: intensity, achieved and attainable rate per kernel and memory level, and what bounds it
    (memory, compute, latency; the limiter), from all pipes and levels together."""
    with Workload.open(store, workload) as opened:
        found = prepare(opened, Asked(kernel, dispatches, by, limit, offset), ceiling_source, ceilings)
    manifest = opened.manifest
    shown = [level for level in LEVELS if levels is None or level in levels]
    more = offset + limit < found.collected.total
    about = common_notes(manifest, found, shown, limit, offset, by)
    common: dict[str, Any] = {
        "workload": manifest.id,
        "name": manifest.name,
        "arch": manifest.arch,
        "kind": kind,
        "ceiling_source": found.ceilings.kind,
        "device": found.ceilings.device,
        "ceilings": ceilings_table(found.ceilings, found.theory, kind, detail),
        "sweep": sweep(found.ceilings) if detail == "full" and found.ceilings.sweep else None,
    }
    if kind == "instruction":
        points, views, walls = instruction_roofline.points(found, shown)
        return RooflineResult(
            **common,
            points=instruction_points(points, more),
            pipes=pipes(views),
            walls=walls_table(walls),
            notes=[peak_note(found), *about],
            next=next_calls(manifest, found, views, kind, datatype),
        )
    result = roofline.flop(found, shown, datatype)
    return RooflineResult(
        **common,
        points=points_table(result.points, more),
        pipes=pipes(result.views),
        operations=operations(result.rates),
        notes=[*flop_notes(found, result), *about],
        next=next_calls(manifest, found, result.views, kind, datatype),
    )
