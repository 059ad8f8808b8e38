"""The tool compute_roofline: ceilings, and where each kernel is below them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.base.kernel_names import short
from ..analysis.base.notes import Reason
from ..analysis.base.problems import BadArgument
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue.work_formulas import LEVELS, LevelName
from ..analysis.engine.work_sums import WorkUnit as Grouped
from ..analysis.rooflines.ceilings import Ceilings, SweepPoint
from ..analysis.rooflines.flop import FlopRoofline, OperationRate, RooflinePoint, flop_roofline
from ..analysis.rooflines.inputs import RooflineInputs, RooflineRequest, prepare_inputs
from ..analysis.rooflines.instruction import InstructionPoint, InstructionRoofline, Wall, instruction_roofline
from ..analysis.rooflines.limits import KernelLimits
from ..analysis.rooflines.loads import loads_text
from ..analysis.rooflines.notes import Roofline, notes
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from .answers import roofline_summary
from .answers.launch_notes import about
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .answers.tables import table_from
from .base.parameters import (
    LEVEL_NAMES,
    CeilingSource,
    CeilingValues,
    Datatype,
    Detail,
    Dispatches,
    KernelName,
    Offset,
    WorkloadName,
)
from .base.results import NextCall, Result, Table, table

_POINT = {
    "intensity": "operations/B",
    "bytes": "B",
    "time_ns": "ns",
    "pct_of_attainable": "%",
    "bandwidth": "GB/s",
    "pct_of_bandwidth": "%",
    "n": "dispatches",
}
_INSTRUCTION_POINT = {
    "intensity": "inst/B",
    "per_transaction": "inst/txn",
    "performance": "GIPS",
    "bytes": "B",
    "operations": "inst",
    "transactions": "txn",
    "gtxn": "GTXN/s",
    "time_ns": "ns",
    "attainable": "GIPS",
    "pct_of_attainable": "%",
    "pct_of_peak": "%",
    "n": "dispatches",
}
_REPLAYED = (
    "time_ns and rates are those of the replays with counters (one kernel alone, caches flushed); list_workloads has "
    "those of the run, under the same numbers."
)
_PIPES = ("hbm", "l2", "gl1", "vl1d", "lds", "valu", "valu.issue", "matrix")
_MORE_PIPES = ("gl1",)
_NOT_TO_COUNT = ("no_ceiling", "no_fact", "no_timing", "no_value", "not_countable")
"""Codes of unknown loads that no further counters would reveal: for ``no_value`` all were collected."""
_LORE = ("without_flop", "data_sheet", "no_ceiling", "several_devices", "why_not_counted")
"""Notes that a summary omits, because it shows the same in another way or is not affected."""
_BUSY = ("valu", "matrix", "lds")
_MORE_BUSY = ("vl1d", "l2", "hbm")
"""Units that are known on some GPUs only, like the pipes of _MORE_PIPES."""


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


def _points(roofline: Roofline, shown: _RooflineExtent) -> Table:
    """The points of one page; the total number of rows is unknown if further kernels follow."""
    if isinstance(roofline, InstructionRoofline):
        made = _table(InstructionPoint, roofline.points, _INSTRUCTION_POINT)
    else:
        made = _table(RooflinePoint, roofline.points, _POINT)
    if shown.by_launch and shown.numbers:
        rows = [[shown.numbers[point["kernel"]], *point.values()] for point in made.records()]
        made = made.model_copy(
            update={"columns": ["number", *made.columns], "units": [None, *made.units], "rows": rows}
        )
    asked, total = roofline.inputs.asked, roofline.inputs.collected.total
    more = asked.offset + asked.limit < total
    return made.model_copy(update={"truncated": True, "total_rows": None}) if more else made


def _walls(walls: Sequence[Wall]) -> Table:
    """Where accesses are between the memory and bank-conflict walls."""
    rows = [{"wall": w, "walls": ", ".join(f"{name} {mark:g}" for name, mark in w.walls.items())} for w in walls]
    return table_from("walls", rows)


def _table(kind: type[Any], things: Sequence[Any], units: Mapping[str, str]) -> Table:
    """A table with one column per field of a dataclass."""
    return _table_of_mappings(
        {field.name: units.get(field.name) for field in fields(kind)}, [vars(thing) for thing in things]
    )


def _table_of_mappings(columns: Mapping[str, str | None], rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table from rows that map column names to values."""
    return table(columns, [[_cell(name, row[name]) for name in columns] for row in rows])


