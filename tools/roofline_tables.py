"""The tables of compute_roofline: points, walls, work by data type, the mixed-pipe view, ceilings with their ridges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis import instruction_roofline, roofline
from ..analysis.ceilings import Ceilings
from ..analysis.mixed import View
from ..analysis.work import LEVELS
from .results import Table, table

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


def points(made: Sequence[roofline.Point], more: bool) -> Table:
    """The points of one page; ``more`` says that further kernels follow, whose rows are not known yet."""
    return _page(_POINTS, [_row(p) for p in made], more)


def instruction_points(made: Sequence[instruction_roofline.InstructionPoint], more: bool) -> Table:
    """The same for the instruction roofline."""
    return _page(_INSTRUCTIONS, [_instruction_row(p) for p in made], more)


def operations(rates: Sequence[roofline.Rate]) -> Table:
    """The work of each kernel by pipe and data type, against its own ceiling."""
    rows = [[r.rank, r.name, r.operations, r.rate, r.unit, r.ceiling, r.pct_of_ceiling, r.n] for r in rates]
    return table(_OPERATIONS, rows)


def walls(found: Sequence[instruction_roofline.Wall]) -> Table:
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


def ceilings(chosen: Ceilings, theory: Ceilings, kind: str, detail: str) -> Table:
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
