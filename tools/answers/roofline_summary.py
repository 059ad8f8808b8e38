"""Short tables: of compute_roofline, with few digits and long names only once; operators, collectives and phases."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import Any

from ...analysis.timeline.collectives import CollectiveRow
from ...analysis.timeline.operators import Operators
from ...analysis.timeline.phases import OPERATIONS, Phase
from ..base.results import Table, round_number
from .tables import table_from

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
    at = table.columns.index("ceiling")
    wanted = {*_ALWAYS, *used, *(f"{level}.bw" for level in levels)}
    rows = [row for row in table.rows if row[at] in wanted or str(row[at]).startswith("valu.issue")]
    kept = rows or table.rows
    update = {"rows": kept, "total_rows": len(table.rows), "truncated": len(kept) < len(table.rows)}
    return _shorten_table(table.model_copy(update=update), ())


def points(table: Table, numbers: dict[str, str], *, unused_levels: bool) -> Table:
    """Return the points that matter for a short answer.

    Drops points of zero operations if the kernel has others and, unless ``unused_levels``, points of levels through
    which the kernel moves no bytes or whose bytes were not collected; each kernel keeps at least one point. Long texts
    appear once.
    """
    rank, level, operations = (table.columns.index(name) for name in ("kernel", "level", "operations"))
    has_work = {(row[rank], row[level]) for row in table.rows if row[operations]}
    rows = [row for row in table.rows if row[operations] != 0 or (row[rank], row[level]) not in has_work]
    if not unused_levels:
        first = {row[rank]: row for row in reversed(rows)}
        known = [row for row in rows if not _not_collected(table, row)]
        with_bytes, with_points = _moving(table), {row[rank] for row in known}
        rows = [
            row
            for row in rows
            if (row in known and (row[table.columns.index("bytes")] != 0 or row[rank] not in with_bytes))
            or (row[rank] not in with_points and row is first[row[rank]])
        ]
    total = table.total_rows if table.total_rows is None else len(rows)
    table = table.model_copy(update={"rows": rows, "total_rows": total})
    return _shorten_table(_once(table, numbers), ("dispatch", "reason", "bandwidth", "pct_of_bandwidth"))


def notes_on_unused_levels(table: Table, numbers: dict[str, str]) -> list[str]:
    """Return notes on the levels for which a short table has no points."""
    kernel, level, moved = (table.columns.index(name) for name in ("kernel", "level", "bytes"))
    with_others = _moving(table)
    none = dict.fromkeys((row[kernel], row[level]) for row in table.rows if row[moved] == 0)
    told = [f"{numbers.get(name, name)} {at}" for name, at in none if name in with_others]
    notes = [f"No bytes moved, so no point: {', '.join(told)}."] if told else []
    unknown: dict[str, list[str]] = {}
    for row in table.rows:
        if _not_collected(table, row) and row[level] not in (at := unknown.setdefault(row[kernel], [])):
            at.append(row[level])
    said = "; ".join(f"{numbers.get(name, name)} {', '.join(at)}" for name, at in unknown.items())
    return [*notes, f'Bytes or time unknown: {said}. detail="full" gives the reasons.'] if said else notes


def _moving(table: Table) -> set[Any]:
    """Return the kernels that move bytes at some level."""
    kernel, moved = (table.columns.index(name) for name in ("kernel", "bytes"))
    return {row[kernel] for row in table.rows if row[moved]}


def _not_collected(table: Table, row: list[Any]) -> bool:
    """Return whether a point lacks the counters for the bytes of its level."""
    return row[table.columns.index("bytes")] is None and row[table.columns.index("status")] == "not_collected"


def pipes(table: Table) -> Table:
    """Return what bounds each kernel, without times, shares and obvious reasons.

    The shares are in the kernel's line of loads and the times in the points.
    """
    bound = table.columns.index("bound")
    obvious = all(row[bound] in ("memory", "compute") for row in table.rows)
    said = {n for n in table.columns if n.endswith("_pct")} | {"time_ns", *(["why"] if obvious else [])}
    rows = [[None if n in said else v for n, v in zip(table.columns, r, strict=True)] for r in table.rows]
    return _shorten_table(table.model_copy(update={"rows": rows}), None)


def operations(table: Table) -> Table:
    """Return the work by data type, without the ceilings, which have their own table."""
    left_out = [table.columns.index(name) for name in ("ceiling", "n")]
    rows = [[None if i in left_out else v for i, v in enumerate(row)] for row in table.rows]
    return _shorten_table(table.model_copy(update={"rows": rows}), None)


def _shorten_table(table: Table, leave_out: Collection[str] | None) -> Table:
    """Round numbers and drop empty columns: all of them if ``leave_out`` is None, else only those named."""
    kept = [
        i
        for i, name in enumerate(table.columns)
        if not ((leave_out is None or name in leave_out) and all(row[i] is None for row in table.rows))
    ]
    return table.model_copy(
        update={
            "columns": [table.columns[i] for i in kept],
            "units": [table.units[i] for i in kept],
            "rows": [[_number(row[i]) for i in kept] for row in table.rows],
        }
    )


def _number(value: Any) -> Any:
    return round_number(value, _DIGITS) if isinstance(value, float) else value


def _once(table: Table, numbers: dict[str, str]) -> Table:
    """Keep long kernel names and reasons in their first row only."""
    kernel, reason = table.columns.index("kernel"), table.columns.index("reason")
    named, last, rows = set[str](), None, list[list[Any]]()
    for row in table.rows:
        short, name, why = list(row), row[kernel], row[reason]
        if isinstance(name, str) and len(name) > _LONG and name in named and name in numbers:
            short[kernel] = numbers[name]
        if isinstance(why, str) and why == last:
            short[reason] = ABOVE
        named.add(name)
        last = why
        rows.append(short)
    return table.model_copy(update={"rows": rows})


def operator_table(analysed: Operators, top_n: int) -> Table:
    """Return the operators with the most time, with the sizes and types of their tensors."""
    rows = [
        {
            "row": row,
            "sizes": _WITHOUT_SIZE.sub("]", row.sizes or "")[:_SIZES],
            "types": ", ".join(dict.fromkeys(filter(None, map(_tensor_type, _TYPE.findall(row.types or ""))))),
        }
        for row in analysed.shape_rows[:top_n]
    ]
    return table_from("operators", rows, len(analysed.shape_rows))


def collective_table(collectives: Sequence[CollectiveRow], top_n: int) -> Table:
    """Return the collectives with the most time, with their bus bandwidth and the time of the transfer alone."""
    return table_from("collectives", [{"row": row} for row in collectives[:top_n]], len(collectives))


def phase_table(phases: Sequence[Phase], top_n: int) -> Table:
    """Return the phases by name, those with the most work on the device first."""
    by_phase: dict[str, list[Phase]] = {}
    for each in phases:
        by_phase.setdefault(each.phase, []).append(each)
    rows = []
    for phase, some in sorted(by_phase.items(), key=lambda item: -sum(each.busy or 0 for each in item[1])):
        lengths = [
            p.device_end - p.device_start for p in some if p.device_end is not None and p.device_start is not None
        ]
        work = {group: sum(p.operations.get(group, 0) for p in some) for group in OPERATIONS}
        total = sum(work.values())
        main = sorted((group for group in work if 100 * work[group] >= total > 0), key=lambda group: -work[group])
        rows.append(
            {
                "phase": phase,
                "count": len(some),
                "requests": _median([p.requests for p in some]),
                "tokens": _median([p.tokens for p in some]),
                "ns": _median(lengths),
                "interval_ns": _median([p.interval for p in some]),
                "busy_ns": sum(p.busy or 0 for p in some) if lengths else None,
                "operations": ", ".join(f"{group} {100 * work[group] / total:.3g} %" for group in main) or None,
            }
        )
    return table_from("phases", rows[:top_n], len(rows))


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
