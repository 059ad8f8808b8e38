"""Common parts of all pictures: colours, safe and measured text, and deterministic PNG and SVG output."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from ..base.text import inert

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Transform


WIDTH = 800
"""The layout width in pixels; wider pictures have the same layout at a higher resolution."""
INK, FAINT, GRID = "#222222", "#5f5f5f", "#dddddd"
LEVELS = {
    "hbm": "#0072B2", "infinity_cache": "#56B4E9", "l2": "#009E73", "gl1": "#F0E442", "vl1d": "#E69F00",
    "lds": "#CC79A7",
}  # fmt: skip
"""One colour per memory level in all pictures (Okabe and Ito 2008, distinguishable with any colour vision)."""
NAMES = {"hbm": "HBM", "infinity_cache": "Infinity Cache", "l2": "L2", "gl1": "GL1", "vl1d": "vL1D", "lds": "LDS"}
OTHER, MARKED = "#8C96A3", "#D55E00"
BEFORE, AFTER = "#C4C4C4", "#44546A"
SMALL, NORMAL, TITLE = 8.0, 9.0, 12.0
DPI = 100
_RC: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": NORMAL,
    "text.parse_math": False,
    "svg.hashsalt": "rooflens",
    "svg.fonttype": "path",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.formatter.use_mathtext": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.axisbelow": True,
}
_LOCK = threading.Lock()


@dataclass
class Picture:
    """A finished picture in both formats, and the same facts in words."""

    png: bytes
    svg: bytes
    facts: list[str]
    figure: Figure
    labels: dict[str, list[Text]] = field(default_factory=dict)
    """The texts by type (ceiling, kernel, point), so that tests can check their positions."""


@dataclass
class Page:
    """A figure of fixed width whose parts are placed in pixels from its upper left corner."""

    figure: Figure
    height: float
    facts: list[str] = field(default_factory=list)
    labels: dict[str, list[Text]] = field(default_factory=dict)

    def axes(self, left: float, top: float, width: float, height: float, **kwargs: Any) -> Axes:
        """Axes in a box given in pixels."""
        low = 1 - (top + height) / self.height
        axes: Axes = self.figure.add_axes((left / WIDTH, low, width / WIDTH, height / self.height), **kwargs)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.tick_params(labelsize=SMALL)
        return axes

    def text(self, x: float, y: float, words: str, *, kind: str = "text", **kwargs: Any) -> Text:
        """Add text with its upper left corner at (x, y), unless ``ha`` and ``va`` say otherwise."""
        made = self.figure.text(
            x / WIDTH, 1 - y / self.height, clean(words), **{"ha": "left", "va": "top", "fontsize": SMALL, **kwargs}
        )
        self.labels.setdefault(kind, []).append(made)
        return made

    def lines(self, x: float, y: float, sentences: Sequence[str], width: float, **kwargs: Any) -> float:
        """Add sentences below each other, wrapped to ``width``; returns the y position after them."""
        for line in wrap_lines(sentences, width, kwargs.get("fontsize", SMALL)):
            self.text(x, y, line, **kwargs)
            y += LINE
        return y

    def pixels(self) -> Transform:
        """The transform for layout pixels from the upper left corner, at any resolution."""
        from matplotlib.transforms import Affine2D

        return Affine2D().scale(1 / WIDTH, -1 / self.height).translate(0, 1) + self.figure.transFigure


LINE = 15.0
"""The line height of small text in pixels."""


def render(draw: Callable[[], Page], width_px: int = WIDTH) -> Picture:
    """Draw a page and save it as PNG and SVG; the same input gives the same bytes."""
    with _drawing():
        page = draw()
        png, svg = io.BytesIO(), io.BytesIO()
        page.figure.savefig(png, format="png", dpi=DPI * width_px / WIDTH, metadata={"Software": None})
        page.figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(png.getvalue(), svg.getvalue(), page.facts, page.figure, page.labels)


def page(height: float) -> Page:
    """An empty page; use only within ``render``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return Page(figure, height)


@contextmanager
def _drawing() -> Iterator[None]:
    """Use matplotlib's defaults with our settings, ignoring the user's; one thread at a time, as settings are
    global."""
    import matplotlib

    with _LOCK, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def clean(words: str) -> str:
    """Text from a profile as shown in answers, on one line and without characters that cannot be drawn."""
    glyphs = _glyphs()
    kept = (" " if c.isspace() else c for c in inert(words))
    return "".join(c if ord(c) in glyphs else "?" for c in kept)


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(_font().get_charmap())


def _font(bold: bool = False) -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))


def width_of(words: str, size: float = SMALL, bold: bool = False) -> float:
    """The width of a line of text in pixels of the layout."""
    font = _font(bold)
    font.set_size(size, DPI)
    font.set_text(clean(words), 0.0)
    return float(font.get_width_height()[0]) / 64


def shorten_name(name: str, width: float, size: float = SMALL, bold: bool = False) -> str:
    """A name with its middle omitted if it is wider than ``width`` pixels."""
    name = clean(name)
    if width_of(name, size, bold) <= width:
        return name
    low, high = 2, min(len(name), 400)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if width_of(_without_middle(name, middle), size, bold) <= width else (low, middle)
    return _without_middle(name, low)


