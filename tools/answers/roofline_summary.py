"""Short tables: of compute_roofline, with few digits and long names only once; operators, collectives and phases."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import Any

from ...analysis.timeline.operators import Operators
from ...analysis.timeline.phases import OPERATIONS
from ..base.results import Table, round_number
from .sentences import sentence
from .tables import Row, table_from

_WITHOUT_SIZE, _TYPE, _SIZES = re.compile(r"(,\[\])+\]$"), re.compile(r'"([^"]*)"'), 80
"""The last arguments without a size, which are not shown, a type, and how many characters are shown of sizes."""
_DIGITS = 7
_LONG = 30
"""Names longer than this are written out once; further rows have the kernel's number, which every tool accepts."""
_ALWAYS = ("valu.f32", "valu.f64")
"""Ceilings that are always shown, because they characterise the device."""
ABOVE = "as above"


def ceilings(table: Table, levels: Collection[str], used: Collection[str]) -> Table:
    """Return the ceilings of the requested levels and of the operations used; the table states how many exist."""
    wanted = {*_ALWAYS, *used, *(f"{level}.bw" for level in levels)}
    every = table.records()
    rows = [row for row in every if row["ceiling"] in wanted or str(row["ceiling"]).startswith("valu.issue")] or every
    shown = _with_rows(table, rows, ())
    shown.total_rows, shown.truncated = len(every), len(rows) < len(every)
    return shown


def points(table: Table, numbers: dict[str, str], *, unused_levels: bool) -> Table:
    """Return the points that matter for a short answer.

    Drops points of zero operations if the kernel has others and, unless ``unused_levels``, points of levels through
    which the kernel moves no bytes or whose bytes were not collected; each kernel keeps at least one point. Long texts
    appear once.
    """
    every = table.records()
    worked = {(row["kernel"], row["level"]) for row in every if row["operations"]}
    rows = [row for row in every if row["operations"] != 0 or (row["kernel"], row["level"]) not in worked]
    if not unused_levels:
        first = {row["kernel"]: row for row in reversed(rows)}
        moving, known = _moving(every), {row["kernel"] for row in rows if not _not_collected(row)}
        rows = [
            row
            for row in rows
            if (not _not_collected(row) and (row["bytes"] != 0 or row["kernel"] not in moving))
            or (row["kernel"] not in known and row is first[row["kernel"]])
        ]
    _say_once(rows, numbers)
    shown = _with_rows(table, rows, ("dispatch", "reason", "bandwidth", "pct_of_bandwidth"))
    shown.total_rows = table.total_rows if table.total_rows is None else len(rows)
    return shown


def notes_on_unused_levels(table: Table, numbers: dict[str, str]) -> list[str]:
    """Return notes on the levels for which a short table has no points."""
    every = table.records()
    moving = _moving(every)
    none = dict.fromkeys((row["kernel"], row["level"]) for row in every if row["bytes"] == 0)
    told = [f"{numbers.get(name, name)} {at}" for name, at in none if name in moving]
    notes = [sentence("roofline.no_bytes", told=told)] if told else []
    unknown: dict[str, dict[str, None]] = {}
    for row in filter(_not_collected, every):
        unknown.setdefault(row["kernel"], {})[row["level"]] = None
    said = "; ".join(f"{numbers.get(name, name)} {', '.join(at)}" for name, at in unknown.items())
    return [*notes, sentence("roofline.bytes_unknown", said=said)] if said else notes


def _moving(rows: Sequence[Row]) -> set[Any]:
    """Return the kernels that move bytes at some level."""
    return {row["kernel"] for row in rows if row["bytes"]}


def _not_collected(row: Row) -> bool:
    """Return whether a point lacks the counters for the bytes of its level."""
    return row["bytes"] is None and row["status"] == "not_collected"


def pipes(table: Table) -> Table:
    """Return what bounds each kernel, without times, shares and obvious reasons.

    The shares are in the kernel's line of loads and the times in the points.
    """
    rows = table.records()
    obvious = all(row["bound"] in ("memory", "compute") for row in rows)
    said = {n for n in table.columns if n.endswith("_pct")} | {"time_ns", *(["why"] if obvious else [])}
    return _with_rows(table, [row | dict.fromkeys(said) for row in rows], table.columns)


