"""Pictures of objects: the same as those of the tool plot, as matplotlib figures and as PNG."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ..analysis.base.problems import Problem
from .display import DisplayedObject, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..tools.plot import Drawn

Drawing = Callable[[], "Drawn"]
WIDTH_PX = 800


class Pictured(DisplayedObject):
    """An object with a picture, which is drawn when it is first asked for."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing

    @cached_property
    def _cached_drawing(self) -> Drawn:
        return self._drawing()

    def plot(self) -> Figure:
        """A new matplotlib figure, for showing, changing and saving. Raises Problem where nothing can be drawn."""
        _shown_by_notebooks()
        return self._drawing().picture.figure

    @property
    def png(self) -> bytes:
        """The picture as PNG."""
        return self._cached_drawing.picture.png

    @property
    def svg(self) -> bytes:
        """The picture as SVG."""
        return self._cached_drawing.picture.svg

    def _repr_png_(self) -> bytes | None:
        try:
            return self.png
        except Problem:
            return None


class Chart(Pictured):
    """A picture on its own, with its facts in words."""

    def __init__(self, title: str, drawing: Drawing) -> None:
        super().__init__(drawing)
        self._title = title

    @property
    def facts(self) -> list[str]:
        """What the picture shows, in words."""
        return list(self._cached_drawing.facts)

    def _view(self) -> View:
        try:
            return View(self._title, picture=self.png)
        except Problem as problem:
            return View(self._title, {"no picture": problem.text})

    def __repr__(self) -> str:
        return View(self._title).text()


def _shown_by_notebooks() -> None:
    """A notebook shows figures once pyplot has been imported; ours are made without it."""
    if "IPython" in sys.modules:
        import matplotlib.pyplot  # noqa: F401
