"""Common parts of all pictures: colours, safe and measured text, and deterministic PNG and SVG output."""

from __future__ import annotations

import io
import math
import re
import textwrap
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..base.text import inert

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


_CLIP = re.compile(rb"\bp[0-9a-f]{10}\b")


@dataclass(frozen=True)
class Picture:
    """A finished picture in both formats."""

    png: bytes
    svg: bytes
    figure: Figure


LINE, MARGIN = 15.0, 20.0
"""Pixels: the line height of small text, and the free space on the left and on the right."""
_LETTERS = 120
"""The number of letters in a line of the statements below a picture."""


def render(draw: Callable[[], Figure], width_px: int = WIDTH) -> Picture:
    """Draw a figure and save it as PNG and SVG; the same input gives the same bytes."""
    import matplotlib

    # The user's settings are ignored; one thread at a time, as settings are global.
    with _LOCK, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        figure = draw()
        settle(figure)
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", dpi=DPI * width_px / WIDTH, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(png.getvalue(), _with_numbered_clips(svg.getvalue()), figure)


def _with_numbered_clips(svg: bytes) -> bytes:
    """Return an SVG whose clip paths are numbered, so that the same picture has the same bytes.

    matplotlib names them after their edges, whose last digits depend on the order in which a layout was solved.
    """
    numbers: dict[bytes, bytes] = {}
    return _CLIP.sub(lambda found: numbers.setdefault(found[0], b"clip%d" % len(numbers)), svg)


def page(heading: Sequence[str], body: float, statements: Sequence[str], table: Sequence[Sequence[str]] = ()) -> Figure:
    """A figure with a title and other headings, ``body`` pixels for axes, a table and statements below them.

    Its axes are laid out when they are complete. Use only within ``render``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    short = (" ".join(shorten_name(word, WIDTH / 2) for word in statement.split()) for statement in statements)
    lines = [line for statement in short for line in textwrap.wrap(statement, _LETTERS)]
    head, foot = 16 + 18 * len(heading), LINE * (len(lines) + len(table)) + 20
    height = head + body + foot
    edge = MARGIN / WIDTH
    region = (edge, foot / height, 1 - 2 * edge, body / height)
    layout = ConstrainedLayoutEngine(h_pad=0.03, w_pad=0, hspace=0, wspace=0.02, rect=region)
    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    for i, words in enumerate(heading):
        size = NORMAL if i else TITLE
        shown = shorten_name(words, WIDTH - 2 * MARGIN, size, bold=not i)
        figure.text(edge, 1 - (12 + 20 * i) / height, shown, va="top", fontsize=size, weight="normal" if i else "bold")
    if table:
        tall = LINE * len(table)
        _table(figure.add_axes((edge, (foot - 10 - tall) / height, 1 - 2 * edge, tall / height)), table)
    figure.text(
        edge,
        8 / height,
        "\n".join(clean(line) for line in lines),
        va="bottom",
        color=FAINT,
        fontsize=SMALL,
        linespacing=1.25,
    )
    return figure


def _table(axes: Axes, rows: Sequence[Sequence[str]]) -> None:
    """Fill axes with a table whose first row is its head, and whose columns are as wide as their longest text."""
    from matplotlib.transforms import Bbox

    axes.axis("off")
    columns = zip(*rows, strict=True)
    wide = [max(width_of(cell, bold=cell == column[0]) for cell in column) + 16 for column in columns]
    table = axes.table(
        [[clean(cell) for cell in row] for row in rows], cellLoc="left", edges="open",
        colWidths=wide, bbox=Bbox.from_extents(0, 0, sum(wide) / (WIDTH - 2 * MARGIN), 1),
    )  # fmt: skip
    table.auto_set_font_size(False)
    table.set_fontsize(SMALL)
    for (row, _), cell in table.get_celld().items():
        cell.PAD = 0
        cell.set_text_props(weight="normal" if row else "bold")


def settle(figure: Figure) -> None:
    """Lay the axes of a figure out for good, so that labels can be placed between them."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def plain(axes: Axes) -> None:
    """Axes without a frame at the top and on the right, with small labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL)


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
