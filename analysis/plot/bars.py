"""Bars of the percent of peak by subsystem: the speed of light of one workload, or of two side by side with times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib import figure as drawing
from matplotlib.axes import Axes

from ..base.problems import BadInput
from ..base.text import count_text
from ..comparison.work import Answer
from ..engine.evaluation import Figure
from ..store.store import Manifest
from .style import AFTER, BEFORE, FAINT, GRID, INK, LEVELS, OTHER, SMALL, number, page, plain, shorten_name

_COLOURS = {"fabric": LEVELS["hbm"], **LEVELS}
_MOST = 115.0
_TITLE, _WORDS = 190, 185
"""Pixels: the widths of a row's title and of the words beside its bars."""
_GROUP = 222
"""Points from the axes to the names of the groups of rows."""
_AXIS, _EACH = 42, 22
"""Pixels: the heights of the labels of an axis, and of a row."""


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


def draw(shown: BarPicture) -> drawing.Figure:
    """Draw the picture as a page."""
    heights = [2 * _EACH + _AXIS + 20] if shown.times else []
    heights += [_EACH * len(shown.rows) + _AXIS] if shown.rows else []
    figure = page([shown.title, shown.subtitle], sum(heights), shown.statements)
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    if shown.times:
        _times(panels[0], shown.times, shown.work)
    if shown.rows:
        _shares(panels[-1], shown.rows)
    return figure


def _rows(axes: Axes, groups: Sequence[str], titles: Sequence[str], words: Sequence[str]) -> None:
    """Prepare axes with a row for each bar: the names of group and row on the left, words on the right."""
    plain(axes)
    axes.set_ylim(len(titles) - 0.5, -0.5)
    axes.set_yticks(range(len(titles)), [shorten_name(title, _TITLE) for title in titles])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter("{x:g}")
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": SMALL}
    for i, group in enumerate(groups):
        if i == 0 or group != groups[i - 1]:
            name = group.replace("_", " ")
            axes.annotate(name, (0, i), (-_GROUP, 0), axes.get_yaxis_transform(), weight="bold", **beside)
            axes.axhline(i - 0.5, color=GRID, linewidth=0.8)
        axes.annotate(shorten_name(words[i], _WORDS), (1, i), (6, 0), axes.get_yaxis_transform(), **beside)


def _shares(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw the shares of the peaks, each beside its figure or the doubts about it."""
    _rows(axes, [row.subsystem for row in rows], [row.title for row in rows], [_beside(row) for row in rows])
    axes.set_xlim(0, _MOST)
    axes.set_xticks(range(0, 101, 20))
    axes.grid(True, axis="x", color=GRID, linewidth=0.6)
    axes.axvline(100, color=FAINT, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.set_xlabel("Percent of peak (%)")
    for i, row in enumerate(rows):
        both = len(row.values) > 1
        thick = 0.36 if both else 0.66
        colours = (BEFORE, AFTER) if both else (_COLOURS.get(row.subsystem, OTHER),)
        for j, (value, colour) in enumerate(zip(row.values, colours, strict=True)):
            if value is None:
                continue
            style: Any = {"color": colour, "edgecolor": INK, "linewidth": 0.4}
            if value.doubt:
                style = {"color": "white", "edgecolor": colour, "linewidth": 1.0, "hatch": "////"}
            y = i + (j - 0.5) * thick if both else i
            share = min(max(value.pct, 0.0), _MOST)
            axes.barh(y, share, height=thick, gid=f"bar-{j}-{row.subsystem}-{row.title}", **style)


def _beside(row: Row) -> str:
    """The shares of a row, with the figure of a single workload, or the doubts."""
    doubts = ", ".join(sorted({v.doubt for v in row.values if v is not None and v.doubt}))
    words = " → ".join("no value" if v is None else f"{number(v.pct)} %" for v in row.values)
    figures = [f"{number(v.value)} {row.unit.replace('cycles/', 'cyc/')}" for v in row.values if v is not None]
    single = "" if len(row.values) > 1 or row.unit == "%" else figures[0]
    return f"{words}  {doubts or single}"


def _times(axes: Axes, times: tuple[Time, Time], work: Answer) -> None:
    """Draw the times as two bars, which also serve as the colour key."""
    known = [t.total_ns for t in times if t.total_ns]
    most = max(known, default=1.0)
    unit, size = next(((u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if most >= s), ("ns", 1.0))
    words = [
        f"{number(t.total_ns / size)} {unit} in {count_text(t.dispatches, 'dispatch')}"
        if t.total_ns
        else "no usable timing"
        for t in times
    ]
    _rows(axes, ("baseline", "candidate"), [t.name for t in times], words)
    axes.set_xlim(0, 1.15 * most / size)
    axes.set_xlabel(f"GPU time ({unit})")
    widths = [(t.total_ns or 0) / size for t in times]
    axes.barh(range(2), widths, height=0.62, color=(BEFORE, AFTER), edgecolor=INK, linewidth=0.4, gid="time")
    if len(known) == 2:
        ratio = known[1] / known[0]
        doubt = _RATIO_DOUBTS.get(work, "")
        inverse = f" (÷ {number(1 / ratio)})" if ratio < 1 and not doubt else ""
        weight = "normal" if doubt else "bold"
        axes.set_title(f"time × {number(ratio)}{inverse}{doubt}", loc="right", weight=weight, fontsize=SMALL)


PANEL, DURATION = "2", "dispatch.duration_ns"
"""The metrics shown: the speed-of-light panel, and for two workloads also the time."""
_RATIO_DOUBTS: dict[Answer, str] = {
    "probably_not": ", other work",
    "no": ", other work",
    "unknown": ", work unknown",
}
"""What follows the ratio of two times unless they are of the same work."""
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
    return Row(f.metric.subsystem, _title(f), f.unit, [_value(f)])


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
    order = list(dict.fromkeys(r.subsystem for r in rows))
    return sorted(rows, key=lambda r: order.index(r.subsystem))


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
