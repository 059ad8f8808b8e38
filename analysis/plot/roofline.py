"""Draw the roofline: bandwidth and compute ceilings, and a numbered point per kernel and memory level."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..base.kernel_names import distinct
from .roofline_content import AXES_HEIGHT, AXES_WIDTH, LEFT, TOP, Frame, Roof, RooflinePicture, Sheet, mark
from .style import (
    DPI,
    FAINT,
    GRID,
    INK,
    LEVELS,
    LINE,
    NAMES,
    NORMAL,
    SMALL,
    TITLE,
    WIDTH,
    Page,
    around,
    clean,
    clusters,
    decade,
    kernel_name,
    number,
    page,
    ranges,
    shorten_name,
    si,
    spread,
    width_of,
    wrap_lines,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = {"matrix": (0, (6, 2)), "valu packed": (0, (2, 2))}
_GUTTER = WIDTH - LEFT - AXES_WIDTH - 30
_GAP = 14.0
_ROOM = 0.06
"""The share of the height of small axes that stays free below the lowest point."""
MARKERS = {"flop": "o", "iop": "s", "inst": "o", "f64": "^", "f32": "p", "f16": "v", "bf16": "<", "f8": ">",
           "xf32": "P", "f6f4": "*", "i8": "D", "i32": "h", "i64": "X"}  # fmt: skip
_LEAST = 5.5
_RINGS = (1.0, 0.7, 0.42, 0.2)


def draw(shown: RooflinePicture) -> Page:
    """Draw the picture as a page."""
    sheet = Sheet.of(shown)
    origins = sheet.origins
    sources = [f"{f'[{mark(i)}] ' if len(origins) > 1 else ''}{origin}" for i, origin in enumerate(origins)]
    below = wrap_lines([*shown.statements, *(["Ceilings: " + "; ".join(sources)] if sources else [])], WIDTH - 40)
    table = LINE * (len(shown.kernels) + 1) + 18 if shown.kernels else 0
    made = page(TOP + AXES_HEIGHT + 58 + table + LINE * len(below) + 8)
    made.text(
        LEFT,
        12,
        shorten_name(shown.title, WIDTH - LEFT - 20, TITLE, bold=True),
        fontsize=TITLE,
        weight="bold",
        kind="title",
    )
    made.text(LEFT, 34, shorten_name(shown.device, WIDTH - LEFT - 20), color=FAINT, kind="title")
    axes = _axes(made, sheet)
    kinds = list(dict.fromkeys(d.datatype for d in shown.dots if d.is_drawable))
    shapes = kinds if len(kinds) > 1 else []
    _compute(made, axes, sheet, len(shapes))
    marks = _points(made, axes, sheet)
    _tracks(axes, sheet)
    _sweeps(axes, sheet)
    _memory(made, axes, sheet, marks)
    _legend(axes, shown, shapes)
    y = _kernels(made, shown, TOP + AXES_HEIGHT + 58)
    made.lines(20, y + 10, below, WIDTH, color=FAINT, kind="statement")
    return made


def draw_on(axes: Axes, shown: RooflinePicture) -> None:
    """Draw the same figures on the caller's axes: lines and numbered points, with a legend."""
    sheet = Sheet.of(shown)
    sheet = replace(sheet, frame=_above_the_frame(sheet.frame, shown))
    _scale_axes(axes, sheet)
    axes.set_title(clean(shown.title), parse_math=False)
    for roof in sheet.bandwidths:
        level = roof.name.removesuffix(".bw")
        label = f"{NAMES.get(level, level)} {si(roof.value, roof.unit)}"
        axes.plot(*sheet.roof(roof.value), color=LEVELS.get(level, INK), label=label, gid=f"level-{level}")
    words: dict[float, list[str]] = {}
    for (pipe, value, _), equal in _alike(sheet.peaks).items():
        height = equal[0].value
        style: Any = _STYLES.get(pipe, "solid")
        axes.plot(*sheet.level(height), color=INK, linewidth=1.1, linestyle=style, gid="compute")
        words.setdefault(height, [value]).insert(-1, _types(pipe, equal))
    scale = _Scale(axes)
    wanted = [scale.of(sheet.frame.x1, height)[1] - _GAP / 2 - 2 for height in words]
    for (height, told), y in zip(words.items(), spread(wanted, _GAP, 0, scale.tall), strict=True):
        label = shorten_name(f"{'; '.join(told[:-1])}  {told[-1]}", scale.wide - 6)
        axes.annotate(
            label, (sheet.frame.x1, height), xytext=scale.offset(sheet.frame.x1, height, None, y),
            textcoords="offset points", ha="right", va="center", fontsize=SMALL, parse_math=False,
        )  # fmt: skip
    _tracks(axes, sheet)
    _sweeps(axes, sheet)
    for dot in (d for d in shown.dots if d.is_drawable):
        place, color = (dot.intensity or 0, dot.performance or 0), LEVELS[dot.level]
        axes.plot(
            [place[0]], [place[1]], marker=_marker(dot.datatype), linestyle="none", zorder=4, markeredgecolor=color,
            markerfacecolor="white" if dot.doubtful else color, gid=f"point-{dot.kernel}-{dot.level}-{dot.datatype}",
        )  # fmt: skip
    _draw_numbers(axes, scale, shown)
    if sheet.bandwidths:
        axes.legend(fontsize=SMALL, frameon=False, loc="best")


