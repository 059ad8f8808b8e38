"""The tool compute_roofline: ceilings, and where each kernel is below them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..analysis.base.kernel_names import short
from ..analysis.base.problems import BadArgument
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue.work_formulas import LEVELS, LevelName
from ..analysis.engine.work_sums import WorkUnit as Grouped
from ..analysis.rooflines.ceilings import Ceilings
from ..analysis.rooflines.inputs import RooflineInputs, RooflineRequest, prepare_inputs
from ..analysis.rooflines.limits import KernelLimits
from ..analysis.rooflines.loads import Share, loads_text
from ..analysis.rooflines.notes import notes
from ..analysis.rooflines.roofline import OperationRate, Roofline, RooflineKind, build_roofline
from ..analysis.rooflines.walls import Wall
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from .answers import roofline_summary
from .answers.launch_notes import about
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .answers.tables import Row, table_from
from .base.parameters import (
    CeilingSource,
    CeilingValues,
    Detail,
    Dispatches,
    Pattern,
    Reference,
)
from .base.results import NextCall, Result, Table

_OPTIONAL_PIPES = ("gl1_pct", "vl1d_busy_pct", "l2_busy_pct", "hbm_busy_pct")
"""The levels and units that are known on some GPUs only."""
_NOT_TO_COUNT = ("no_ceiling", "no_fact", "no_timing", "no_value", "not_countable")
"""Codes of unknown loads that no further counters would reveal: for ``no_value`` all were collected."""
_LORE = ("without_flop", "data_sheet", "no_ceiling", "several_devices", "why_not_counted")
"""Notes that a summary omits, because it shows the same in another way or is not affected."""


@dataclass(frozen=True)
class _RooflineExtent:
    """Which part of a roofline the answer shows."""

    levels: list[LevelName]
    chosen: bool
    """Whether the caller named the levels."""
    full: bool
    numbers: dict[str, str]
    """Kernel or launch configuration -> the number that selects it."""
    by_launch: bool
    given: Collection[str]
    """The ceilings given by the caller."""


def _points(roofline: Roofline, rows: list[Row], shown: _RooflineExtent) -> Table:
    """The points of one page; the total number of rows is unknown if further kernels follow."""
    name = "instruction_points" if roofline.kind == "instruction" else "points"
    if not shown.full:
        rows = roofline_summary.main_points(rows, shown.numbers, unused_levels=shown.chosen)
    made = table_from(name, rows, full=shown.full)
    asked, total = roofline.inputs.asked, roofline.inputs.collected.total
    more = asked.offset + asked.limit < total
    return made.model_copy(update={"truncated": True, "total_rows": None}) if more else made


def _walls(walls: Sequence[Wall]) -> Table:
    """Where accesses are between the memory and bank-conflict walls."""
    rows = [{**vars(w), "walls": ", ".join(f"{name} {mark:g}" for name, mark in w.walls.items())} for w in walls]
    return table_from("walls", rows)


def _pipes(limits: Sequence[KernelLimits], *, full: bool) -> Table:
    """What bounds each kernel; in full also least times as shares of the run time, and busy cycles.

    Otherwise the shares are in the line of loads, and the times in the points; obvious reasons are omitted.
    """
    rows: list[dict[str, Any]] = []
    obvious = all(one.bound in ("memory", "compute") for one in limits)
    for rank, one in enumerate(limits, 1):
        shares = {f"{name}_pct": share.value for name, share in one.shares.items()}
        most = max((share for share in shares.values() if share is not None), default=None)
        known, doubts = any(load.pct is not None for load in one.loads), _why_doubted(one.shares | one.busy)
        rows.append({
            **vars(one), **shares, **{f"{name}_pct": part.value for name, part in one.busy.items()},
            "rank": rank,
            "attainable_time_ns": most and one.time_ns and most * one.time_ns,
            "loads": loads_text(one.loads),
            "why": None if obvious and not full else one.why,
            "status": "suspect" if doubts else "ok" if known else "not_collected",
            "reason": doubts,
        })  # fmt: skip
    absent = [name for name in _OPTIONAL_PIPES if not any(name in row for row in rows)]
    return table_from("pipes", rows, full=full, without=absent)


def _operations(rates: Sequence[OperationRate], *, full: bool) -> Table | None:
    """The work by data type; the ceilings are a table of their own in a short answer."""
    return table_from("operation_rates", list(map(vars, rates)), full=full) if rates or full else None


def _why_doubted(shares: Mapping[str, Share]) -> str | None:
    """The columns of a row that are doubted, and why."""
    by_text: dict[str, list[str]] = {}
    for name, share in shares.items():
        if share.doubt:
            by_text.setdefault(share.doubt.text, []).append(name)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in by_text.items()) or None


def _check_levels(inputs: RooflineInputs, levels: list[LevelName] | None) -> None:
    """Refuse memory levels that the target does not have."""
    known = [level.name for level in inputs.formulas.level]
    if absent := [level for level in levels or () if level not in known]:
        raise BadArgument(f"{inputs.target} has no memory level {absent[0]!r}", f"its levels: {', '.join(known)}")


def _ceilings(inputs: RooflineInputs, shown: _RooflineExtent, used: Collection[str], *, instructions: bool) -> Table:
    """The ceilings with the ridge point at each requested level; in full also interval, share of theory and origin.

    A short answer has those of the operations ``used`` and of the levels, and states how many exist.
    """
    chosen, theory = inputs.ceilings, inputs.theory
    levels = [level.name for level in inputs.formulas.level]
    ridges = shown.levels if shown.chosen or shown.full else shown.levels[:1]
    without = [f"ridge_{level}" for level in LEVELS if level not in ridges or level not in levels]
    rows = []
    for name, ceiling in chosen.known.items():
        if ceiling.unit != "GB/s" and (ceiling.unit == "GIPS") != instructions:
            continue
        best = theory.value(name)
        row = {**vars(ceiling), "name": name, "pct_of_theory": 100 * ceiling.value / best if best else None}
        if not name.endswith(".bw"):
            row |= {f"ridge_{level}": chosen.ridge(name, level) for level in levels}
        rows.append(row)
    main = rows if shown.full else roofline_summary.main_ceilings(rows, shown.levels, used)
    return table_from("roofline_ceilings", main, len(rows), full=shown.full, without=without)


def _answer(roofline: Roofline) -> str | None:
    """Say what bounds the first kernel."""
    if not roofline.limits:
        return None
    first, kernels = roofline.limits[0], {one.kernel for one in roofline.limits}
    code = "roofline.unknown" if first.bound == "unknown" else "roofline.bound"
    text = sentence(code, kernel=short(first.kernel), bound=first.bound, why=first.why.rstrip("."))
    return text + (sentence("roofline.kernels", shown=len(kernels)) if len(kernels) > 1 else "")


def _derived_ceilings(ceilings: Ceilings, shown: Table) -> list[str]:
    """A note on the ceilings shown that were derived from measured ones."""
    known = [ceilings.known[row["ceiling"]] for row in shown.records()]
    made = [f"{one.name} ({one.source})" for one in known if one.derived_from]
    return [sentence("roofline.derived", made=made)] if made else []


def _ranks(points: Table, numbers: Mapping[str, str]) -> list[str]:
    """A note that explains the two numbers of a kernel, if they differ."""
    differ = any(numbers.get(row["kernel"]) not in (None, f"#{row['rank']}") for row in points.records())
    return [sentence("roofline.ranks")] if differ else []


def _lacks_counters(one: KernelLimits) -> bool:
    """Whether another profile could supply the unknown loads of a kernel: counters are missing or do not agree."""
    unknown = [load.reason for load in one.loads if load.decides and load.pct is None]
    return not unknown or any(reason is not None and reason.code not in _NOT_TO_COUNT for reason in unknown)


def _next(workload: str, roofline: Roofline, datatype: str | None, numbers: Mapping[str, str]) -> list[NextCall]:
    suggested = []
    here, inputs = {"workload": workload}, roofline.inputs
    flops = roofline.kind == "flop"
    if flops and not inputs.formulas.operations("flop"):
        why = "the instruction roofline needs no FLOP counters"
        suggested.append(next_call("compute_roofline", why, **here, kind="instruction"))
    limited = next((one for one in roofline.limits if one.limiter in catalog.SUBSYSTEMS), None)
    if limited:
        number = numbers[limited.kernel]
        why = f"what {limited.limiter} does in {number}"
        suggested.append(next_call("compute_metrics", why, **here, metrics=[limited.limiter], kernel=number))
    if any(one.bound == "unknown" and _lacks_counters(one) for one in roofline.limits):
        word = "roofline" if flops else "roofline.instruction"
        contradict = any(point.status == "impossible" for point in roofline.points)
        why = (
            "the passes that collect impossible figures again"
            if contradict
            else "the passes that collect what is missing"
        )
        suggested.append(next_call("plan_profile", why, gpu=inputs.target, metrics=[word]))
    if flops and datatype is None and not suggested:
        suggested.append(next_call("compute_roofline", "points per data type", **here, datatype="all"))
    return suggested


class RooflineResult(Result):
    """Points of kernels, the mixed-pipe view behind their verdict, and the ceilings that they are compared with.

    ``points`` has a row per kernel, memory level and data type. ``pipes`` has a row per kernel: the loads of its units
    in one line and what bounds it; in full also the least time that each pipe and level needs, as a share of the run
    time. ``operations`` lists the work by data type, ``walls`` the walls of the instruction roofline.
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
    """With detail="full": the rate that the device reached at each intensity, if it was measured."""


