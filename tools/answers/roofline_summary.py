"""Short tables: of compute_roofline, with what matters and long names only once; operators and phases."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ...analysis.timeline.operators import Operators
from ...analysis.timeline.phases import OPERATIONS
from ..base.results import Table
from .sentences import sentence
from .tables import Row, table_from

_WITHOUT_SIZE, _TYPE, _SIZES = re.compile(r"(,\[\])+\]$"), re.compile(r'"([^"]*)"'), 80
"""The last arguments without a size, which are not shown, a type, and how many characters are shown of sizes."""
_LONG = 30
"""Names longer than this are written out once; further rows have the kernel's number, which every tool accepts."""
_ALWAYS = ("valu.f32", "valu.f64")
"""Ceilings that are always shown, because they characterise the device."""
ABOVE = "as above"


def main_ceilings(rows: list[Row], levels: Collection[str], used: Collection[str]) -> list[Row]:
    """Return the ceilings of the requested levels and of the operations used; all, if there are none of these."""
    wanted = {*_ALWAYS, *used, *(f"{level}.bw" for level in levels)}
    return [row for row in rows if row["name"] in wanted or row["name"].startswith("valu.issue")] or rows


def main_points(every: Sequence[Row], numbers: Mapping[str, str], *, unused_levels: bool) -> list[Row]:
    """Return the points that matter for a short answer.

    Drops points of zero operations if the kernel has others and, unless ``unused_levels``, points of levels through
    which the kernel moves no bytes or whose bytes were not collected; each kernel keeps at least one point. Long names
    and reasons appear once.
    """
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
    return _without_repetition(rows, numbers)


def notes_on_unused_levels(every: Sequence[Row], numbers: Mapping[str, str]) -> list[str]:
    """Return notes on the levels for which a short table has no points."""
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


def _without_repetition(rows: Sequence[Row], numbers: Mapping[str, str]) -> list[Row]:
    """Return the rows with long kernel names, and reasons that follow one another, in their first row only."""
    shown, named, last = [], set[str](), None
    for row in rows:
        name, why = row["kernel"], row["reason"]
        repeated = len(name) > _LONG and name in named and name in numbers
        shown.append(
            row | {"kernel": numbers[name] if repeated else name, "reason": ABOVE if why and why == last else why}
        )
        named.add(name)
        last = why
    return shown


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
