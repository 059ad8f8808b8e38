"""The ceilings of a roofline: diagonal bandwidths, horizontal compute rates, each with its label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .scene import AXES_HEIGHT, AXES_WIDTH, LEFT, TOP, Frame, Roof, Scene
from .style import FAINT, INK, LEVELS, LINE, NAMES, WIDTH, Page, shortened, si, spread, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_STYLES = {"matrix": (0, (6, 2)), "valu packed": (0, (2, 2))}
_GUTTER = WIDTH - LEFT - AXES_WIDTH - 30
_GAP = 14.0


def compute(
    made: Page, axes: Axes, frame: Frame, bandwidths: list[Roof], peaks: list[Roof], origins: list[str], shapes: int
) -> None:
    """Horizontal ceilings, equal ones of one pipe as one; labels in the gutter, each joined to its line."""
    groups: dict[tuple[str, str, str], list[Roof]] = {}
    for peak in peaks:
        pipe, _, kind = peak.name.partition(".")
        pipe = f"{pipe} packed" if kind.endswith("_packed") else pipe
        groups.setdefault((pipe, si(peak.value, peak.unit), peak.origin), []).append(peak)
    edge = LEFT + AXES_WIDTH
    bottom = TOP + AXES_HEIGHT - LINE * (shapes + 1)
    places = spread([frame.y(equal[0].value) for equal in groups.values()], _GAP, TOP - 4, bottom)
    for ((pipe, value, origin), equal), y in zip(groups.items(), places, strict=True):
        height = equal[0].value
        start = max(frame.x0, height / bandwidths[0].value) if bandwidths else frame.x0
        style: Any = _STYLES.get(pipe, "solid")
        axes.plot([start, frame.x1], [height, height], color=INK, linewidth=1.1, linestyle=style, gid="compute")
        kinds = [r.name.partition(".")[2].removesuffix("_packed") for r in equal]
        words = f"{pipe} {', '.join(k for k in kinds if k)}".strip() + f"  {value}{_note(origin, origins)}"
        axes.annotate(
            "", xy=(edge + 14, y), xytext=(edge, frame.y(height)), xycoords=made.pixels(), textcoords=made.pixels(),
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
            annotation_clip=False,
        )  # fmt: skip
        made.text(edge + 18, y, shortened(words, _GUTTER), va="center", kind="ceiling")


def memory(
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


def tracks(axes: Axes, frame: Frame, scene: Scene) -> None:
    """Where a kernel of known bandwidth but unknown operations must lie: somewhere on a line."""
    placed = {d.kernel for d in scene.dots if d.drawn}
    known = [d for d in scene.dots if d.kernel not in placed and d.performance is None and d.bandwidth]
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


def sweeps(axes: Axes, frame: Frame, scene: Scene) -> None:
    """The roofs that were measured: a cross for each intensity, joined; what lies outside of the axes is left out."""
    for i, line in enumerate(scene.sweeps):
        inside = [(x, y) for x, y in line if frame.x0 <= x <= frame.x1 and frame.y0 <= y <= frame.y1]
        if inside:
            axes.plot(
                [x for x, _ in inside], [y for _, y in inside], color=FAINT, linewidth=0.9, linestyle="solid",
                marker="x", markersize=4, zorder=1.5, gid=f"sweep-{i}",
            )  # fmt: skip


def mark(index: int) -> str:
    """The letter of a footnote."""
    return chr(ord("a") + index)


def _note(origin: str, origins: list[str]) -> str:
    return f" [{mark(origins.index(origin))}]" if len(origins) > 1 else ""
