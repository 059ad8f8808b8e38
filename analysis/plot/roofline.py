"""The roofline as a picture: bandwidth and compute ceilings, and a numbered point per kernel and memory level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .place import around, clusters
from .style import (
    FAINT, GRID, INK, LEVELS, LINE, NAMES, SMALL, TITLE, WIDTH, Page, number, page, shortened, si, spread, width_of,
    wrapped,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"flop": "o", "iop": "s", "inst": "o", "f64": "^", "f32": "p", "f16": "v", "bf16": "<", "f8": ">",
           "xf32": "P", "f6f4": "*", "i8": "D", "i32": "h", "i64": "X"}  # fmt: skip
_STYLES = {"matrix": (0, (6, 2)), "valu packed": (0, (2, 2))}
_LEFT, _TOP, _AXES_WIDTH, _AXES_HEIGHT = 74, 84, 500, 400
_GUTTER = WIDTH - _LEFT - _AXES_WIDTH - 30
_GAP = 14.0


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
class Scene:
    """All that the picture shows; ``unit`` is that of the compute ceilings and of performance."""

    title: str
    device: str
    unit: str
    intensity_unit: str
    roofs: Sequence[Roof]
    dots: Sequence[Dot]
    kernels: Sequence[Kernel]
    statements: Sequence[str]


@dataclass(frozen=True)
class _Frame:
    """The axes with limits fixed: where a value lies in pixels from the page's upper left corner."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        return _LEFT + _AXES_WIDTH * math.log(value / self.x0) / math.log(self.x1 / self.x0)

    def y(self, value: float) -> float:
        return _TOP + _AXES_HEIGHT * (1 - math.log(value / self.y0) / math.log(self.y1 / self.y0))


def draw(scene: Scene) -> Page:
    """The picture of a scene."""
    origins = list(dict.fromkeys(r.origin for r in scene.roofs))
    sources = [f"{f'[{_mark(i)}] ' if len(origins) > 1 else ''}{origin}" for i, origin in enumerate(origins)]
    below = wrapped([*scene.statements, *(["Ceilings: " + "; ".join(sources)] if sources else [])], WIDTH - 40)
    table = LINE * (len(scene.kernels) + 1) + 18
    made = page(_TOP + _AXES_HEIGHT + 58 + table + LINE * len(below) + 8)
    made.text(_LEFT, 12, shortened(scene.title, WIDTH - _LEFT - 20, TITLE), fontsize=TITLE, weight="bold", kind="title")
    made.text(_LEFT, 34, shortened(scene.device, WIDTH - _LEFT - 20), color=FAINT, kind="title")
    bandwidths = sorted((r for r in scene.roofs if r.unit == "GB/s"), key=lambda r: -r.value)
    peaks = sorted((r for r in scene.roofs if r.unit != "GB/s"), key=lambda r: -r.value)
    frame = _limits(scene, bandwidths, peaks)
    axes = _axes(made, frame, scene)
    _compute(made, axes, frame, bandwidths, peaks, origins)
    marks = _points(made, axes, frame, scene)
    _tracks(axes, frame, scene)
    _memory(made, axes, frame, bandwidths, peaks, marks, origins)
    _legend(axes, scene)
    y = _kernels(made, scene, _TOP + _AXES_HEIGHT + 58)
    made.lines(20, y + 10, below, WIDTH, color=FAINT, kind="statement")
    return made


def _limits(scene: Scene, bandwidths: list[Roof], peaks: list[Roof]) -> _Frame:
    dots = [(d.intensity, d.performance) for d in scene.dots if d.drawn]
    xs = [x for x, _ in dots if x is not None]
    ys = [y for _, y in dots if y is not None]
    xs += [p.value / b.value for p in (peaks[:1] + peaks[-1:]) for b in (bandwidths[:1] + bandwidths[-1:])]
    x0, x1 = _decades(min(xs, default=0.1) / 2, max(xs, default=100.0) * 2)
    ys += [p.value for p in peaks] or [b.value * x1 / 10 for b in bandwidths]
    low = min([*(y / 2 for y in ys), *(b.value * x0 * 2 for b in bandwidths)], default=1.0)
    y0, y1 = _decades(low, max(ys, default=1000.0) * 1.5)
    return _Frame(x0, x1, y0, y1)


def _decades(low: float, high: float) -> tuple[float, float]:
    return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))