def _cell(name: str, value: Any) -> Any:
    """A value as shown in tables: reasons as text, times in whole nanoseconds."""
    if name.endswith("time_ns") and value is not None:
        return round(value)
    return value.text if name == "reason" and value is not None else value


def _pipes(limits: Sequence[KernelLimits]) -> Table:
    """Least times as shares of the run time, busy cycles, and what bounds each kernel."""
    units = [*_BUSY, *(name for name in _MORE_BUSY if any(name in one.busy for one in limits))]
    pipes = [name for name in _PIPES if name not in _MORE_PIPES or any(name in one.shares for one in limits)]
    columns: dict[str, str | None] = {"rank": None, "dispatch": None, "time_ns": "ns", "attainable_time_ns": "ns"}
    columns |= {f"{name}_pct": "%" for name in pipes} | {f"{name}_busy_pct": "%" for name in units}
    columns |= dict.fromkeys(("loads", "bound", "limiter", "why", "status", "reason"))
    rows = []
    for rank, one in enumerate(limits, 1):
        shares = {name: one.shares[name].value if name in one.shares else None for name in pipes}
        most = max((s for s in shares.values() if s is not None), default=None)
        attainable = most * one.time_ns if most is not None and one.time_ns is not None else None
        row = {**vars(one), "rank": rank, "attainable_time_ns": attainable}
        row["loads"] = loads_text(one.loads)
        known = any(load.pct is not None for load in one.loads)
        status = "suspect" if one.doubted else "ok" if known else "not_collected"
        row |= {"status": status, "reason": _why_doubted(one)}
        row |= {f"{name}_pct": _pct(share) for name, share in shares.items()}
        row |= {f"{name}_busy_pct": _pct(one.busy.get(name)) for name in units}
        rows.append(row)
    return _table_of_mappings(columns, rows)


def _why_doubted(one: KernelLimits) -> Reason | None:
    """The columns of a row that are doubted, and why."""
    by_text: dict[str, list[str]] = {}
    for name, reason in one.doubted.items():
        by_text.setdefault(reason.text, []).append(name)
    told = "; ".join(f"{', '.join(names)}: {text}" for text, names in by_text.items())
    return Reason("doubted", told) if told else None


