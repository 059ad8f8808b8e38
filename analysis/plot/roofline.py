"""The roofline as a picture: bandwidth and compute ceilings, and a numbered point per kernel and memory level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..kernel_names import distinct
from .labels import around, clusters, spread
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
    clean,
    decade,
    kernel_name,
    number,
    page,
    ranges,
    shortened,
    si,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEFT, TOP, AXES_WIDTH, AXES_HEIGHT = 74, 84, 500, 400
_STYLES = {"matrix": (0, (6, 2)), "valu packed": (0, (2, 2))}
_GUTTER = WIDTH - LEFT - AXES_WIDTH - 30
_GAP = 14.0
_ROOM = 0.06
"""Of the height of small axes, below the lowest point."""
MARKERS = {"flop": "o", "iop": "s", "inst": "o", "f64": "^", "f32": "p", "f16": "v", "bf16": "<", "f8": ">",
           "xf32": "P", "f6f4": "*", "i8": "D", "i32": "h", "i64": "X"}  # fmt: skip
_LEAST = 5.5
_RINGS = (1.0, 0.7, 0.42, 0.2)


@dataclass(frozen=True)
class Roof:
    """One ceiling; ``origin`` says in a few words how it is known."""

    name: str
    value: float
    unit: str
    origin: str


@dataclass(frozen=True)
class Dot:
    """One kernel at one level; without intensity or performance it has no place, but perhaps a bandwidth."""

    kernel: int
    level: str
    datatype: str
    intensity: float | None
    performance: float | None
    bandwidth: float | None
    doubtful: bool = False

    @property
    def drawn(self) -> bool:
        """Whether it has a place on two logarithmic axes."""
        return all(v is not None and math.isfinite(v) and v > 0 for v in (self.intensity, self.performance))


@dataclass(frozen=True)
class Kernel:
    """A line of the list of kernels below the axes."""

    number: int
    name: str
    share_pct: float | None
    verdict: str


@dataclass(frozen=True)
class RooflinePicture:
    """All that the picture shows; ``unit`` is that of the compute ceilings and of performance."""

    title: str
    device: str
    unit: str
    intensity_unit: str
    roofs: Sequence[Roof]
    dots: Sequence[Dot]
    kernels: Sequence[Kernel]
    statements: Sequence[str]
    sweeps: Sequence[Sequence[tuple[float, float]]] = ()
    """Measured roofs: the rates reached at rising intensities."""


@dataclass(frozen=True)
class Frame:
    """The axes with limits fixed: where a value lies in pixels from the page's upper left corner."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return LEFT + AXES_WIDTH * math.log(value / self.x0) / math.log(self.x1 / self.x0)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return TOP + AXES_HEIGHT * (1 - math.log(value / self.y0) / math.log(self.y1 / self.y0))


def _frame(shown: RooflinePicture, bandwidths: list[Roof], peaks: list[Roof]) -> Frame:
    """Axes wide enough for all points and for the ridges of all ceilings."""
    dots = [(d.intensity, d.performance) for d in shown.dots if d.drawn]
    xs = [x for x, _ in dots if x is not None]
    ys = [y for _, y in dots if y is not None]
    xs += [x for line in shown.sweeps for x, _ in line]
    ys += [y for line in shown.sweeps for _, y in line]
    xs += [p.value / b.value for p in (peaks[:1] + peaks[-1:]) for b in (bandwidths[:1] + bandwidths[-1:])]
    x0, x1 = _padded(min(xs, default=0.1) / 5, max(xs, default=100.0) * 3)
    ys += [p.value for p in peaks] or [b.value * x1 / 10 for b in bandwidths]
    low = min([*(y / 2 for y in ys), *(b.value * x0 * 2 for b in bandwidths)], default=1.0)
    y0, y1 = _padded(low, max(ys, default=1000.0) * 2.5)
    return Frame(x0, x1, y0, y1)


def _padded(low: float, high: float) -> tuple[float, float]:
    """Limits with at least two decades between them."""
    missing = max(0.0, 2.0 - math.log10(high / low)) / 2
    return low * 10**-missing, high * 10**missing