def _axes(made: Page, frame: _Frame, scene: Scene) -> Axes:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes = made.axes(_LEFT, _TOP, _AXES_WIDTH, _AXES_HEIGHT)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(frame.x0, frame.x1)
    axes.set_ylim(frame.y0, frame.y1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(10, numticks=12))
        axis.set_minor_locator(LogLocator(10, subs=tuple(range(2, 10)), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.set_xlabel(f"Intensity ({scene.intensity_unit})")
    axes.set_ylabel(f"Performance ({scene.unit})")
    return axes


def _compute(
    made: Page, axes: Axes, frame: _Frame, bandwidths: list[Roof], peaks: list[Roof], origins: list[str]
) -> None:
    """Horizontal ceilings, equal ones of one pipe as one; labels in the gutter, each joined to its line."""
    groups: dict[tuple[str, str, str], list[Roof]] = {}
    for peak in peaks:
        pipe, _, kind = peak.name.partition(".")
        pipe = f"{pipe} packed" if kind.endswith("_packed") else pipe
        groups.setdefault((pipe, si(peak.value, peak.unit), peak.origin), []).append(peak)
    edge = _LEFT + _AXES_WIDTH
    places = spread(
        [frame.y(peaks[0].value) for peaks in groups.values()], _GAP, _TOP - 4, _TOP + _AXES_HEIGHT
    )
    for ((pipe, value, origin), equal), y in zip(groups.items(), places, strict=True):
        peak = equal[0].value
        start = max(frame.x0, peak / bandwidths[0].value) if bandwidths else frame.x0
        style: Any = _STYLES.get(pipe, "solid")
        axes.plot([start, frame.x1], [peak, peak], color=INK, linewidth=1.1, linestyle=style, gid="compute")
        kinds = [r.name.partition(".")[2].removesuffix("_packed") for r in equal]
        words = f"{pipe} {', '.join(k for k in kinds if k)}".strip() + f"  {value}{_note(origin, origins)}"
        axes.annotate(
            "", xy=(edge + 14, y), xytext=(edge, frame.y(peak)), xycoords=_pixels(made), textcoords=_pixels(made),
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
        )  # fmt: skip
        made.text(edge + 18, y, shortened(words, _GUTTER), va="center", kind="ceiling")


def _memory(
    made: Page, axes: Axes, frame: _Frame, bandwidths: list[Roof], peaks: list[Roof],
    marks: list[tuple[float, float, float]], origins: list[str],
) -> None:  # fmt: skip
    """Diagonal ceilings with labels along them; a label slides along its line until it is free.

    Places are (along, across) in the frame turned with the lines, which are parallel on logarithmic axes.
    """
    slope = (_AXES_HEIGHT / math.log(frame.y1 / frame.y0)) / (_AXES_WIDTH / math.log(frame.x1 / frame.x0))
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
        wide = width_of(words) + 6
        along, across = turned(frame.x(start), frame.y(bandwidth * start))
        last = turned(frame.x(end), frame.y(bandwidth * end))[0] - wide
        first = along + 10
        along = first
        while along < last and not _free(along, across, wide, taken, dots):
            along += 4
        if along >= last:
            along = first
            while not _free(along, across, wide, taken, []):
                along += 4
        taken.append((along, across, wide))
        up = across + 3
        made.text(
            along * cos - up * sin, -along * sin - up * cos, words, va="bottom", rotation=math.degrees(angle),
            rotation_mode="anchor", kind="level",
        )  # fmt: skip


def _free(
    along: float, across: float, wide: float, taken: list[tuple[float, float, float]],
    dots: list[tuple[float, float, float]],
) -> bool:  # fmt: skip
    """Whether a label of this width, standing on its line, meets no other label, and no mark."""
    for other, line, width in taken:
        if abs(line - across) < _GAP and other < along + wide and along < other + width:
            return False
    return not any(along - r < a < along + wide + r and across - r < b < across + _GAP + r for a, b, r in dots)


def _points(made: Page, axes: Axes, frame: _Frame, scene: Scene) -> list[tuple[float, float, float]]:
    """Marks sized by share of time, a thin line through those of one kernel, and numbers beside them."""
    shares = {k.number: k.share_pct for k in scene.kernels}
    drawn = [d for d in scene.dots if d.drawn and d.intensity and d.performance]
    places = []
    for dot in sorted(drawn, key=lambda d: -(shares.get(d.kernel) or 0)):
        assert dot.intensity and dot.performance
        radius = 4.0 + 7.0 * math.sqrt((shares.get(dot.kernel) or 0.0) / 100)
        color = LEVELS[dot.level]
        axes.plot(
            [dot.intensity], [dot.performance], marker=MARKERS.get(dot.datatype.split(".")[-1], "o"), linestyle="none",
            markersize=2 * radius * 0.72, markerfacecolor="white" if dot.doubtful else color, markeredgecolor=INK
            if not dot.doubtful else color, markeredgewidth=0.7 if not dot.doubtful else 1.6, zorder=4,
            gid=f"point-{dot.kernel}-{dot.level}-{dot.datatype}", clip_on=False,
        )  # fmt: skip
        places.append((frame.x(dot.intensity), frame.y(dot.performance), radius, dot.kernel))
    for kernel, datatype in dict.fromkeys((d.kernel, d.datatype) for d in drawn):
        row = sorted(
            (d.intensity or 0.0, d.performance or 0.0) for d in drawn if (d.kernel, d.datatype) == (kernel, datatype)
        )
        axes.plot([x for x, _ in row], [y for _, y in row], color=FAINT, linewidth=0.6, linestyle=":", zorder=2)
    marks = [(x, y, r) for x, y, r, _ in places]
    labels = [
        (x, y, r, ",".join(map(str, sorted({places[i][3] for i in members})))) for x, y, r, members in clusters(marks)
    ]
    box = (_LEFT, _TOP - 8, _LEFT + _AXES_WIDTH, _TOP + _AXES_HEIGHT)
    for (x, y, _, words), (cx, cy, far) in zip(labels, around(labels, marks, box), strict=True):
        if far:
            axes.annotate(
                "", xy=(x, y), xytext=(cx, cy), xycoords=_pixels(made), textcoords=_pixels(made), zorder=3,
                arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 5, "shrinkB": 0},
            )  # fmt: skip
        made.text(cx, cy, words, ha="center", va="center", weight="bold", kind="point")
    boxes = [(t[0], t[1], 8.0) for t in around(labels, marks, box)]
    return [*marks, *boxes]


def _tracks(axes: Axes, frame: _Frame, scene: Scene) -> None:
    """Where a kernel of known bandwidth but unknown operations must lie: somewhere on a line."""
    placed = {d.kernel for d in scene.dots if d.drawn}
    known = [d for d in scene.dots if d.kernel not in placed and d.performance is None and d.bandwidth]
    first = min((d.kernel for d in known), default=None)
    for dot in known:
        if dot.kernel != first or not dot.bandwidth or dot.bandwidth <= 0:
            continue
        start, end = max(frame.x0, frame.y0 / dot.bandwidth), min(frame.x1, frame.y1 / dot.bandwidth)
        if start < end:
            axes.plot(
                [start, end], [dot.bandwidth * start, dot.bandwidth * end], color=LEVELS[dot.level], linewidth=1.2,
                linestyle=(0, (1, 3)), gid=f"track-{dot.kernel}-{dot.level}",
            )  # fmt: skip


def _legend(axes: Axes, scene: Scene) -> None:
    """Colours of levels and shapes of data types, in one row above the axes."""
    from matplotlib.lines import Line2D

    present = {d.level for d in scene.dots} | {r.name.removesuffix(".bw") for r in scene.roofs if r.unit == "GB/s"}
    entries = [
        Line2D([], [], color=LEVELS[n], marker="o", markersize=6, linewidth=1.6, label=NAMES[n])
        for n in LEVELS
        if n in present
    ]
    kinds = list(dict.fromkeys(d.datatype for d in scene.dots if d.drawn))
    if len(kinds) > 1:
        entries += [
            Line2D([], [], color=INK, marker=MARKERS.get(k.split(".")[-1], "o"), linestyle="none", label=k)
            for k in kinds[:6]
        ]
    axes.legend(
        handles=entries, loc="lower left", bbox_to_anchor=(-0.02, 1.005), ncols=len(entries) or 1, frameon=False,
        fontsize=SMALL, handlelength=1.6, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def _kernels(made: Page, scene: Scene, y: float) -> float:
    """The list of kernels by number."""
    columns = (20, 44, 500, 566)
    for x, head in zip(columns, ("#", "kernel (size of a point: share of time)", "time", "limit"), strict=True):
        made.text(x, y, head, weight="bold", kind="kernel")
    for kernel in scene.kernels:
        y += LINE
        share = "" if kernel.share_pct is None else f"{number(kernel.share_pct)} %"
        cells = (str(kernel.number), shortened(kernel.name, 446), share, shortened(kernel.verdict, WIDTH - 566 - 12))
        for x, cell in zip(columns, cells, strict=True):
            made.text(x, y, cell, kind="kernel")
    return y + LINE


def _mark(index: int) -> str:
    return chr(ord("a") + index)


def _note(origin: str, origins: list[str]) -> str:
    return f" [{_mark(origins.index(origin))}]" if len(origins) > 1 else ""


def _pixels(made: Page) -> Any:
    """Coordinates in the layout's pixels from the upper left corner, at any resolution."""
    from matplotlib.transforms import Affine2D

    return Affine2D().scale(1 / WIDTH, -1 / made.height).translate(0, 1) + made.figure.transFigure
