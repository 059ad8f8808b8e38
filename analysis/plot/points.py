"""The points of a roofline: coloured by level, shaped by data type, sized by time, numbered by kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .place import around, clusters
from .scene import AXES_HEIGHT, AXES_WIDTH, LEFT, TOP, Frame, Scene
from .style import FAINT, INK, LEVELS, NORMAL, Page, ranges, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MARKERS = {"flop": "o", "iop": "s", "inst": "o", "f64": "^", "f32": "p", "f16": "v", "bf16": "<", "f8": ">",
           "xf32": "P", "f6f4": "*", "i8": "D", "i32": "h", "i64": "X"}  # fmt: skip
_LEAST = 5.5
_RINGS = (1.0, 0.7, 0.42, 0.2)


def points(made: Page, axes: Axes, frame: Frame, scene: Scene) -> list[tuple[float, float, float]]:
    """Marks sized by share of time, a thin line through those of one kernel, and numbers beside them.

    Marks of several levels in one place become rings, the level farthest from the core outermost.
    """
    from matplotlib.patheffects import withStroke

    shares = {k.number: k.share_pct for k in scene.kernels}
    drawn = [d for d in scene.dots if d.drawn and d.intensity and d.performance]
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
                [dot.intensity or 0], [dot.performance or 0], marker=marker(dot.datatype), linestyle="none",
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
    lines = [frame.y(r.value) for r in scene.roofs if r.unit != "GB/s"]
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


def marker(datatype: str) -> str:
    """The shape of a data type."""
    return MARKERS.get(datatype.split(".")[-1], "o")
