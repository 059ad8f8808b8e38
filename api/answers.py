"""The answers of tools as objects: the text, tables as DataFrames, a picture, and what a notebook displays."""

from __future__ import annotations

import dataclasses
import html
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_type_hints

import pydantic

from ..analysis.base.problems import BadArgument, Problem, near
from ..analysis.base.text import visible_lines
from ..tools.base.results import NextCall, Result, Table
from ..tools.compute_roofline import RooflineResult
from ..tools.rendering import render
from . import frames

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..analysis.plot.style import Picture

R = TypeVar("R", bound=Result)
_IDENTITY = ("number", "kernel", "subsystem")
"""Fields of a record that also identify the records below it."""
_ROWS, _TABLES, _NOTES = 10, 4, 6
"""The maximum numbers of rows of a table, of tables and of notes that a notebook displays."""
_hints, _adapter = cache(get_type_hints), cache(pydantic.TypeAdapter[Any])


class Answer(Generic[R]):
    """The answer of a tool: ``text``, tables with ``df()``, single values as attributes, and possibly a picture.

    ``result`` is the complete result, and ``json`` is the same as JSON. An attribute of the answer is the field of the
    result with that name (``docs/reference/python.md`` lists them). A notebook displays the sentence that answers, the
    first tables, the picture and the notes.
    """

    def __init__(
        self,
        result: R,
        main: str = "table",
        draw: Callable[..., Picture] | None = None,
        rows: pd.DataFrame | None = None,
    ) -> None:
        self.result, self._main, self._draw, self._rows = result, main, draw, rows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self.result, name):
            raise AttributeError(f"The answer has no {name!r}. {near(name, dir(self))}".strip())
        if name in self.tables:
            raise AttributeError(f"{name} is a table: df({name!r})")
        return getattr(self.result, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *type(self.result).model_fields} - {*self.tables})

    @property
    def text(self) -> str:
        """The answer in words, as the command line prints it; long tables are truncated."""
        return render.text(self.result.model_copy(update={"next": []}))

    @property
    def json(self) -> str:
        """The complete result of the tool as JSON."""
        return self.result.model_dump_json(exclude=None if self._further_tables else {"tables"})

    @property
    def tables(self) -> list[str]:
        """The names of its tables; tables of records below records are paths, such as "kernels.findings"."""
        return [*tables_of(type(self.result)), *self._further_tables]

    @property
    def _further_tables(self) -> Mapping[str, Table]:
        """The tables that are declared to be shown in answers of the tool, by name."""
        return getattr(self.result, "tables", {})

    def df(self, name: str | None = None) -> pd.DataFrame:
        """A table by its name; without a name, the main one. Missing figures are NaN or NA; integers stay integers.

        ``attrs["units"]`` contains the units by column, and ``attrs["notes"]`` the notes of the answer. Records are
        also tables: lists of texts within them are joined by "; ", and lists of further records are tables of their
        own, such as ``df("kernels.findings.evidence")`` of a diagnosis. Raises BadArgument if there is no such table.
        """
        path = self._main if name is None else name
        if path not in self.tables:
            known = ", ".join(self.tables)
            raise BadArgument(f"The answer has no table {path!r}", near(path, self.tables), f"Tables: {known}")
        if self._rows is not None:
            return self._rows
        value: Any = self._further_tables.get(path, self.result)
        for part in path.split(".") if value is self.result else ():
            value = getattr(value, part, None)
        if isinstance(value, Table):
            return frames.of_table(value, self.result.notes)
        return frames.of_records(list(_rows({}, self.result, path.split("."))), self.result.notes)

    def plot(self, ax: Axes | None = None) -> Figure:
        """A new matplotlib figure to show, change and save; a roofline can also be drawn on ``ax``.

        Raises Problem if there is nothing to draw, or if the picture cannot be drawn on other axes.
        """
        if self._draw is None:
            raise BadArgument("This answer has no picture", fix="Ask for a roofline, an occupancy, or a timeline")
        if ax is None:
            return shown_figure(self._draw)
        if not isinstance(self.result, RooflineResult):
            raise BadArgument("This picture cannot be drawn on other axes", fix="Call plot() without ax")
        self._draw(ax)
        figure: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
        return figure

    @property
    def png(self) -> bytes | None:
        """The picture as PNG; None if there is nothing to draw."""
        return getattr(self._picture, "png", None)

    @property
    def svg(self) -> bytes | None:
        """The picture as SVG; None if there is nothing to draw."""
        return getattr(self._picture, "svg", None)

    @cached_property
    def _picture(self) -> Picture | Problem | None:
        """The picture, or why there is none; None for answers that have none."""
        try:
            return self._draw() if self._draw else None
        except Problem as problem:
            return problem

    def __repr__(self) -> str:
        return self.text

    def _repr_png_(self) -> bytes | None:
        return self.png

    def _repr_html_(self) -> str:
        parts = [_paragraph(self.result.answer or "")]
        if self.png:
            parts.append(f'<img style="max-width:100%" src="data:image/png;base64,{b64encode(self.png).decode()}">')
        elif isinstance(self._picture, Problem):
            parts.append(_paragraph(f"No picture: {self._picture.text}"))
        names = dict.fromkeys([self._main, *(name for name in self.tables if "." not in name)])
        filled = [(name, frame) for name in names if len(frame := self.df(name))]
        for name, frame in filled[:_TABLES]:
            shown = frame.dropna(axis="columns", how="all")
            parts += [_paragraph(name), shown.to_html(escape=True, max_rows=_ROWS, na_rep="", index=False)]
        parts += map(_paragraph, self.result.notes[:_NOTES])
        return visible_lines(f"<div>{''.join(parts)}</div>")


def shown_figure(draw: Callable[[], Picture]) -> Figure:
    """The figure of a picture. Notebooks display it only if pyplot was imported before it is drawn."""
    if "IPython" in sys.modules:
        import matplotlib.pyplot  # noqa: F401
    return draw().figure


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>" if text else ""


@cache
def tables_of(kind: type) -> list[str]:
    """The names of the tables of a result, and the paths to tables and lists of records in its records."""
    found = []
    for name, annotation in _hints(kind).items():
        if name == "tables":
            continue
        parts = (annotation, *get_args(annotation))
        records = [part for part in parts if _is_record(part) and part is not NextCall]
        if Table in parts or (_is_list(annotation) and records):
            found.append(name)
        found += [f"{name}.{below}" for part in records if part is not Table for below in tables_of(part)]
    return found


def _rows(above: Mapping[str, Any], value: Any, path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each record at the end of a path, with what identifies the records ``above`` it."""
    if isinstance(value, list | tuple):
        for record in value:
            yield from _rows(above, record, path)
    elif path:
        known = {name: getattr(value, name) for name in _IDENTITY if hasattr(value, name)}
        yield from _rows({**above, **known}, getattr(value, path[0]), path[1:])
    elif value is not None:
        kind: Any = type(value)
        yield _flat({**above, **_adapter(kind).dump_python(value)})


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record, and of the records in it, as one row without lists of records."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            row.update(_flat(value))
        elif not isinstance(value, list):
            # The number of a kernel selects it only with this prefix; without it, it is a pattern.
            row[name] = f"#{value}" if name == "number" else value
        elif not any(isinstance(part, dict) for part in value):
            row[name] = "; ".join(map(str, value)) or None
    return row


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) in (list, tuple, Sequence)


def _is_record(kind: Any) -> bool:
    """Whether values of a type are records, which have fields but no text of their own."""
    fields = isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, pydantic.BaseModel))
    return fields and kind.__str__ in (object.__str__, pydantic.BaseModel.__str__)