def draw(shown: RooflinePicture) -> Page:
    """The picture as a page."""
    origins = list(dict.fromkeys(r.origin for r in shown.roofs))
    sources = [f"{f'[{_mark(i)}] ' if len(origins) > 1 else ''}{origin}" for i, origin in enumerate(origins)]
    below = wrapped([*shown.statements, *(["Ceilings: " + "; ".join(sources)] if sources else [])], WIDTH - 40)
    table = LINE * (len(shown.kernels) + 1) + 18 if shown.kernels else 0
    made = page(TOP + AXES_HEIGHT + 58 + table + LINE * len(below) + 8)
    made.text(
        LEFT,
        12,
        shortened(shown.title, WIDTH - LEFT - 20, TITLE, bold=True),
        fontsize=TITLE,
        weight="bold",
        kind="title",
    )
    made.text(LEFT, 34, shortened(shown.device, WIDTH - LEFT - 20), color=FAINT, kind="title")
    bandwidths = sorted((r for r in shown.roofs if r.unit == "GB/s"), key=lambda r: -r.value)
    peaks = sorted((r for r in shown.roofs if r.unit != "GB/s"), key=lambda r: -r.value)
    frame = _frame(shown, bandwidths, peaks)
    axes = _axes(made, frame, shown)
    kinds = list(dict.fromkeys(d.datatype for d in shown.dots if d.drawn))
    shapes = kinds if len(kinds) > 1 else []
    _compute(made, axes, frame, bandwidths, peaks, origins, len(shapes))
    marks = _points(made, axes, frame, shown)
    _tracks(axes, frame, shown)
    _sweeps(axes, frame, shown)
    _memory(made, axes, frame, bandwidths, peaks, marks, origins)
    _legend(axes, shown, shapes)
    y = _kernels(made, shown, TOP + AXES_HEIGHT + 58)
    made.lines(20, y + 10, below, WIDTH, color=FAINT, kind="statement")
    return made


def draw_on(axes: Axes, shown: RooflinePicture) -> None:
    """The same figures on axes of someone else: lines and numbered points, named in a legend."""
    bandwidths = sorted((r for r in shown.roofs if r.unit == "GB/s"), key=lambda r: -r.value)
    peaks = sorted((r for r in shown.roofs if r.unit != "GB/s"), key=lambda r: -r.value)
    frame = _above_the_frame(_frame(shown, bandwidths, peaks), shown)
    _scaled(axes, frame, shown)
    axes.set_title(clean(shown.title), parse_math=False)
    for roof in bandwidths:
        level = roof.name.removesuffix(".bw")
        end = min(frame.x1, peaks[0].value / roof.value if peaks else frame.x1, frame.y1 / roof.value)
        start = max(frame.x0, frame.y0 / roof.value)
        label = f"{NAMES.get(level, level)} {si(roof.value, roof.unit)}"
        color = LEVELS.get(level, INK)
        axes.plot([start, end], [roof.value * start, roof.value * end], color=color, label=label, gid=f"level-{level}")
    words: dict[float, list[str]] = {}
    for (pipe, value, _), equal in _alike(peaks).items():
        height = equal[0].value
        start = max(frame.x0, height / bandwidths[0].value) if bandwidths else frame.x0
        style: Any = _STYLES.get(pipe, "solid")
        axes.plot([start, frame.x1], [height, height], color=INK, linewidth=1.1, linestyle=style, gid="compute")
        words.setdefault(height, [value]).insert(-1, _types(pipe, equal))
    scale = _Scale(axes)
    wanted = [scale.of(frame.x1, height)[1] - _GAP / 2 - 2 for height in words]
    for (height, told), y in zip(words.items(), spread(wanted, _GAP, 0, scale.tall), strict=True):
        label = shortened(f"{'; '.join(told[:-1])}  {told[-1]}", scale.wide - 6)
        axes.annotate(
            label, (frame.x1, height), xytext=scale.offset(frame.x1, height, None, y),
            textcoords="offset points", ha="right", va="center", fontsize=SMALL, parse_math=False,
        )  # fmt: skip
    _tracks(axes, frame, shown)
    _sweeps(axes, frame, shown)
    for dot in (d for d in shown.dots if d.drawn):
        place, color = (dot.intensity or 0, dot.performance or 0), LEVELS[dot.level]
        axes.plot(
            [place[0]], [place[1]], marker=_marker(dot.datatype), linestyle="none", zorder=4, markeredgecolor=color,
            markerfacecolor="white" if dot.doubtful else color, gid=f"point-{dot.kernel}-{dot.level}-{dot.datatype}",
        )  # fmt: skip
    _numbered(axes, scale, shown)
    if bandwidths:
        axes.legend(fontsize=SMALL, frameon=False, loc="best")


