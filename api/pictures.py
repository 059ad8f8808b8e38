"""The pictures of answers, drawn from the workloads that the answers are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..analysis.base.text import shorten
from ..analysis.catalogue.work_formulas import LEVELS
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from ..tools import plot
from ..tools.compare_workloads import CompareResult
from .calls import Asked, changing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..analysis.plot.style import Picture

WIDTH_PX = 800
_SUMMARY = 300
"""The maximum number of characters of the summary in the picture of a comparison."""


def one(draw: Callable[..., plot.Drawing]) -> Callable[[Store, Any, Asked], Picture]:
    """A function that draws a workload or its selected kernels with ``draw``."""

    def picture(store: Store, _: Any, asked: Asked) -> Picture:
        kernel = [asked["kernel"]] if "kernel" in asked else []
        with changing(store), Workload.open(store, asked["workload"], *kernel) as opened:
            return draw(opened, *kernel).picture(WIDTH_PX)

    return picture


def roofline(store: Store, _: Any, asked: Asked, axes: Axes | None = None) -> Picture | None:
    """The roofline of an answer; it is drawn on ``axes`` if they are given."""
    from ..analysis.plot.roofline import draw_on

    kernel, by = asked["kernel"], asked["by"]
    options = plot.RooflineOptions(
        asked["kind"],
        asked["datatype"],
        asked["ceiling_source"],
        asked["ceilings"],
        levels=asked["levels"] or LEVELS,
        dispatches=asked["dispatches"],
        each="dispatch" if by == "dispatch" else "kernel",
    )
    unit: Any = "launch" if by == "launch" else "kernel"
    with changing(store), Workload.open(store, asked["workload"], kernel, unit) as opened:
        drawing = plot.roofline_drawing(opened, kernel, options)
        if axes is None:
            return drawing.picture(WIDTH_PX)
        draw_on(axes, drawing.content)
        return None


def comparison(store: Store, result: CompareResult, asked: Asked) -> Picture:
    """The baseline and the first candidate side by side, with what the comparison found about these two."""
    from ..analysis.plot.bars import ComparedWork

    kernel, by = asked["kernel"], asked["by"]
    verdict: Any = {"verdict": result.verdict, "same_work": result.same_work}
    if len(result.candidates) > 1:
        verdict = result.kernels.records()[1]
    text = f"Verdict: {verdict['verdict']}. Same work: {verdict['same_work']}. {shorten(result.answer or '', _SUMMARY)}"
    with (
        changing(store),
        Workload.open(store, result.baseline, kernel, by) as before,
        Workload.open(store, result.candidates[0], kernel, by) as after,
    ):
        outcome = ComparedWork(text, verdict["same_work"])
        return plot.comparison_drawing(before, after, kernel, outcome).picture(WIDTH_PX)
