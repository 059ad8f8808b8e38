"""How the tests look at pictures: decode them, compare them with stored ones, and find texts that collide."""

from __future__ import annotations

import io
import itertools
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from rooflens.analysis.plot.style import Picture
from rooflens.tests import DATA

STORED = DATA / "plots"
_BLOCK = 20


def grey(png: bytes) -> Any:
    """A picture as an array of grey levels."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("L"), dtype=float)


def difference(png: bytes, stored: str) -> tuple[float, float]:
    """Mean difference of grey levels to a stored picture: over all of it, and over the square that differs most.

    Both are halved in size first, so that another hinting of the same letters counts little.
    """
    one, other = (_half(a) for a in (grey(png), grey((STORED / stored).read_bytes())))
    assert one.shape == other.shape, f"{stored}: {one.shape} now, {other.shape} stored"
    apart = np.abs(one - other)
    rows, columns = (n // _BLOCK * _BLOCK for n in apart.shape)
    squares = apart[:rows, :columns].reshape(rows // _BLOCK, _BLOCK, columns // _BLOCK, _BLOCK).mean(axis=(1, 3))
    return float(apart.mean()), float(squares.max())


@lru_cache(maxsize=1)
def texts(picture: Picture) -> list[tuple[str, Any]]:
    """Every visible text of a figure with its box in pixels, those of axes and legends included."""
    import matplotlib.text

    figure: Any = picture.figure
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    unused = _unused_ticks(figure)
    found = figure.findobj(matplotlib.text.Text)
    shown = [t for t in found if t.get_visible() and t.get_text().strip() and t not in unused]
    return [(t.get_text(), t.get_window_extent(renderer)) for t in shown]


def outside(picture: Picture) -> list[str]:
    """Texts that leave the figure."""
    box = picture.figure.bbox
    return [
        words for words, b in texts(picture) if b.x0 < box.x0 or b.y0 < box.y0 or b.x1 > box.x1 or b.y1 > box.y1
    ]  # fmt: skip


def collisions(picture: Picture) -> list[tuple[str, str]]:
    """Pairs of texts that cover each other."""
    boxes = [(words, np.array(box.corners())[[0, 1, 3, 2]]) for words, box in texts(picture)]
    return [(a, b) for (a, one), (b, other) in itertools.combinations(boxes, 2) if _overlap(one, other)]


def _overlap(one: Any, other: Any) -> bool:
    """Whether two turned boxes share more than half a pixel: no side of either separates them."""
    for box in (one, other):
        for a, b in zip(box, np.roll(box, -1, axis=0), strict=True):
            axis = np.array([a[1] - b[1], b[0] - a[0]]) / max(np.hypot(*(b - a)), 1e-9)
            mine, its = one @ axis, other @ axis
            if min(mine.max(), its.max()) - max(mine.min(), its.min()) < 0.5:
                return False
    return True


def _unused_ticks(figure: Any) -> set[Any]:
    """Labels of ticks beyond the limits of their axes, which are not drawn."""
    unused = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:
                unused |= {tick.label1, tick.label2}
    return unused


def _half(levels: Any) -> Any:
    rows, columns = (n // 2 * 2 for n in levels.shape)
    return levels[:rows, :columns].reshape(rows // 2, 2, columns // 2, 2).mean(axis=(1, 3))
