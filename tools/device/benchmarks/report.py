"""Measured ceilings as a table, and what is to be said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....analysis.base.text import count_text
from ....analysis.store import measured_ceilings as peaks
from ...base.results import NextCall, Table, table

_COLUMNS: dict[str, str | None] = {
    **dict.fromkeys(("ceiling", "value", "unit", "median", "p05", "p95", "n")),
    "clock_mhz": "MHz",
    "theoretical": None,
    "pct_of_theoretical": "%",
    **dict.fromkeys(("kernel", "status", "reason")),
}
_DIGITS = 5
_REASON = 160
_METHODS = 3

Row = Mapping[str, Any]


def ceilings(rows: Sequence[Row]) -> Table:
    """One row per ceiling; rates and times in the row's unit, rounded to five digits. The points of sweeps are told in
    words."""
    single = [row for row in rows if row.get("intensity") is None]
    # Of a kernel that was only checked, "ok" says it all.
    single = [row if row.get("value") or row.get("status") != "ok" else {**row, "reason": None} for row in single]
    return table(_COLUMNS, [[_cell(row.get(name)) for name in _COLUMNS] for row in single])


def notes(rows: Sequence[Row], mode: str) -> list[str]:
    """What the table does not say: sweeps, methods, what was wrong, and why theory may be missing."""
    sentences = []
    # A run that failed before its first kernel says so itself.
    if mode == "functional" and rows:
        right = sum(row.get("status") == "ok" for row in rows)
        sentences.append(
            f"{right} of {count_text(len(rows), 'kernel')} gave the right result; nothing was timed or stored."
        )
    for name in dict.fromkeys(row["ceiling"] for row in rows if row.get("intensity") is not None):
        points = [row for row in rows if row["ceiling"] == name and row.get("value")]
        if points:
            low, high = (pick(points, key=lambda r: r["intensity"]) for pick in (min, max))
            sentences.append(
                f"{name}: {count_text(len(points), 'point')} from {low['intensity']:g} FLOP/B ({low['value']:.4g} "
                f"{low['unit']}) to "
                f'{high["intensity"]:g} ({high["value"]:.4g}); plot(kind="roofline") draws them.'
            )
    doubtful = [row["ceiling"] for row in rows if row.get("status") == "impossible"]
    if doubtful:
        sentences.append(f"Above theory, so not used as ceilings: {', '.join(dict.fromkeys(doubtful))}.")
    if mode != "functional" and any(str(row["ceiling"]).startswith("host.") for row in rows):
        sentences.append(
            "These are ceilings of this machine's processors (host), not of a GPU. Bytes are those that the program "
            "reads and writes (STREAM's count); the units per core and the clock are not known, so there is no "
            "theoretical figure to compare with."
        )
    if compilers := list(dict.fromkeys(str(row["compiler"]) for row in rows if row.get("compiler"))):
        sentences.append(f"Kernels of {'; '.join(compilers[:_METHODS])}.")
    if mode != "functional":
        methods = list(dict.fromkeys(str(row["method"]) for row in rows if row.get("method") and row.get("value")))
        if 0 < len(methods) <= _METHODS:
            sentences.append(f"Method: {'; '.join(methods)}.")
    return sentences


def next_calls() -> list[NextCall]:
    """What to do with measured ceilings."""
    sql = "SELECT device, ceiling, intensity, value, unit, p05, p95, measured_at FROM ceilings WHERE kind = 'empirical'"
    return [NextCall(tool="query_counters", arguments={"sql": sql}, why="all measured ceilings, sweeps included")]


def missing(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """The ceilings of ``names`` that ``rows`` neither hold nor rule out for good."""
    known = {row["ceiling"] for row in rows if row["status"] in (*peaks.USABLE, "impossible", "not_supported")}
    return [name for name in names if name not in known]


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return value[:_REASON] if isinstance(value, str) else value