class _Scale:
    """The caller's axes in pixels of a page, from their upper left corner, for placing labels."""

    def __init__(self, axes: Axes) -> None:
        self._axes, figure = axes, axes.get_figure(root=True)
        assert figure is not None
        self._unit = DPI / figure.dpi
        box = axes.get_window_extent()
        self._left, self._top = box.x0, box.y1
        self.wide, self.tall = box.width * self._unit, box.height * self._unit

    def of(self, x: float, y: float) -> tuple[float, float]:
        """The position of a value."""
        across, up = self._axes.transData.transform((x, y))
        return (across - self._left) * self._unit, (self._top - up) * self._unit

    def offset(self, x: float, y: float, to_x: float | None, to_y: float) -> tuple[float, float]:
        """The offset from a value to a place in points; without ``to_x`` vertical and slightly to the left."""
        here = self.of(x, y)
        return (-3.0 if to_x is None else (to_x - here[0]) * 72 / DPI), (here[1] - to_y) * 72 / DPI


def _above_the_frame(frame: Frame, shown: RooflinePicture) -> Frame:
    """The frame with room below the lowest point, even if many decades share a small height."""
    lowest = min((d.performance for d in shown.dots if d.is_drawable and d.performance), default=frame.y1)
    return replace(frame, y0=min(frame.y0, lowest * (lowest / frame.y1) ** _ROOM))


def _draw_numbers(axes: Axes, scale: _Scale, shown: RooflinePicture) -> None:
    """Draw the kernel numbers next to their points without overlap; points in one place share one label."""
    drawn = [
        (d.kernel, d.intensity, d.performance) for d in shown.dots if d.is_drawable and d.intensity and d.performance
    ]
    groups = clusters([(*scale.of(x, y), _LEAST) for _, x, y in drawn])
    labels = [(x, y, r, ranges([drawn[i][0] for i in members]).replace(" ", "")) for x, y, r, members in groups]
    places = around(labels, [(x, y, r) for x, y, r, _ in labels], [], (0, 0, scale.wide, scale.tall))
    for (*_, members), (*_, words), (to_x, to_y, far) in zip(groups, labels, places, strict=True):
        _, x, y = drawn[members[0]]
        joined = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
        axes.annotate(
            words, (x, y), xytext=scale.offset(x, y, to_x, to_y), textcoords="offset points", ha="center", va="center",
            fontsize=NORMAL, weight="bold", arrowprops=joined if far else None,
        )  # fmt: skip


