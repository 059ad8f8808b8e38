"""Percent of peak by subsystem as bars: speed of light of one workload, or of two side by side with their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .style import (
    AFTER,
    BEFORE,
    FAINT,
    GRID,
    INK,
    LEVELS,
    LINE,
    OTHER,
    TITLE,
    WIDTH,
    Page,
    number,
    page,
    shorten_name,
    wrap_lines,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME, LABELS, RIGHT = 122, 322, 182
_COLOURS = {"fabric": LEVELS["hbm"], **LEVELS}
_MOST = 115.0
_TOP, _TIME, _EACH, _EACH_PAIR = 62, 58.0, 19.0, 26.0
"""Pixels: the first panel from above, the height of the times, of a row, and of a row of two bars."""


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


@dataclass(frozen=True)
class Time:
    """Time of the dispatches selected in one workload, in nanoseconds."""

    name: str
    total_ns: float | None
    dispatches: int


@dataclass(frozen=True)
class BarPicture:
    """All that the picture shows; with ``times``, every row has two values, baseline and candidate."""

    title: str
    subtitle: str
    rows: Sequence[Row]
    statements: Sequence[str]
    times: tuple[Time, Time] | None = None


def draw(shown: BarPicture) -> Page:
    """The picture as a page."""
    below = wrap_lines(shown.statements, WIDTH - 40)
    each, top = (_EACH_PAIR, _TOP + _TIME + 58) if shown.times else (_EACH, _TOP)
    tall = each * len(shown.rows)
    made = page(top + tall + (50 if shown.rows else 0) + LINE * len(below) + 8)
    made.text(
        14, 12, shorten_name(shown.title, WIDTH - 30, TITLE, bold=True), fontsize=TITLE, weight="bold", kind="head"
    )
    made.text(14, 34, shorten_name(shown.subtitle, WIDTH - 30), color=FAINT, kind="head")
    if shown.times:
        _times(made, shown.times)
    if shown.rows:
        _panel(made, shown.rows, top, each)
    made.lines(14, top + tall + (46 if shown.rows else 0), below, WIDTH, color=FAINT, kind="statement")
    return made


def _panel(made: Page, rows: Sequence[Row], top: float, each: float) -> None:
    """Bars below each other, ``each`` pixels a row; subsystem and title at the left, figures at the right."""
    from matplotlib.ticker import FuncFormatter

    tall = each * len(rows)
    axes = made.axes(LABELS, top, WIDTH - LABELS - RIGHT, tall)
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
        made.text(LABELS - 8, y, shorten_name(row.title, LABELS - NAME - 10), va="center", ha="right", kind="title")
        _bars(axes, i, row)
        _figures(made, row, WIDTH - RIGHT + 6, y)


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
        made.text(x, y, shorten_name(words, RIGHT - 14), va="center", kind="value")
        return
    (value,) = row.values
    if value is None:
        return
    made.text(x + 58, y, f"{number(value.pct)} %", va="center", ha="right", kind="value")
    beside = doubts or ("" if row.unit == "%" else f"{number(value.value)} {row.unit.replace('cycles/', 'cyc/')}")
    made.text(x + 68, y, shorten_name(beside, RIGHT - 82), va="center", kind="value")


def _times(made: Page, times: tuple[Time, Time]) -> None:
    """Time as two bars, which are also the key of the colours below."""
    from matplotlib.ticker import FuncFormatter

    known = [t.total_ns for t in times if t.total_ns]
    unit, size = next(
        (u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)) if max(known, default=1) >= s
    )
    axes = made.axes(LABELS, _TOP, WIDTH - LABELS - RIGHT, _TIME)
    axes.set_ylim(1.5, -0.5)
    axes.set_xlim(0, 1.15 * max(known, default=1.0) / size)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(f"GPU time ({unit})")
    for i, (time, colour, role) in enumerate(zip(times, (BEFORE, AFTER), ("baseline", "candidate"), strict=True)):
        y = _TOP + _TIME * (i + 0.5) / 2
        made.text(14, y, role, va="center", weight="bold", kind="subsystem")
        made.text(LABELS - 8, y, shorten_name(time.name, LABELS - NAME - 10), va="center", ha="right", kind="title")
        words = "no usable timing"
        if time.total_ns:
            axes.barh(
                [i], [time.total_ns / size], height=0.62, color=colour, edgecolor=INK, linewidth=0.4, gid=f"time-{i}"
            )
            words = (
                f"{number(time.total_ns / size)} {unit} in {time.dispatches} dispatch{'es' * (time.dispatches != 1)}"
            )
        made.text(WIDTH - RIGHT + 6, y, shorten_name(words, RIGHT - 12), va="center", kind="value")
    if len(known) == 2:
        ratio = known[1] / known[0]
        inverse = f" (÷ {number(1 / ratio)})" if ratio < 1 else ""
        made.text(WIDTH - RIGHT + 6, _TOP + _TIME + 14, f"time × {number(ratio)}{inverse}", weight="bold", kind="value")