def operations(table: Table) -> Table:
    """Return the work by data type, without the ceilings, which have their own table."""
    return _with_rows(table, [row | {"ceiling": None, "n": None} for row in table.records()], table.columns)


def _with_rows(table: Table, rows: Sequence[Row], optional: Collection[str]) -> Table:
    """Return a table with these rows, whose numbers are rounded, without those ``optional`` columns that are empty."""
    kept = {
        name: unit
        for name, unit in zip(table.columns, table.units, strict=True)
        if name not in optional or any(row[name] is not None for row in rows)
    }
    update = {
        "columns": list(kept),
        "units": list(kept.values()),
        "rows": [[_number(row[name]) for name in kept] for row in rows],
    }
    return table.model_copy(update=update)


def _number(value: Any) -> Any:
    return round_number(value, _DIGITS) if isinstance(value, float) else value


def _say_once(rows: Sequence[Row], numbers: dict[str, str]) -> None:
    """Keep long kernel names and reasons in their first row only."""
    named, last = set[str](), None
    for row in rows:
        name, why = row["kernel"], row["reason"]
        if len(name) > _LONG and name in named and name in numbers:
            row["kernel"] = numbers[name]
        if why is not None and why == last:
            row["reason"] = ABOVE
        named.add(name)
        last = why


def operator_table(analysed: Operators, top_n: int) -> Table:
    """Return the operators with the most time, with the sizes and types of their tensors."""
    rows = [
        {
            **row,
            "sizes": _WITHOUT_SIZE.sub("]", row["sizes"] or "")[:_SIZES],
            "types": ", ".join(dict.fromkeys(filter(None, map(_tensor_type, _TYPE.findall(row["types"] or ""))))),
        }
        for row in analysed.shape_rows[:top_n]
    ]
    return table_from("operators", rows, len(analysed.shape_rows))


def collective_table(collectives: Sequence[Row], top_n: int) -> Table:
    """Return the collectives with the most time, with their bus bandwidth and the time of the transfer alone."""
    return table_from("collectives", collectives[:top_n], len(collectives))


def phase_table(phases: Sequence[Row], top_n: int) -> Table:
    """Return the phases by name, those with the most work on the device first."""
    by_phase: dict[str, list[Row]] = {}
    for each in phases:
        by_phase.setdefault(each["phase"], []).append(each)
    rows = []
    for phase, some in sorted(by_phase.items(), key=lambda item: -sum(each["busy_ns"] or 0 for each in item[1])):
        lengths = [p["device_end_ns"] - p["device_start_ns"] for p in some if p["device_end_ns"] is not None]
        work = {group: sum(p[f"{group}_ns"] or 0 for p in some) for group in OPERATIONS}
        total = sum(work.values())
        main = sorted((group for group in work if 100 * work[group] >= total > 0), key=lambda group: -work[group])
        rows.append(
            {
                "phase": phase,
                "count": len(some),
                "requests": _median([p["requests"] for p in some]),
                "tokens": _median([p["tokens"] for p in some]),
                "ns": _median(lengths),
                "interval_ns": _median([p["interval_ns"] for p in some]),
                "busy_ns": sum(p["busy_ns"] or 0 for p in some) if lengths else None,
                "operations": ", ".join(f"{group} {100 * work[group] / total:.3g} %" for group in main) or None,
            }
        )
    return table_from("phase_medians", rows[:top_n], len(rows))


def _median(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def in_ms(ns: float | None) -> float | None:
    """Return a time in ms, exact to the ns."""
    return None if ns is None else round(ns / 1e6, 6)


def _tensor_type(stated: str) -> str:
    return "" if stated in ("Scalar", "ScalarList") else stated.removeprefix("c10::")


def four_digits(value: float | None) -> float | None:
    """Return a value with four significant digits."""
    return None if value is None else float(f"{value:.4g}")