def _axes(made: Page, sheet: Sheet) -> Axes:
    axes = made.axes(LEFT, TOP, AXES_WIDTH, AXES_HEIGHT)
    _scale_axes(axes, sheet)
    axes.yaxis.set_label_coords(-48 / AXES_WIDTH, 0.5)
    return axes


def _scale_axes(axes: Axes, sheet: Sheet) -> None:
    """Set logarithmic scales with the limits of the frame, grid and labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    frame, shown = sheet.frame, sheet.shown
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(frame.x0, frame.x1)
    axes.set_ylim(frame.y0, frame.y1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(10, numticks=12))
        axis.set_minor_locator(LogLocator(10, subs=tuple(range(2, 10)), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: decade(value)))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.set_xlabel(f"Intensity ({shown.intensity_unit})")
    axes.set_ylabel(f"Performance ({shown.unit})")


def _legend(axes: Axes, shown: RooflinePicture, shapes: list[str]) -> None:
    """Draw the colours of levels in a row above the axes, and the shapes of data types at their lower right."""
    from matplotlib.lines import Line2D

    present = {d.level for d in shown.dots if d.is_drawable or (d.performance is None and (d.bandwidth or 0) > 0)} | {
        r.name.removesuffix(".bw") for r in shown.roofs if r.unit == "GB/s"
    }
    levels = [
        Line2D([], [], color=LEVELS[n], marker="o", markersize=6, linewidth=1.6, label=NAMES[n])
        for n in LEVELS
        if n in present
    ]
    common: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "borderaxespad": 0.2}
    row = axes.legend(
        handles=levels, loc="lower left", bbox_to_anchor=(-0.02, 1.005), ncols=len(levels) or 1, handlelength=1.6,
        columnspacing=1.2, **common,
    )  # fmt: skip
    if shapes:
        axes.add_artist(row)
        marks = [Line2D([], [], color=INK, marker=_marker(k), linestyle="none", label=k) for k in shapes]
        axes.legend(handles=marks, loc="lower left", bbox_to_anchor=(1.02, -0.02), labelspacing=0.35, **common)


def _kernels(made: Page, shown: RooflinePicture, y: float) -> float:
    """Draw the list of kernels by number, if there are any; returns the y position of its end."""
    if not shown.kernels:
        return y - LINE
    columns = (20, 44, 500, 566)
    for x, head in zip(columns, ("#", "kernel (size of a point: share of time)", "time", "limit"), strict=True):
        made.text(x, y, head, weight="bold", kind="kernel")
    brief = distinct(kernel.name for kernel in shown.kernels)
    for kernel in shown.kernels:
        y += LINE
        name = kernel_name(kernel.name, brief[kernel.name], 446)
        share = "" if kernel.share_pct is None else f"{number(kernel.share_pct)} %"
        cells = (str(kernel.number), name, share, shorten_name(kernel.verdict, WIDTH - 566 - 12))
        for x, cell in zip(columns, cells, strict=True):
            made.text(x, y, cell, kind="kernel")
    return y + LINE


def _compute(made: Page, axes: Axes, sheet: Sheet, shapes: int) -> None:
    """Draw horizontal ceilings, merging equal ones of one pipe; labels are in the margin, connected to their lines."""
    groups = _alike(sheet.peaks)
    edge = LEFT + AXES_WIDTH
    bottom = TOP + AXES_HEIGHT - LINE * (shapes + 1)
    places = spread([sheet.frame.y(equal[0].value) for equal in groups.values()], _GAP, TOP - 4, bottom)
    for ((pipe, value, origin), equal), y in zip(groups.items(), places, strict=True):
        height = equal[0].value
        style: Any = _STYLES.get(pipe, "solid")
        axes.plot(*sheet.level(height), color=INK, linewidth=1.1, linestyle=style, gid="compute")
        words = f"{_types(pipe, equal)}  {value}{sheet.footnote(origin)}"
        axes.annotate(
            "", xy=(edge + 14, y), xytext=(edge, sheet.frame.y(height)), xycoords=made.pixels(),
            textcoords=made.pixels(), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
        made.text(edge + 18, y, shorten_name(words, _GUTTER), va="center", kind="ceiling")


def _alike(peaks: list[Roof]) -> dict[tuple[str, str, str], list[Roof]]:
    """Compute ceilings by pipe, value and origin."""
    groups: dict[tuple[str, str, str], list[Roof]] = {}
    for peak in peaks:
        pipe, _, kind = peak.name.partition(".")
        pipe = f"{pipe} packed" if kind.endswith("_packed") else pipe
        groups.setdefault((pipe, si(peak.value, peak.unit), peak.origin), []).append(peak)
    return groups


def _types(pipe: str, equal: list[Roof]) -> str:
    """A pipe and its data types."""
    kinds = [r.name.partition(".")[2].removesuffix("_packed") for r in equal]
    return f"{pipe} {', '.join(k for k in kinds if k)}".strip()


def _memory(made: Page, axes: Axes, sheet: Sheet, marks: list[tuple[float, float, float]]) -> None:
    """Draw diagonal ceilings with labels on them; a label moves along its line until it overlaps nothing.

    Places are (along, across) in a frame rotated with the lines, which are parallel on logarithmic axes.
    """
    frame = sheet.frame
    slope = (AXES_HEIGHT / math.log(frame.y1 / frame.y0)) / (AXES_WIDTH / math.log(frame.x1 / frame.x0))
    angle = math.atan(slope)
    cos, sin = math.cos(angle), math.sin(angle)

    def rotate(x: float, y: float) -> tuple[float, float]:
        return x * cos - y * sin, -x * sin - y * cos

    dots = [(*rotate(x, y), r) for x, y, r in marks]
    taken: list[tuple[float, float, float]] = []
    groups: dict[str, list[Roof]] = {}
    for roof in sheet.bandwidths:
        groups.setdefault(si(roof.value, roof.unit), []).append(roof)
    for value, equal in groups.items():
        xs, ys = sheet.roof(equal[0].value)
        levels = [r.name.removesuffix(".bw") for r in equal]
        for i, level in enumerate(levels):
            style: Any = (0, (4 * i, 4)) if len(levels) > 1 and i else "solid"
            color = LEVELS.get(level, INK)
            axes.plot(xs, ys, color=color, linewidth=1.6, linestyle=style, gid=f"level-{level}")
        words = f"{', '.join(NAMES.get(lv, lv) for lv in levels)} {value}{sheet.footnote(equal[0].origin)}"
        wide = width_of(words) + 8
        along, across = rotate(frame.x(xs[0]), frame.y(ys[0]))
        last = rotate(frame.x(xs[1]), frame.y(ys[1]))[0] - wide
        first = along + 14
        along = first
        while along < last and not _free(along, across, wide, taken, dots):
            along += 4
        if along >= last:
            along = first
            while not _free(along, across, wide, taken, []):
                along += 4
        taken.append((along, across, wide))
        made.text(
            (along + 4) * cos - across * sin, -(along + 4) * sin - across * cos, words, va="center", kind="level",
            rotation=math.degrees(angle), rotation_mode="anchor",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip


def _free(
    along: float, across: float, wide: float, taken: list[tuple[float, float, float]],
    dots: list[tuple[float, float, float]],
) -> bool:  # fmt: skip
    """Whether a label of this width on its line overlaps no other label and no mark."""
    for other, line, width in taken:
        if abs(line - across) < _GAP and other < along + wide and along < other + width:
            return False
    return not any(along - r < a < along + wide + r and abs(b - across) < _GAP / 2 + r for a, b, r in dots)


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


def _sweeps(axes: Axes, sheet: Sheet) -> None:
    """Draw the measured roofs: connected crosses, one per intensity; points outside the axes are omitted."""
    frame = sheet.frame
    for i, line in enumerate(sheet.shown.sweeps):
        inside = [(x, y) for x, y in line if frame.x0 <= x <= frame.x1 and frame.y0 <= y <= frame.y1]
        if inside:
            axes.plot(
                [x for x, _ in inside], [y for _, y in inside], color=FAINT, linewidth=0.9, linestyle="solid",
                marker="x", markersize=4, zorder=1.5, gid=f"sweep-{i}",
            )  # fmt: skip


def _points(made: Page, axes: Axes, sheet: Sheet) -> list[tuple[float, float, float]]:
    """Draw marks sized by share of time, with numbers, and a thin line through the marks of one kernel.

    Marks of several levels in one place become rings, the level farthest from the core outermost.
    """
    from matplotlib.patheffects import withStroke

    frame, shown = sheet.frame, sheet.shown
    shares = {k.number: k.share_pct for k in shown.kernels}
    drawn = [d for d in shown.dots if d.is_drawable and d.intensity and d.performance]
    places = [
        (
            frame.x(d.intensity or 0),
            frame.y(d.performance or 0),
            _LEAST + 7.0 * math.sqrt((shares.get(d.kernel) or 0) / 100),
        )
        for d in drawn
    ]
    groups = clusters(places)
    for *_, members in groups:
        members.sort(key=lambda i: (list(LEVELS).index(drawn[i].level), drawn[i].kernel))
        ring = {level: n for n, level in enumerate(dict.fromkeys(drawn[i].level for i in members))}
        for i in members:
            dot, radius = drawn[i], places[i][2] * _RINGS[min(ring[drawn[i].level], 3)]
            color = LEVELS[dot.level]
            axes.plot(
                [dot.intensity or 0], [dot.performance or 0], marker=_marker(dot.datatype), linestyle="none",
                markersize=1.44 * radius, markerfacecolor="white" if dot.doubtful else color,
                markeredgecolor=color if dot.doubtful else INK, markeredgewidth=1.6 if dot.doubtful else 0.7, zorder=4,
                gid=f"point-{dot.kernel}-{dot.level}-{dot.datatype}", clip_on=False,
            )  # fmt: skip
    for kernel, datatype in dict.fromkeys((d.kernel, d.datatype) for d in drawn):
        row = sorted(
            (d.intensity or 0.0, d.performance or 0.0) for d in drawn if (d.kernel, d.datatype) == (kernel, datatype)
        )
        axes.plot([x for x, _ in row], [y for _, y in row], color=FAINT, linewidth=0.6, linestyle=":", zorder=2)
    labels = [(x, y, r, ranges([drawn[i].kernel for i in members]).replace(" ", "")) for x, y, r, members in groups]
    box = (LEFT, TOP - 8, LEFT + AXES_WIDTH, TOP + AXES_HEIGHT)
    lines = [frame.y(peak.value) for peak in sheet.peaks]
    spots = around(labels, places, lines, box)
    halo = [withStroke(linewidth=2.5, foreground="white")]
    for (x, y, _, words), (cx, cy, far) in zip(labels, spots, strict=True):
        if far:
            axes.annotate(
                "", xy=(x, y), xytext=(cx, cy), xycoords=made.pixels(), textcoords=made.pixels(), zorder=3,
                arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 5, "shrinkB": 0},
            )  # fmt: skip
        made.text(cx, cy, words, ha="center", va="center", weight="bold", kind="point", path_effects=halo)
    wide = [max(0.0, width_of(words, NORMAL, bold=True) / 2 - 4) for *_, words in labels]
    held = [(x + w * t / 4, y, 8.0) for (x, y, _), w in zip(spots, wide, strict=True) for t in range(-4, 5)]
    return [*places, *held]


def _marker(datatype: str) -> str:
    """The shape of a data type."""
    return MARKERS.get(datatype.split(".")[-1], "o")