def compute_roofline(
    store: Store,
    workload: Reference,
    kernel: Pattern | None = None,
    kind: RooflineKind = "flop",
    levels: list[LevelName] | None = None,
    datatype: Reference | None = None,
    ceiling_source: CeilingSource = "empirical",
    by: Literal["kernel", "launch", "dispatch"] = "kernel",
    dispatches: Dispatches = None,
    ceilings: CeilingValues = {},  # noqa: B006
    limit: int = 2,
    offset: int = 0,
    detail: Detail = "summary",
) -> RooflineResult:
    """Hierarchical roofline: intensity, achieved and attainable rate per kernel and memory level, and what bounds
    each kernel (memory, compute, latency; limiter)."""
    drawn = [level for level in LEVELS if levels is None or level in levels]
    with Workload.open(store, workload, kernel, "launch" if by == "launch" else "kernel") as opened:
        groups: Grouped = "dispatch" if by == "dispatch" else "kernel"
        called = "Launch configurations" if by == "launch" else None
        asked = RooflineRequest(kernel, dispatches, groups, limit, offset, called)
        inputs = prepare_inputs(opened, asked, ceiling_source, ceilings)
        kernels = list(dict.fromkeys(work.kernel for work in inputs.collected.groups))
        together = kernels if by == "kernel" else []
        remarks = [sentence("roofline.replayed")] if opened.manifest.replayed else []
        told = about(opened, "compute_roofline", opened.select(kernel, dispatches), together)
        numbers = {name: f"#{opened.kernels[name].number}" for name in kernels}
    _check_levels(inputs, levels)
    roofline = build_roofline(inputs, drawn, datatype, kind)
    shown = _RooflineExtent(drawn, levels is not None, detail == "full", numbers, opened.by == "launch", ceilings)
    used = {*shown.given, *(rate.operation for rate in roofline.rates if rate.operations)}
    rooflines = _ceilings(inputs, shown, used, instructions=kind == "instruction")
    rows = [
        {
            **vars(point),
            "number": numbers.get(point.kernel) if shown.by_launch else None,
            "reason": point.reason and point.reason.text,
        }
        for point in roofline.points
    ]
    points = _points(roofline, rows, shown)
    sweep = inputs.ceilings.sweep if shown.full else None
    if not (shown.full or shown.chosen):
        remarks += roofline_summary.notes_on_unused_levels(rows, numbers)
    return RooflineResult(
        answer=_answer(roofline),
        workload=opened.id,
        name=opened.name,
        arch=opened.manifest.arch,
        kind=kind,
        ceiling_source=inputs.ceilings.kind,
        device=inputs.ceilings.device,
        ceilings=rooflines,
        points=points,
        pipes=_pipes(roofline.limits, full=shown.full),
        operations=_operations(roofline.rates, full=shown.full) if kind == "flop" else None,
        walls=_walls(roofline.walls) if kind == "instruction" else None,
        sweep=table_from("sweep", list(map(vars, sweep))) if sweep else None,
        notes=[
            *(note.text for note in notes(roofline, drawn) if shown.full or note.code not in _LORE),
            *_derived_ceilings(inputs.ceilings, rooflines),
            *([] if shown.by_launch else _ranks(points, numbers)),
            *remarks,
            *told.notes,
        ],
        next=[*told.next, *_next(opened.id, roofline, datatype, numbers)],
    )