def kernel_name(name: str, brief: str, width: float) -> str:
    """A kernel's name if it fits into ``width`` pixels, or else its short name ``brief``."""
    return name if width_of(clean(name)) <= width else shorten_name(brief, width)


def _without_middle(name: str, keep: int) -> str:
    head = -(-2 * keep // 3)
    return f"{name[:head]}…{name[len(name) - (keep - head) :] if keep > head else ''}"


def wrap_lines(sentences: Sequence[str], width: float, size: float = SMALL) -> list[str]:
    """Sentences wrapped into lines of at most ``width`` pixels."""
    lines: list[str] = []
    for sentence in sentences:
        line = ""
        for word in sentence.split():
            word = shorten_name(word, width, size)
            longer = f"{line} {word}".strip()
            if line and width_of(longer, size) > width:
                lines.append(line)
                line = word
            else:
                line = longer
        lines.append(line)
    return lines


def ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 5 as 1-3, 5."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def number(value: float) -> str:
    """A figure with three significant digits and thousands separated."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        digits = len(str(int(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def decade(value: float) -> str:
    """The label of a tick on a logarithmic axis."""
    power = round(math.log10(value))
    if -3 <= power <= 3:
        return f"{value:,.0f}" if power >= 0 else f"{value:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def si(value: float, unit: str) -> str:
    """A rate in G-units with a prefix that keeps it short: 1638.4 GB/s is 1.64 TB/s."""
    if unit.startswith("G") and abs(value) >= 1000:
        if abs(value) >= 1e6:
            return f"{value / 1e6:.3g} P{unit[1:]}"
        return f"{value / 1e3:.3g} T{unit[1:]}" if unit != "GIPS" else f"{number(value)} {unit}"
    return f"{value:.3g} {unit}"


Box = tuple[float, float, float, float]
_NEAR = 7.0
_TALL = 12.0
_TURNS = (90, 45, 135, 0, 180, -45, -135, -90)


def clusters(marks: Sequence[tuple[float, float, float]]) -> list[tuple[float, float, float, list[int]]]:
    """Marks (x, y, radius) within a few pixels of each other merged into one: its position, radius and members."""
    left = list(range(len(marks)))
    groups = []
    while left:
        x, y, _ = marks[left[0]]
        members = [i for i in left if math.hypot(marks[i][0] - x, marks[i][1] - y) <= _NEAR]
        left = [i for i in left if i not in members]
        groups.append((x, y, max(marks[i][2] for i in members), members))
    return groups


def around(
    labels: Sequence[tuple[float, float, float, str]],
    marks: Sequence[tuple[float, float, float]],
    lines: Sequence[float],
    inside: Box,
) -> list[tuple[float, float, bool]]:
    """The centre of each label (x, y, radius of its mark, words), and whether it needs a line to its mark.

    In order, each label gets the nearest place around its mark that is free of marks, numbers and level lines, or else
    the place that covers least.
    """
    obstacles: list[Box] = [(x - r, y - r, x + r, y + r) for x, y, r in marks]
    obstacles += [(inside[0], y - 1, inside[2], y + 1) for y in lines]
    positions = []
    for x, y, radius, words in labels:
        wide = width_of(words, NORMAL, bold=True) + 2
        best: tuple[float, float, float, bool] | None = None
        for step in range(12):
            for turn in _TURNS:
                reach = radius + 2 + 6 * step
                cx = x + math.cos(math.radians(turn)) * (reach + wide / 2)
                cy = y - math.sin(math.radians(turn)) * (reach + _TALL / 2)
                box = (cx - wide / 2, cy - _TALL / 2, cx + wide / 2, cy + _TALL / 2)
                if box[0] < inside[0] or box[1] < inside[1] or box[2] > inside[2] or box[3] > inside[3]:
                    continue
                covered = sum(_overlap(box, other) for other in obstacles)
                if best is None or covered < best[0]:
                    best = (covered, cx, cy, step > 1)
            if best is not None and best[0] == 0:
                break
        covered, cx, cy, far = best or (0.0, x, y - radius - _TALL, False)
        obstacles.append((cx - wide / 2, cy - _TALL / 2, cx + wide / 2, cy + _TALL / 2))
        positions.append((cx, cy, far))
    return positions


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least ``gap`` apart between ``low`` and ``high``, as close to ``wanted`` as possible."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[tuple[float, int]] = []
    for rank, i in enumerate(order):
        mean, n = wanted[i] - rank * gap, 1
        while pools and pools[-1][0] >= mean:
            before, m = pools.pop()
            mean, n = (before * m + mean * n) / (m + n), m + n
        pools.append((mean, n))
    flat = [mean for mean, n in pools for _ in range(n)]
    top = max(low, high - (len(wanted) - 1) * gap)
    offsets = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        offsets[i] = min(max(flat[rank], low), top) + rank * gap
    return offsets
