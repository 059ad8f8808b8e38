"""The roofline of a workload as an object: points and ceilings as DataFrames, and the picture."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from ..tools.compute_roofline import RooflineResult
from .answers import Answer
from .display import Drawing, Pictured, View, of_any, some, value_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Roofline(Pictured, Answer[RooflineResult]):
    """The position of kernels relative to the ceilings of their device."""

    def __init__(self, result: RooflineResult, drawing: Drawing, on_axes: Callable[[Axes], None]) -> None:
        Pictured.__init__(self, drawing)
        Answer.__init__(self, result)
        self._on_axes = on_axes

    @cached_property
    def points(self) -> pd.DataFrame:
        """A row per kernel (or launch, dispatch), memory level and data type: intensity, performance, attainable."""
        return of_any(self.result.points)

    @cached_property
    def ceilings(self) -> pd.DataFrame:
        """The ceilings with their ridge points, interval, percentage of the theoretical value, and origin."""
        return of_any(self.result.ceilings)

    @cached_property
    def limits(self) -> pd.DataFrame:
        """A row per kernel: the minimum time for each pipe and memory level, the bound, and the reason."""
        return of_any(self.result.pipes)

    @cached_property
    def operations(self) -> pd.DataFrame:
        """The work of each kernel by pipe and data type; empty for an instruction roofline."""
        return of_any(self.result.operations)

    @cached_property
    def walls(self) -> pd.DataFrame:
        """For an instruction roofline: the position of accesses between its memory and bank-conflict walls."""
        return of_any(self.result.walls)

    @cached_property
    def sweep(self) -> pd.DataFrame:
        """The measured rates of the device at intermediate intensities, if there are any."""
        return of_any(self.result.sweep)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the picture of the tool plot as a new figure, or its lines and points on ``ax``; return the figure."""
        if ax is None:
            return super().plot()
        self._on_axes(ax)
        figure: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
        return figure

    def _view(self) -> View:
        result = self.result
        facts = {"device": f"{result.device}, {result.ceiling_source} ceilings"}
        for row in self.limits.head(3).to_dict("records"):
            limiter = value_text(row["limiter"])
            facts[f"#{row['rank']}"] = f"{row['bound']}{f' ({limiter})' if limiter else ''}"
        return View(f"Roofline of {result.name}", facts, notes=self.notes)

    def _repr_html_(self) -> str:
        view = self._view()
        drawable = any(math.isfinite(v) for v in self.points["performance"]) if len(self.points) else False
        shown = ["kernel", "level", "intensity", "performance", "unit", "pct_of_attainable", "status"]
        points = {} if drawable else {"points": some(self.points, *shown)}
        return View(view.title, view.facts, points, self.png if drawable else None, view.notes).html()
