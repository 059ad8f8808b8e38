"""Draw the roofline: bandwidth and compute ceilings, and a numbered point per kernel and memory level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from ..base.kernel_names import distinct
from .roofline_content import Dot, Roof, RooflinePicture, Sheet, mark
from .style import (
    FAINT,
    GRID,
    INK,
    LEVELS,
    NAMES,
    NORMAL,
    SMALL,
    clean,
    decade,
    kernel_name,
    number,
    page,
    plain,
    ranges,
    settle,
    shorten_name,
    si,
)

_TALL, _WIDEST = 470, 195
"""Pixels: the height of the axes with their labels, and the width of the label of a compute ceiling."""
_NAME, _VERDICT = 420, 220
"""Pixels: the widths of two columns of the list of kernels."""
_STYLES = {"matrix": (0, (6, 2)), "valu packed": (0, (2, 2))}
MARKERS = {"flop": "o", "iop": "s", "inst": "o", "f64": "^", "f32": "p", "f16": "v", "bf16": "<", "f8": ">",
           "xf32": "P", "f6f4": "*", "i8": "D", "i32": "h", "i64": "X"}  # fmt: skip
_NEAR = 9.0
"""Points within so many pixels of each other share one label."""
_ITERATIONS = 400
_BESIDE = 0.015
"""The distance between the ends of ceilings and their labels, as a share of the width of the axes."""


def draw(shown: RooflinePicture) -> Figure:
    """Draw the picture as a page."""
    sheet = Sheet.of(shown)
    origins = sheet.origins
    sources = [f"{f'[{mark(i)}] ' if len(origins) > 1 else ''}{origin}" for i, origin in enumerate(origins)]
    below = [*shown.statements, *(["Ceilings: " + "; ".join(sources)] if sources else [])]
    figure = page([shown.title, shown.device], _TALL, below, _kernels(shown))
    axes = figure.subplots()
    plain(axes)
    points = _lines_and_points(axes, sheet)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=SMALL, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3)
    peaks = _peak_labels(axes, sheet, _WIDEST, outside=True)
    settle(figure)
    _place(axes, peaks, points)
    return figure


def draw_on(axes: Axes, shown: RooflinePicture) -> None:
    """Draw the same figures on the caller's axes."""
    sheet = Sheet.of(shown)
    points = _lines_and_points(axes, sheet)
    axes.set_title(clean(shown.title), parse_math=False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=SMALL, frameon=False, loc="best")
    _place(axes, _peak_labels(axes, sheet, axes.get_window_extent().width, outside=False), points)


def _lines_and_points(axes: Axes, sheet: Sheet) -> list[Dot]:
    """Draw all but the labels; returns the points that have a place."""
    _scale_axes(axes, sheet)
    _memory(axes, sheet)
    for peak in sheet.peaks:
        style: Any = _STYLES.get(_pipe(peak), "solid")
        axes.plot(*sheet.level(peak.value), color=INK, linewidth=1.1, linestyle=style, gid="compute")
    _tracks(axes, sheet)
    for i, line in enumerate(sheet.shown.sweeps):
        xs, ys = zip(*line, strict=True)
        axes.plot(xs, ys, color=FAINT, linewidth=0.9, marker="x", markersize=4, zorder=1.5, gid=f"sweep-{i}")
    _keys(axes, sheet)
    return _points(axes, sheet)