class _Scale:
    """Axes of someone else in pixels of a page: from their upper left corner, as labels are placed there."""

    def __init__(self, axes: Axes) -> None:
        self._axes, figure = axes, axes.get_figure(root=True)
        assert figure is not None
        self._unit = DPI / figure.dpi
        box = axes.get_window_extent()
        self._left, self._top = box.x0, box.y1
        self.wide, self.tall = box.width * self._unit, box.height * self._unit

    def of(self, x: float, y: float) -> tuple[float, float]:
        """Where a value lies."""
        across, up = self._axes.transData.transform((x, y))
        return (across - self._left) * self._unit, (self._top - up) * self._unit

    def offset(self, x: float, y: float, to_x: float | None, to_y: float) -> tuple[float, float]:
        """From a value to a place, in points; without ``to_x`` straight up or down, a little to the left."""
        here = self.of(x, y)
        return (-3.0 if to_x is None else (to_x - here[0]) * 72 / DPI), (here[1] - to_y) * 72 / DPI


def _above_the_frame(frame: Frame, shown: RooflinePicture) -> Frame:
    """With room below the lowest point, also where many decades share a small height."""
    lowest = min((d.performance for d in shown.dots if d.drawn and d.performance), default=frame.y1)
    return replace(frame, y0=min(frame.y0, lowest * (lowest / frame.y1) ** _ROOM))


def _numbered(axes: Axes, scale: _Scale, shown: RooflinePicture) -> None:
    """The numbers of the kernels, each beside its points and none on another; points in one place share theirs."""
    drawn = [(d.kernel, d.intensity, d.performance) for d in shown.dots if d.drawn and d.intensity and d.performance]
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


def _axes(made: Page, frame: Frame, shown: RooflinePicture) -> Axes:
    axes = made.axes(LEFT, TOP, AXES_WIDTH, AXES_HEIGHT)
    _scaled(axes, frame, shown)
    axes.yaxis.set_label_coords(-48 / AXES_WIDTH, 0.5)
    return axes