def _pct(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _check_levels(inputs: RooflineInputs, levels: list[LevelName] | None) -> None:
    """Refuse memory levels that the target does not have."""
    known = [level.name for level in inputs.formulas.level]
    if absent := [level for level in levels or () if level not in known]:
        raise BadArgument(f"{inputs.target} has no memory level {absent[0]!r}", f"its levels: {', '.join(known)}")


def _summarise(
    rooflines: Table, points: Table, shown: _RooflineExtent, rates: Sequence[OperationRate]
) -> tuple[Table, Table]:
    """Return the ceilings that are used, and the points with the most important columns."""
    used = {*shown.given, *(rate.operation for rate in rates if rate.operations)}
    ceilings = roofline_summary.ceilings(rooflines, shown.levels, used)
    return ceilings, roofline_summary.points(points, shown.numbers, unused_levels=shown.chosen)


def _ceilings(inputs: RooflineInputs, shown: _RooflineExtent, *, instructions: bool) -> Table:
    """The ceilings with the ridge point at each requested level; in full also interval, share of theory and origin."""
    chosen, theory = inputs.ceilings, inputs.theory
    columns: dict[str, str | None] = {"ceiling": None, "value": None, "unit": None}
    ridges = shown.levels if shown.chosen or shown.full else shown.levels[:1]
    levels = [level.name for level in inputs.formulas.level if level.name in ridges]
    columns |= {f"ridge_{level}": "operations/B" for level in levels}
    if shown.full:
        columns |= {"low": None, "high": None, "pct_of_theory": "%", "kind": None, "source": None}
    rows = []
    for name, ceiling in chosen.known.items():
        issue = ceiling.unit == "GIPS"
        if ceiling.unit != "GB/s" and issue != instructions:
            continue
        best = theory.value(name)
        row = {**vars(ceiling), "ceiling": name, "pct_of_theory": 100 * ceiling.value / best if best else None}
        row |= {f"ridge_{level}": None if name.endswith(".bw") else chosen.ridge(name, level) for level in levels}
        rows.append(row)
    return _table_of_mappings(columns, rows)


def _answer(roofline: Roofline) -> str | None:
    """Say what bounds the first kernel."""
    if not roofline.limits:
        return None
    first, kernels = roofline.limits[0], {one.kernel for one in roofline.limits}
    code = "roofline.unknown" if first.bound == "unknown" else "roofline.bound"
    text = sentence(code, kernel=short(first.kernel), bound=first.bound, why=first.why.rstrip("."))
    return text + (sentence("roofline.kernels", shown=len(kernels)) if len(kernels) > 1 else "")


def _derived_ceilings(ceilings: Ceilings, shown: Table) -> Iterator[str]:
    """A note on the ceilings shown that were derived from measured ones."""
    names = [row["ceiling"] for row in shown.records()]
    made = [f"{name} ({ceilings.known[name].source})" for name in names if ceilings.known[name].derived_from]
    if made:
        yield f"Derived: {', '.join(made)}."


def _ranks(points: Table, numbers: Mapping[str, str]) -> list[str]:
    """A note that explains the two numbers of a kernel, if they differ."""
    differ = any(numbers.get(row["kernel"]) not in (None, f"#{row['rank']}") for row in points.records())
    return ["rank counts the kernels of this answer; #n is the kernel's number in the workload."] if differ else []


def _lacks_counters(one: KernelLimits) -> bool:
    """Whether another profile could supply the unknown loads of a kernel: counters are missing or do not agree."""
    unknown = [load.reason for load in one.loads if load.decides and load.pct is None]
    return not unknown or any(reason is not None and reason.code not in _NOT_TO_COUNT for reason in unknown)


def _next(workload: str, roofline: Roofline, datatype: str | None, numbers: Mapping[str, str]) -> list[NextCall]:
    suggested = []
    here, inputs = {"workload": workload}, roofline.inputs
    flops = isinstance(roofline, FlopRoofline)
    if flops and not inputs.formulas.operations(inputs.target, "flop"):
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
    workload: WorkloadName,
    kernel: KernelName = None,
    kind: Annotated[
        Literal["flop", "instruction"], Field(description="instruction: per byte and per transaction")
    ] = "flop",
    levels: Annotated[
        list[LevelName] | None, Field(max_length=LEVEL_NAMES, description="memory levels; default: all")
    ] = None,
    datatype: Datatype = None,
    ceiling_source: CeilingSource = "empirical",
    by: Annotated[
        Literal["kernel", "launch", "dispatch"],
        Field(description="a point per kernel, launch configuration, or dispatch"),
    ] = "kernel",
    dispatches: Dispatches = None,
    ceilings: CeilingValues = {},  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=10000, description="most kernels or dispatches")] = 2,
    offset: Offset = 0,
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
        remarks = [_REPLAYED] if opened.manifest.replayed else []
        told = about(opened, "compute_roofline", opened.select(kernel, dispatches), together)
        numbers = {name: f"#{opened.kernels[name].number}" for name in kernels}
    _check_levels(inputs, levels)
    roofline = instruction_roofline(inputs, drawn) if kind == "instruction" else flop_roofline(inputs, drawn, datatype)
    shown = _RooflineExtent(drawn, levels is not None, detail == "full", numbers, opened.by == "launch", ceilings)
    rates = roofline.rates if isinstance(roofline, FlopRoofline) else []
    rooflines, points = _ceilings(inputs, shown, instructions=kind == "instruction"), _points(roofline, shown)
    pipes, sweep = _pipes(roofline.limits), inputs.ceilings.sweep if shown.full else None
    operations = _table(OperationRate, rates, {"pct_of_ceiling": "%", "n": "dispatches"}) if kind == "flop" else None
    if not shown.full:
        remarks += [] if shown.chosen else roofline_summary.notes_on_unused_levels(points, numbers)
        rooflines, points = _summarise(rooflines, points, shown, rates)
        pipes = roofline_summary.pipes(pipes)
        operations = roofline_summary.operations(operations) if operations and operations.rows else None
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
        pipes=pipes,
        operations=operations,
        walls=_walls(roofline.walls) if isinstance(roofline, InstructionRoofline) else None,
        sweep=_table(SweepPoint, sweep, {"intensity": "operations/B"}) if sweep else None,
        notes=[
            *(note.text for note in notes(roofline, drawn) if shown.full or note.code not in _LORE),
            *_derived_ceilings(inputs.ceilings, rooflines),
            *([] if shown.by_launch else _ranks(points, numbers)),
            *remarks,
            *told.notes,
        ],
        next=[*told.next, *_next(opened.id, roofline, datatype, numbers)],
    )
