"""Horizontal bars of percent of peak by subsystem, for one workload or two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .style import AFTER, BEFORE, FAINT, GRID, INK, LEVELS, OTHER, Page, number, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME, LABELS, RIGHT = 122, 322, 182
_COLOURS = {"fabric": LEVELS["hbm"], **LEVELS}
_MOST = 115.0


@dataclass(frozen=True)
class Value:
    """One figure against its peak; ``doubt`` names a status other than ok."""

    value: float
    pct: float
    doubt: str = ""


@dataclass(frozen=True)
class Row:
    """One metric with a peak, of one workload or of two."""

    subsystem: str
    title: str
    unit: str
    peak: float
    values: Sequence[Value | None]


def panel(made: Page, rows: Sequence[Row], top: float, each: float, width: float) -> Axes:
    """Bars below each other, ``each`` pixels a row; subsystem and title at the left, figures at the right."""
    from matplotlib.ticker import FuncFormatter

    tall = each * len(rows)
    axes = made.axes(LABELS, top, width - LABELS - RIGHT, tall)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, _MOST)
    axes.set_xticks(range(0, 101, 20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks([])
    axes.grid(True, axis="x", color=GRID, linewidth=0.6)
    axes.axvline(100, color=FAINT, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.set_xlabel("Percent of peak (%)")
    before = ""
    for i, row in enumerate(rows):
        y = top + each * (i + 0.5)
        if row.subsystem != before:
            made.text(14, y, row.subsystem.replace("_", " "), va="center", weight="bold", kind="subsystem")
            if before:
                axes.axhline(i - 0.5, color=GRID, linewidth=0.8)
        before = row.subsystem
        made.text(LABELS - 8, y, shortened(row.title, LABELS - NAME - 10), va="center", ha="right", kind="title")
        _bars(axes, i, row)
        _figures(made, row, width - RIGHT + 6, y)
    return axes


def _bars(axes: Axes, i: int, row: Row) -> None:
    both = len(row.values) > 1
    thick = 0.36 if both else 0.66
    colours = (BEFORE, AFTER) if both else (_COLOURS.get(row.subsystem, OTHER),)
    for j, (value, colour) in enumerate(zip(row.values, colours, strict=True)):
        if value is None:
            continue
        y = i + (j - 0.5) * thick if both else i
        axes.barh(
            [y], [min(max(value.pct, 0.0), _MOST)], height=thick, color="white" if value.doubt else colour,
            edgecolor=colour if value.doubt else INK, linewidth=0.4 if not value.doubt else 1.0,
            hatch="////" if value.doubt else None, gid=f"bar-{j}-{row.subsystem}-{row.title}",
        )  # fmt: skip


def _figures(made: Page, row: Row, x: float, y: float) -> None:
    """The share right-aligned, and beside it the figure with its unit, or what speaks against it."""
    doubts = ", ".join(sorted({v.doubt for v in row.values if v is not None and v.doubt}))
    if len(row.values) > 1:
        shares = [None if v is None else number(v.pct) for v in row.values]
        unit = " %" if None in shares else ""
        words = " → ".join("no value" if share is None else share + unit for share in shares)
        words = f"{words}{'' if unit else ' %'} {doubts}"
        made.text(x, y, shortened(words, RIGHT - 14), va="center", kind="value")
        return
    (value,) = row.values
    if value is None:
        return
    made.text(x + 58, y, f"{number(value.pct)} %", va="center", ha="right", kind="value")
    beside = doubts or ("" if row.unit == "%" else f"{number(value.value)} {row.unit.replace('cycles/', 'cyc/')}")
    made.text(x + 68, y, shortened(beside, RIGHT - 82), va="center", kind="value")