def _scaled(axes: Axes, frame: Frame, shown: RooflinePicture) -> None:
    """Logarithmic scales with the limits of the frame, grid and labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

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
    """Colours of levels in a row above the axes, shapes of data types at the lower right of them."""
    from matplotlib.lines import Line2D

    present = {d.level for d in shown.dots if d.drawn or (d.performance is None and (d.bandwidth or 0) > 0)} | {
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
    """The list of kernels by number, if there are any; returns where it ends."""
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
        cells = (str(kernel.number), name, share, shortened(kernel.verdict, WIDTH - 566 - 12))
        for x, cell in zip(columns, cells, strict=True):
            made.text(x, y, cell, kind="kernel")
    return y + LINE


def _compute(
    made: Page, axes: Axes, frame: Frame, bandwidths: list[Roof], peaks: list[Roof], origins: list[str], shapes: int
) -> None:
    """Horizontal ceilings, equal ones of one pipe as one; labels in the gutter, each joined to its line."""
    groups = _alike(peaks)
    edge = LEFT + AXES_WIDTH
    bottom = TOP + AXES_HEIGHT - LINE * (shapes + 1)
    places = spread([frame.y(equal[0].value) for equal in groups.values()], _GAP, TOP - 4, bottom)
    for ((pipe, value, origin), equal), y in zip(groups.items(), places, strict=True):
        height = equal[0].value
        start = max(frame.x0, height / bandwidths[0].value) if bandwidths else frame.x0
        style: Any = _STYLES.get(pipe, "solid")
        axes.plot([start, frame.x1], [height, height], color=INK, linewidth=1.1, linestyle=style, gid="compute")
        words = f"{_types(pipe, equal)}  {value}{_note(origin, origins)}"
        axes.annotate(
            "", xy=(edge + 14, y), xytext=(edge, frame.y(height)), xycoords=made.pixels(), textcoords=made.pixels(),
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
        )  # fmt: skip
        made.text(edge + 18, y, shortened(words, _GUTTER), va="center", kind="ceiling")


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


def _memory(
    made: Page, axes: Axes, frame: Frame, bandwidths: list[Roof], peaks: list[Roof],
    marks: list[tuple[float, float, float]], origins: list[str],
) -> None:  # fmt: skip
    """Diagonal ceilings with labels in them; a label slides along its line until it is free.

    Places are (along, across) in the frame turned with the lines, which are parallel on logarithmic axes.
    """
    slope = (AXES_HEIGHT / math.log(frame.y1 / frame.y0)) / (AXES_WIDTH / math.log(frame.x1 / frame.x0))
    angle = math.atan(slope)
    cos, sin = math.cos(angle), math.sin(angle)

    def turned(x: float, y: float) -> tuple[float, float]:
        return x * cos - y * sin, -x * sin - y * cos

    dots = [(*turned(x, y), r) for x, y, r in marks]
    taken: list[tuple[float, float, float]] = []
    groups: dict[str, list[Roof]] = {}
    for roof in bandwidths:
        groups.setdefault(si(roof.value, roof.unit), []).append(roof)
    for value, equal in groups.items():
        bandwidth = equal[0].value
        end = min(frame.x1, peaks[0].value / bandwidth if peaks else frame.x1, frame.y1 / bandwidth)
        start = max(frame.x0, frame.y0 / bandwidth)
        levels = [r.name.removesuffix(".bw") for r in equal]
        for i, level in enumerate(levels):
            style: Any = (0, (4 * i, 4)) if len(levels) > 1 and i else "solid"
            axes.plot(
                [start, end], [bandwidth * start, bandwidth * end], color=LEVELS.get(level, INK), linewidth=1.6,
                linestyle=style, gid=f"level-{level}",
            )  # fmt: skip
        words = f"{', '.join(NAMES.get(lv, lv) for lv in levels)} {value}{_note(equal[0].origin, origins)}"
        wide = width_of(words) + 8
        along, across = turned(frame.x(start), frame.y(bandwidth * start))
        last = turned(frame.x(end), frame.y(bandwidth * end))[0] - wide
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
    """Whether a label of this width, in its line, meets no other label, and no mark."""
    for other, line, width in taken:
        if abs(line - across) < _GAP and other < along + wide and along < other + width:
            return False
    return not any(along - r < a < along + wide + r and abs(b - across) < _GAP / 2 + r for a, b, r in dots)


def _tracks(axes: Axes, frame: Frame, shown: RooflinePicture) -> None:
    """Where a kernel of known bandwidth but unknown operations must lie: somewhere on a line."""
    placed = {d.kernel for d in shown.dots if d.drawn}
    known = [d for d in shown.dots if d.kernel not in placed and d.performance is None and d.bandwidth]
    first = min((d.kernel for d in known), default=None)
    for i, dot in enumerate(known):
        if dot.kernel != first or not dot.bandwidth or dot.bandwidth <= 0:
            continue
        start, end = max(frame.x0, frame.y0 / dot.bandwidth), min(frame.x1, frame.y1 / dot.bandwidth)
        if start < end:
            axes.plot(
                [start, end], [dot.bandwidth * start, dot.bandwidth * end], color=LEVELS[dot.level], linewidth=1.2,
                linestyle=(4 * i, (3, 5)), gid=f"track-{dot.kernel}-{dot.level}",
            )  # fmt: skip


def _sweeps(axes: Axes, frame: Frame, shown: RooflinePicture) -> None:
    """The roofs that were measured: a cross for each intensity, joined; what lies outside of the axes is left out."""
    for i, line in enumerate(shown.sweeps):
        inside = [(x, y) for x, y in line if frame.x0 <= x <= frame.x1 and frame.y0 <= y <= frame.y1]
        if inside:
            axes.plot(
                [x for x, _ in inside], [y for _, y in inside], color=FAINT, linewidth=0.9, linestyle="solid",
                marker="x", markersize=4, zorder=1.5, gid=f"sweep-{i}",
            )  # fmt: skip


def _mark(index: int) -> str:
    """The letter of a footnote."""
    return chr(ord("a") + index)


def _note(origin: str, origins: list[str]) -> str:
    return f" [{_mark(origins.index(origin))}]" if len(origins) > 1 else ""


def _points(made: Page, axes: Axes, frame: Frame, shown: RooflinePicture) -> list[tuple[float, float, float]]:
    """Marks sized by share of time, a thin line through those of one kernel, and numbers beside them.

    Marks of several levels in one place become rings, the level farthest from the core outermost.
    """
    from matplotlib.patheffects import withStroke

    shares = {k.number: k.share_pct for k in shown.kernels}
    drawn = [d for d in shown.dots if d.drawn and d.intensity and d.performance]
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
    lines = [frame.y(r.value) for r in shown.roofs if r.unit != "GB/s"]
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
