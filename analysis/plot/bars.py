"""Bars of the percent of peak by subsystem: the speed of light of one workload, or of two side by side with times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..base.problems import BadInput
from ..base.text import count_text
from ..comparison.work import Answer
from ..engine.evaluation import Figure
from ..store.store import Manifest
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
"""Pixels: the top of the first panel, and the heights of the times, of a row, and of a row with two bars."""


@dataclass(frozen=True)
class Value:
    """One figure and its share of the peak; ``doubt`` is the status if it is not ok."""

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
    """The total time of the selected dispatches of one workload, in nanoseconds."""

    name: str
    total_ns: float | None
    dispatches: int


@dataclass(frozen=True)
class ComparedWork:
    """The result of a comparison: in words, and whether both workloads did the same work."""

    text: str
    same_work: Answer


@dataclass(frozen=True)
class BarPicture:
    """The contents of the picture; with ``times``, every row has two values, baseline and candidate."""

    title: str
    subtitle: str
    rows: Sequence[Row]
    statements: Sequence[str]
    times: tuple[Time, Time] | None = None
    work: Answer = "unknown"
    """Whether both workloads did the same work; only then is the ratio of their times a speed-up."""


def draw(shown: BarPicture) -> Page:
    """Draw the picture as a page."""
    below = wrap_lines(shown.statements, WIDTH - 40)
    each, top = (_EACH_PAIR, _TOP + _TIME + 58) if shown.times else (_EACH, _TOP)
    tall = each * len(shown.rows)
    made = page(top + tall + (50 if shown.rows else 0) + LINE * len(below) + 8)
    made.text(
        14, 12, shorten_name(shown.title, WIDTH - 30, TITLE, bold=True), fontsize=TITLE, weight="bold", kind="head"
    )
    made.text(14, 34, shorten_name(shown.subtitle, WIDTH - 30), color=FAINT, kind="head")
    if shown.times:
        _times(made, shown.times, shown.work)
    if shown.rows:
        _panel(made, shown.rows, top, each)
    made.lines(14, top + tall + (46 if shown.rows else 0), below, WIDTH, color=FAINT, kind="statement")
    return made


def _panel(made: Page, rows: Sequence[Row], top: float, each: float) -> None:
    """Draw bars with ``each`` pixels per row; subsystem and title on the left, figures on the right."""
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
    """Draw the share, right-aligned, followed by the figure with its unit or by the doubts about it."""
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


def _times(made: Page, times: tuple[Time, Time], work: Answer) -> None:
    """Draw the times as two bars, which also serve as the colour key."""
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
        words, weight = _RATIO_WORDS[work]
        text = f"time × {number(ratio)}{inverse if weight == 'bold' else ''}{words}"
        made.text(WIDTH - RIGHT + 6, _TOP + _TIME + 14, text, weight=weight, kind="value")


PANEL, DURATION = "2", "dispatch.duration_ns"
"""The metrics shown: the speed-of-light panel, and for two workloads also the time."""
_RATIO_WORDS: dict[Answer, tuple[str, str]] = {
    "yes": ("", "bold"),
    "probably": ("", "bold"),
    "probably_not": (", other work", "normal"),
    "no": (", other work", "normal"),
    "unknown": (", work unknown", "normal"),
}
"""What follows the ratio of two times, and the weight of the font."""
_UNCHECKED = "No verdict: this does not check whether both did the same work, so less time may mean less work."
_DOUBTFUL = ("suspect", "impossible")


def speed_of_light(manifest: Manifest, figures: Sequence[Figure], kernel: str | None) -> tuple[BarPicture, list[str]]:
    """The picture of all figures with a peak and a value. Raises BadInput if there are none."""
    rows = [_row(f) for f in figures if f.pct_of_peak is not None]
    missing = _missing(figures)
    if not rows:
        raise BadInput(
            f"No speed-of-light figure has a value in {manifest.name!r}", " ".join(missing), "Profile with panel 2"
        )
    picture = BarPicture(
        title=f"Speed of light of {manifest.name}",
        subtitle=f"{manifest.device or ''} ({manifest.arch}); {_selection_text(manifest, kernel)}; theoretical peaks",
        rows=_by_subsystem(rows),
        statements=[*_doubts(rows, figures), *missing],
    )
    words = [
        f"{f.metric.subsystem}: {f.metric.title} {number(f.value)} {f.unit}"
        + (f", {number(f.pct_of_peak)} % of {number(f.peak)}" if f.pct_of_peak is not None and f.peak else "")
        + (f" ({f.status}: {f.reason})" if f.status != "ok" else "")
        + "."
        for f in figures
        if f.value is not None
    ]
    return picture, [*words, *missing]


def comparison(
    workloads: tuple[Manifest, Manifest],
    figures: tuple[Sequence[Figure], Sequence[Figure]],
    kernel: str | None,
    outcome: ComparedWork | None = None,
) -> tuple[BarPicture, list[str]]:
    """The picture of the time and speed of light of two workloads, with a row for each figure that either has.

    Without the ``outcome`` of comparing them, the picture says that nothing was checked.
    """
    baseline, candidate = workloads
    times = (_time(baseline, figures[0]), _time(candidate, figures[1]))
    named = [{f.name: f for f in of_one if f.pct_of_peak is not None} for of_one in figures]
    rows, idle = [], []
    for name in dict.fromkeys([*named[0], *named[1]]):
        pair = [by_name.get(name) for by_name in named]
        first = next(f for f in pair if f is not None)
        if all(f is not None and f.value == 0 for f in pair):
            idle.append(_title(first))
            continue
        rows.append(replace(_row(first), values=[_value(f) if f else None for f in pair]))
    notes = [f"Percent of each workload's own theoretical peaks. {outcome.text if outcome else _UNCHECKED}"]
    if baseline.arch != candidate.arch:
        notes.append(f"Different GPUs: {baseline.arch} and {candidate.arch}.")
    if idle:
        notes.append(f"0 in both: {', '.join(idle)}.")
    if not rows:
        notes.append("Neither has a speed-of-light figure: " + " ".join(_missing(figures[0])))
    notes += _doubts(rows, [*figures[0], *figures[1]])
    if not rows and not any(t.total_ns for t in times):
        raise BadInput("There is nothing to compare", notes[-1], "Profile both with panel 2")
    picture = BarPicture(
        title=f"{baseline.name} → {candidate.name}",
        subtitle=f"{baseline.device or ''} ({baseline.arch}); {_selection_text(baseline, kernel)}",
        rows=_by_subsystem(rows),
        statements=notes,
        times=times,
        work=outcome.same_work if outcome else "unknown",
    )
    words = [
        f"{role} {t.name}: {'no usable timing' if not t.total_ns else f'{number(t.total_ns / 1e6)} ms'} "
        f"in {count_text(t.dispatches, 'dispatch')}."
        for role, t in zip(("Baseline", "Candidate"), times, strict=True)
    ]
    words += [
        f"{r.subsystem}: {r.title} " + " -> ".join("no value" if v is None else f"{number(v.pct)} %" for v in r.values)
        for r in picture.rows
    ]
    return picture, [*words, *notes]


def _row(f: Figure) -> Row:
    return Row(f.metric.subsystem, _title(f), f.unit, f.peak or 0.0, [_value(f)])


def _value(f: Figure) -> Value:
    return Value(f.value or 0.0, f.pct_of_peak or 0.0, f.status if f.status in _DOUBTFUL else "")


def _title(f: Figure) -> str:
    """The title without the name of the unit, which its group of bars already shows."""
    short = f.metric.title.replace("Bank conflict cycles", "Conflict cycles").replace(
        "Active lanes per VALU", "Lanes per VALU"
    )
    for prefix in ("Scalar ", "Vector ", "L2-fabric ", "LDS ", "L2 ", "VALU ", "SALU "):
        short = short.removeprefix(prefix)
    return short[0].upper() + short[1:] + (" ↓" if f.metric.better == "lower" else "")


def _by_subsystem(rows: list[Row]) -> list[Row]:
    order = {name: i for i, name in reversed(list(enumerate(r.subsystem for r in rows)))}
    return sorted(rows, key=lambda r: order[r.subsystem])


def _missing(figures: Sequence[Figure]) -> list[str]:
    """A sentence on the figures without a value, with the reason if they share one."""
    lost = [f for f in figures if f.value is None]
    if not lost:
        return []
    names = ", ".join(f.name.replace(".sol_", ".") for f in lost)
    reasons = list(dict.fromkeys(str(f.reason or "") for f in lost))
    why = f" ({reasons[0]})" if len(reasons) == 1 and reasons[0] else ""
    return [f"No value for {len(lost)} of {count_text(len(figures), 'figure')}: {names}{why}."]


def _doubts(rows: list[Row], figures: Sequence[Figure]) -> list[str]:
    odd = any(v is not None and v.doubt for r in rows for v in r.values)
    low = any(r.title.endswith("↓") for r in rows)
    doubted = dict.fromkeys(f.reason.text for f in figures if f.reason and f.reason.code == "doubted")
    why = "; ".join(list(doubted)[:2]) or "counters of different replays do not agree"
    hatched = [f"Hatched bars are doubtful: {why}."] if odd else []
    timed = next((f.reason for f in figures if f.name == DURATION and f.status == "suspect"), None)
    hatched += [f"The times are suspect: {timed}."] if timed else []
    return [*hatched, *(["↓ lower is better."] if low else [])]


def _selection_text(manifest: Manifest, kernel: str | None) -> str:
    many = "all kernels" if manifest.kernels != 1 else "its one kernel"
    return (
        f"kernel {kernel}" if kernel else f"{many}, {manifest.dispatches} dispatch{'es' * (manifest.dispatches != 1)}"
    )


def _time(manifest: Manifest, figures: Sequence[Figure]) -> Time:
    time = next((f for f in figures if f.name == DURATION), None)
    if time is None or time.value is None:
        return Time(manifest.name, None, manifest.dispatches)
    return Time(manifest.name, time.value * time.n, time.n)
