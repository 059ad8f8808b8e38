"""The roofline as a picture: bandwidth and compute ceilings, and a numbered point per kernel and memory level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import points, roofs
from .scene import AXES_HEIGHT, AXES_WIDTH, LEFT, TOP, Dot, Frame, Kernel, Roof, Scene, limits
from .style import (
    FAINT,
    GRID,
    INK,
    LEVELS,
    LINE,
    NAMES,
    SMALL,
    TITLE,
    WIDTH,
    Page,
    decade,
    number,
    page,
    shortened,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Dot", "Kernel", "Roof", "Scene", "draw"]


def draw(scene: Scene) -> Page:
    """The picture of a scene."""
    origins = list(dict.fromkeys(r.origin for r in scene.roofs))
    sources = [f"{f'[{roofs.mark(i)}] ' if len(origins) > 1 else ''}{origin}" for i, origin in enumerate(origins)]
    below = wrapped([*scene.statements, *(["Ceilings: " + "; ".join(sources)] if sources else [])], WIDTH - 40)
    table = LINE * (len(scene.kernels) + 1) + 18 if scene.kernels else 0
    made = page(TOP + AXES_HEIGHT + 58 + table + LINE * len(below) + 8)
    made.text(
        LEFT,
        12,
        shortened(scene.title, WIDTH - LEFT - 20, TITLE, bold=True),
        fontsize=TITLE,
        weight="bold",
        kind="title",
    )
    made.text(LEFT, 34, shortened(scene.device, WIDTH - LEFT - 20), color=FAINT, kind="title")
    bandwidths = sorted((r for r in scene.roofs if r.unit == "GB/s"), key=lambda r: -r.value)
    peaks = sorted((r for r in scene.roofs if r.unit != "GB/s"), key=lambda r: -r.value)
    frame = limits(scene, bandwidths, peaks)
    axes = _axes(made, frame, scene)
    kinds = list(dict.fromkeys(d.datatype for d in scene.dots if d.drawn))
    shapes = kinds if len(kinds) > 1 else []
    roofs.compute(made, axes, frame, bandwidths, peaks, origins, len(shapes))
    marks = points.points(made, axes, frame, scene)
    roofs.tracks(axes, frame, scene)
    roofs.sweeps(axes, frame, scene)
    roofs.memory(made, axes, frame, bandwidths, peaks, marks, origins)
    _legend(axes, scene, shapes)
    y = _kernels(made, scene, TOP + AXES_HEIGHT + 58)
    made.lines(20, y + 10, below, WIDTH, color=FAINT, kind="statement")
    return made


def _axes(made: Page, frame: Frame, scene: Scene) -> Axes:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes = made.axes(LEFT, TOP, AXES_WIDTH, AXES_HEIGHT)
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
    axes.set_xlabel(f"Intensity ({scene.intensity_unit})")
    axes.set_ylabel(f"Performance ({scene.unit})")
    axes.yaxis.set_label_coords(-48 / AXES_WIDTH, 0.5)
    return axes


def _legend(axes: Axes, scene: Scene, shapes: list[str]) -> None:
    """Colours of levels in a row above the axes, shapes of data types at the lower right of them."""
    from matplotlib.lines import Line2D

    present = {d.level for d in scene.dots if d.drawn or (d.performance is None and (d.bandwidth or 0) > 0)} | {
        r.name.removesuffix(".bw") for r in scene.roofs if r.unit == "GB/s"
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
        marks = [Line2D([], [], color=INK, marker=points.marker(k), linestyle="none", label=k) for k in shapes]
        axes.legend(handles=marks, loc="lower left", bbox_to_anchor=(1.02, -0.02), labelspacing=0.35, **common)


def _kernels(made: Page, scene: Scene, y: float) -> float:
    """The list of kernels by number, if there are any; returns where it ends."""
    if not scene.kernels:
        return y - LINE
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
