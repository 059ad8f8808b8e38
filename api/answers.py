"""The answers of tools as objects: tables as DataFrames, other fields as they are, and a view for notebooks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import pydantic

from ..analysis.base.problems import BadArgument, near
from ..tools.base.results import Result, Table
from .display import Chart, Drawing, View, of_any, of_records, value_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

R = TypeVar("R", bound=Result)

OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "CompareResult": {"changed": "metrics", "launches": "launch", "summary": "answer"},
    "DiagnosisResult": {
        "verdicts": "kernels",
        "findings": "kernels.findings",
        "evidence": "kernels.findings.evidence",
        "contradicting": "kernels.findings.contradicting",
        "changes": "kernels.changes",
        "loads": "kernels.units",
        "next_counters": "kernels.next_counters",
    },
    "HotspotsResult": {"rows": "hotspots"},
    "PlanResult": {"script": "script"},
    "RooflineResult": {"limits": "pipes"},
    "TimelineResult": {"verdict": "verdict.height"},
}
"""Result -> further names of its answer -> the field that each of them means, or the path to it."""
_IDENTITY = ("number", "kernel", "subsystem")
"""Fields of a record that also identify the records below it."""
_NOT_SHOWN = frozenset(("workload", "name", "notes", "next"))
_TABLES = 4
"""The maximum number of tables that a notebook displays."""
_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


class Answer(Chart, Generic[R]):
    """The answer of a tool, whose fields are attributes: tables are DataFrames, all other values are as they are.

    Records are also tables: lists of texts within them are joined by "; ", and lists of further records are tables of
    their own, such as ``df("kernels.findings.evidence")`` of a diagnosis. Units are in ``attrs["units"]`` of a table.
    ``dir()`` lists the names, and ``result`` is the complete result of the tool. An unknown name raises AttributeError.
    """

    def __init__(
        self, result: R, title: str, drawing: Drawing | None = None, on_axes: Callable[[Axes], None] | None = None
    ) -> None:
        super().__init__(title, drawing)
        self.result, self._on_axes = result, on_axes

    def __getattr__(self, name: str) -> Any:
        # This is called only for what is not found otherwise, and during unpickling before there is a result.
        if name.startswith("_") or name == "result":
            raise AttributeError(name)
        if name not in self._names():
            known = ", ".join(self._names())
            raise AttributeError(f"The answer has no {name!r}. It has: {known}. {near(name, self._names())}".strip())
        value = self.__dict__[name] = self._value(name)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names()})

    def df(self, name: str) -> pd.DataFrame:
        """A table by its name, or records below records by a path. Raises BadArgument if there is no such table."""
        import pandas as pd

        first = name.partition(".")[0]
        found = self._value(name) if first in self._names() else None
        if not isinstance(found, pd.DataFrame):
            tables = [known for known in self._names() if isinstance(getattr(self, known), pd.DataFrame)]
            raise BadArgument(f"The answer has no table {name!r}", near(name, tables), f"Tables: {', '.join(tables)}")
        return found

    @property
    def text(self) -> str:
        """The title and the facts, one per line."""
        return self._view().text()

    @property
    def json(self) -> str:
        """The complete result of the tool as JSON."""
        return self.result.model_dump_json()

    def plot(self, ax: Axes | None = None) -> Figure:
        """A new matplotlib figure to show, change and save; a roofline can also be drawn on ``ax``.

        Raises Problem if there is nothing to draw, or if the picture cannot be drawn on other axes.
        """
        if ax is None:
            return super().plot()
        if self._on_axes is None:
            raise BadArgument("This picture cannot be drawn on other axes", fix="Call plot() without ax")
        self._on_axes(ax)
        figure: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
        return figure

    def _names(self) -> list[str]:
        """The names of its fields, and the further names."""
        kind = type(self.result)
        return list(dict.fromkeys([*kind.model_fields, *OTHER_NAMES.get(kind.__name__, ())]))

    def _value(self, name: str) -> Any:
        """The value of a name or path; tables and lists of records are DataFrames."""
        kind = type(self.result)
        first, *rest = OTHER_NAMES.get(kind.__name__, {}).get(name, name).split(".")
        annotation = kind.model_fields[first].annotation if first in kind.model_fields else None
        value = getattr(self.result, first)
        if Table in (annotation, *get_args(annotation)):
            return of_any(value)
        if _lists_records(annotation):
            return of_records(list(_rows({}, value, rest)))
        for part in rest:
            value = getattr(value, part)
        return value

    def _view(self) -> View:
        hidden = {*_NOT_SHOWN, *OTHER_NAMES.get(type(self.result).__name__, {}).values()}
        values = {name: getattr(self, name) for name in self._names() if name not in hidden}
        facts = {name.replace("_", " "): _fact_text(value) for name, value in values.items()}
        tables = {name: value for name, value in values.items() if hasattr(value, "columns") and len(value)}
        return View(self._title, facts, dict(list(tables.items())[:_TABLES]), notes=self.result.notes)


def _fact_text(value: Any) -> str:
    """A value in a line; nothing for a table and for other values with several parts."""
    if isinstance(value, str | int | float):
        return value_text(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "; ".join(value)
    return ""


def _rows(above: Mapping[str, Any], value: Any, path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each record at the end of a path, with what identifies the records ``above`` it."""
    if isinstance(value, list | tuple):
        for record in value:
            yield from _rows(above, record, path)
    elif path:
        row = _flatten(value)
        known = {name: row[name] for name in _IDENTITY if hasattr(value, name)}
        yield from _rows({**above, **known}, getattr(value, path[0]), path[1:])
    elif value is not None:
        yield {**above, **_flatten(value)}


def _flatten(record: Any) -> dict[str, Any]:
    """The fields of a record, and of the records in it, as one row without lists of records."""
    row: dict[str, Any] = {}
    for name, annotation in _hints(type(record)).items():
        value = getattr(record, name)
        if _lists_records(annotation):
            continue
        if isinstance(value, list | tuple):
            row[name] = "; ".join(map(str, value)) or None
        elif not _is_record(type(value)):
            # The number of a kernel selects it only with this prefix; without it, it is a pattern.
            row[name] = f"#{value}" if name == "number" else value
        elif _has_text(type(value)):
            row[name] = str(value)
        else:
            row.update(_flatten(value))
    return row


def _lists_records(annotation: Any) -> bool:
    """Whether an annotation stands for a list of records that have no text of their own."""
    elements = get_args(annotation) if get_origin(annotation) in (list, tuple, Sequence) else ()
    return any(_is_record(element) and not _has_text(element) for element in elements)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, pydantic.BaseModel))


def _has_text(kind: type) -> bool:
    text: Any = kind.__str__
    return text not in (object.__str__, pydantic.BaseModel.__str__)
