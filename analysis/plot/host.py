"""Draw the stacks of the host as icicles: callers above what they call, as wide as their share of the time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .host_content import HostPicture, Icicle
from .style import MARGIN, NORMAL, SMALL, WIDTH, page, shorten_name

_FILES = ("#9CC7E8", "#F6C28B", "#9FD8B5", "#CDBDF2", "#F2AFA4", "#A3DBE0", "#D9C3A0", "#F0B6D6")
"""The colours of files, light enough for dark words."""
_LIBRARY = "#DFE3E8"
_ROW, _TITLE, _LABEL = 18, 26, 24
"""Pixels: the height of a row and of a title, and the width of a box that has a label."""


def draw(shown: HostPicture) -> Figure:
    """Draw the picture as a page."""
    rows = [1 + max((box.row for box in icicle.boxes), default=0) for icicle in shown.icicles]
    heights = [_ROW * count for count in rows]
    key = "Colours: files of the program's own code; grey: libraries."
    figure = page([shown.title], sum(heights) + _TITLE * len(heights), [key], shown.table)
    # The files with most time have the first colours.
    files = [*dict.fromkeys(box.file for icicle in reversed(shown.icicles) for box in icicle.boxes)]
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    for axes, icicle, count in zip(panels, shown.icicles, rows, strict=True):
        axes.set(xlim=(0, 1), ylim=(count - 0.5, -0.5), xticks=[], yticks=[])
        axes.axis("off")
        axes.set_title(icicle.title, loc="left", fontsize=NORMAL)
        _boxes(axes, icicle, files)
    return figure


def _boxes(axes: Axes, icicle: Icicle, files: Sequence[str | None]) -> None:
    pixels = WIDTH - 2 * MARGIN
    for box in icicle.boxes:
        colour = _LIBRARY if box.file is None else _FILES[files.index(box.file) % len(_FILES)]
        axes.barh(box.row, box.width, 0.94, box.left, color=colour, edgecolor="white", linewidth=0.5, gid="call")
        if box.width * pixels > _LABEL:
            words = shorten_name(box.name, box.width * pixels - 6)
            axes.text(box.left + 3 / pixels, box.row, words, va="center", fontsize=SMALL)