def _scale_axes(axes: Axes, sheet: Sheet) -> None:
    """Set logarithmic scales with the limits of the sheet, grid and labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(sheet.x0, sheet.x1)
    axes.set_ylim(sheet.y0, sheet.y1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(10, numticks=12))
        axis.set_minor_locator(LogLocator(10, subs=tuple(range(2, 10)), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: decade(value)))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.set_xlabel(f"Intensity ({sheet.shown.intensity_unit})")
    axes.set_ylabel(f"Performance ({sheet.shown.unit})")


def _kernels(shown: RooflinePicture) -> list[tuple[str, ...]]:
    """The list of kernels by number with its head; empty if there are none."""
    if not shown.kernels:
        return []
    brief = distinct(kernel.name for kernel in shown.kernels)
    rows = [
        (
            str(kernel.number),
            kernel_name(kernel.name, brief[kernel.name], _NAME),
            "" if kernel.share_pct is None else f"{number(kernel.share_pct)} %",
            shorten_name(kernel.verdict, _VERDICT),
        )
        for kernel in shown.kernels
    ]
    return [("#", "kernel (size of a point: share of time)", "time", "limit"), *rows]


def _memory(axes: Axes, sheet: Sheet) -> None:
    """Draw diagonal ceilings, dashed in turn where they are equal; the legend has their values."""
    equal: dict[float, int] = {}
    for roof in sheet.bandwidths:
        level = roof.name.removesuffix(".bw")
        words = f"{NAMES.get(level, level)} {si(roof.value, roof.unit)}"
        before = equal[roof.value] = equal.get(roof.value, -1) + 1
        style: Any = (4 * before, (4, 4)) if before else "solid"
        axes.plot(
            *sheet.roof(roof.value), color=LEVELS.get(level, INK), linewidth=1.6, linestyle=style,
            gid=f"level-{level}", label=f"{words}{sheet.footnote(roof.origin)}",
        )  # fmt: skip


def _pipe(peak: Roof) -> str:
    pipe, _, kind = peak.name.partition(".")
    return f"{pipe} packed" if kind.endswith("_packed") else pipe


def _peak_labels(axes: Axes, sheet: Sheet, width: float, outside: bool) -> list[Text]:
    """Write pipe, data types and value at the right end of each compute ceiling, equal ones slightly apart."""
    labels = []
    across = (sheet.x1 / sheet.x0) ** _BESIDE
    x, side = (sheet.x1 * across, "left") if outside else (sheet.x1 / across, "right")
    alike: dict[tuple[str, str, str], list[Roof]] = {}
    for peak in sheet.peaks:
        alike.setdefault((_pipe(peak), si(peak.value, peak.unit), peak.origin), []).append(peak)
    for i, ((pipe, value, origin), equal) in enumerate(alike.items()):
        kinds = [r.name.partition(".")[2].removesuffix("_packed") for r in equal]
        words = f"{pipe} {', '.join(k for k in kinds if k)}".strip()
        words = shorten_name(f"{words}  {value}{sheet.footnote(origin)}", width)
        y = equal[0].value * 0.998**i
        labels.append(axes.text(x, y, words, ha=side, va="center", fontsize=SMALL, parse_math=False))
    return labels


def _place(axes: Axes, peaks: list[Text], points: Sequence[Dot]) -> None:
    """Move labels of ceilings up and down until none covers another, and write the kernels' numbers beside points."""
    from adjustText import adjust_text
    from matplotlib.patheffects import withStroke
    from scipy.cluster.hierarchy import fclusterdata

    common: dict[str, Any] = {"ax": axes, "iter_lim": _ITERATIONS}
    ends = [peak.get_position() for peak in peaks]
    still = {"avoid_self": False, "ensure_inside_axes": False, "prevent_crossings": False}
    adjust_text(peaks, only_move="y", **still, **common)
    for peak, (x, y) in zip(peaks, ends, strict=True):
        xs, ys = (axes.get_xlim()[1], x), (y, peak.get_position()[1])
        axes.plot(xs, ys, color=FAINT, linewidth=0.6, clip_on=False)
    if not points:
        return
    places = axes.transData.transform([dot.place for dot in points])
    groups = fclusterdata(places, _NEAR, "distance", method="complete") if len(points) > 1 else [1]
    halo = [withStroke(linewidth=2.5, foreground="white")]
    numbers = []
    for group in dict.fromkeys(groups):
        mine = [dot for dot, its in zip(points, groups, strict=True) if its == group]
        words = ranges([dot.kernel for dot in mine]).replace(" ", "")
        x, y = mine[0].place
        numbers.append(axes.text(x, y, words, fontsize=NORMAL, weight="bold", path_effects=halo, zorder=5))
    to_data = axes.transData.inverted()
    marks = [line for line in axes.lines if str(line.get_gid()).startswith("point-")]
    taken = [artist.get_window_extent().transformed(to_data) for artist in [*marks, *peaks]]
    adjust_text(numbers, objects=taken, arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6}, **common)


def _tracks(axes: Axes, sheet: Sheet) -> None:
    """Draw the lines on which kernels of known bandwidth but unknown operations must be."""
    dots = sheet.shown.dots
    placed = {d.kernel for d in dots if d.is_drawable}
    known = [d for d in dots if d.kernel not in placed and d.performance is None and d.bandwidth]
    first = min((d.kernel for d in known), default=None)
    for i, dot in enumerate(known):
        if dot.kernel != first or not dot.bandwidth or dot.bandwidth <= 0:
            continue
        xs, ys = sheet.slope(dot.bandwidth)
        if xs[0] < xs[1]:
            axes.plot(
                xs, ys, color=LEVELS[dot.level], linewidth=1.2, linestyle=(4 * i, (3, 5)),
                gid=f"track-{dot.kernel}-{dot.level}",
            )  # fmt: skip


def _points(axes: Axes, sheet: Sheet) -> list[Dot]:
    """Draw marks sized by share of time, smaller towards the core, and a thin line through those of one kernel."""
    shares = {k.number: k.share_pct for k in sheet.shown.kernels}
    drawn = sorted(
        (d for d in sheet.shown.dots if d.is_drawable), key=lambda d: (list(LEVELS).index(d.level), d.kernel)
    )
    present = list(dict.fromkeys(d.level for d in drawn))
    for dot in drawn:
        color, shrink = LEVELS[dot.level], 0.85 ** present.index(dot.level)
        size = shrink * (8 + 10 * math.sqrt((shares.get(dot.kernel) or 0) / 100))
        axes.plot(
            *dot.place, marker=_marker(dot.datatype), linestyle="none", markersize=size, zorder=4, clip_on=False,
            markerfacecolor="white" if dot.doubtful else color, markeredgecolor=color if dot.doubtful else INK,
            markeredgewidth=1.6 if dot.doubtful else 0.7, gid=f"point-{dot.kernel}-{dot.level}-{dot.datatype}",
        )  # fmt: skip
    for kernel, datatype in dict.fromkeys((d.kernel, d.datatype) for d in drawn):
        row = sorted(d.place for d in drawn if (d.kernel, d.datatype) == (kernel, datatype))
        axes.plot(*zip(*row, strict=True), color=FAINT, linewidth=0.6, linestyle=":", zorder=2)
    return drawn


def _keys(axes: Axes, sheet: Sheet) -> None:
    """Add to the legend the levels without a ceiling, and the shapes of the data types if there are several."""
    known = {roof.name for roof in sheet.bandwidths}
    shown = {d.level for d in sheet.shown.dots if d.is_drawable or (d.performance is None and d.bandwidth)}
    for level in LEVELS:
        if level in shown and f"{level}.bw" not in known:
            axes.plot([], [], color=LEVELS[level], marker="o", label=NAMES[level])
    kinds = dict.fromkeys(d.datatype for d in sheet.shown.dots if d.is_drawable)
    for kind in kinds if len(kinds) > 1 else ():
        axes.plot([], [], color=INK, marker=_marker(kind), linestyle="none", label=kind)


def _marker(datatype: str) -> str:
    """The shape of a data type."""
    return MARKERS.get(datatype.split(".")[-1], "o")
