"""How objects are displayed in a notebook: HTML without scripts, for light and dark themes, and plain text."""

from __future__ import annotations

import base64
import html
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..analysis.base.problems import BadArgument, Problem
from ..analysis.base.text import shorten, visible_lines
from ..tools.base.results import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..tools.plot import Drawn
    from ..tools.sql.unlimited_query import QueryRows


_ROWS = 10
_CELL, _TEXT = 160, 600
"""The maximum number of characters of a cell, and of a fact."""
_NOTES = 6
_LINE = "1px solid rgba(128,128,128,.45)"
_TABLE = "border-collapse:collapse;margin:.4em 0"
_HEAD = f"text-align:left;padding:.15em .6em;border-bottom:{_LINE};font-weight:600"
_DATA = "text-align:left;padding:.15em .6em;vertical-align:top"


@dataclass(frozen=True)
class View:
    """The content to display: a title, named facts, tables with titles, a picture, and notes."""

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    picture: bytes | None = None
    notes: Sequence[str] = ()

    def html(self) -> str:
        """The view as HTML without scripts and links: all text is escaped, colours are those of the page."""
        parts = [f'<div style="font-weight:600">{_escape_line(self.title, _TEXT)}</div>']
        parts += [
            f'<div><span style="opacity:.7">{_escape_line(name, _CELL)}:</span> {_escape_line(text, _TEXT)}</div>'
            for name, text in self.facts.items()
            if text
        ]
        if self.picture is not None:
            data = base64.b64encode(self.picture).decode()
            alt = html.escape(shorten(visible_lines(self.title), _TEXT), quote=True)
            parts.append(f'<img alt="{alt}" style="max-width:100%;background:#fff" src="data:image/png;base64,{data}">')
        parts += [_table(title, frame) for title, frame in self.tables.items() if len(frame)]
        if self.notes:
            items = "".join(f"<li>{_escape_line(note, _TEXT)}</li>" for note in self.notes[:_NOTES])
            more = len(self.notes) - _NOTES
            items += f"<li>and {more} more in .notes</li>" if more > 0 else ""
            parts.append(f'<ul style="opacity:.8;margin:.4em 0;padding-left:1.4em">{items}</ul>')
        return f'<div class="rooflens">{"".join(parts)}</div>'

    def text(self) -> str:
        """The view as text: the title and the facts, one per line."""
        lines = [visible_lines(self.title), *(f"  {name}: {text}" for name, text in self.facts.items() if text)]
        return "\n".join(shorten(" ".join(visible_lines(line).splitlines()), _TEXT) for line in lines)


def _table(title: str, frame: pd.DataFrame) -> str:
    """The first rows of a frame as an HTML table, without its empty columns."""
    units: Mapping[str, str] = frame.attrs.get("units", {})
    names = [name for name in frame.columns if not frame[name].isna().all()]
    headings = [f"{name} [{units[name]}]" if units.get(name) else str(name) for name in names]
    heads = "".join(f'<th style="{_HEAD}">{_escape_line(heading, _CELL)}</th>' for heading in headings)
    rows = []
    for values in frame[names].head(_ROWS).itertuples(index=False, name=None):
        cells = "".join(f'<td style="{_DATA}">{_escape_line(value_text(value), _CELL)}</td>' for value in values)
        rows.append(f"<tr>{cells}</tr>")
    more = f" ({_ROWS} of {len(frame)} rows)" if len(frame) > _ROWS else ""
    caption = f'<div style="margin-top:.6em;opacity:.7">{_escape_line(title + more, _CELL)}</div>'
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'{caption}<div style="overflow-x:auto"><table style="{_TABLE}">{body}</table></div>'


def value_text(value: Any) -> str:
    """A value as text: four significant digits, all digits of integers, and nothing for a missing value."""
    if value is None or (isinstance(value, float) and math.isnan(value)) or str(value) in ("<NA>", "NaT"):
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 and math.isfinite(value) else f"{value:.4g}"


def _escape_line(text: str, most: int) -> str:
    line = " ".join(visible_lines(text).split())
    return html.escape(line if len(line) <= most else f"{line[: most - 1]}…", quote=True)


class DisplayedObject:
    """An object that displays its ``View``."""

    def _view(self) -> View:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._view().text()

    def _repr_html_(self) -> str:
        return self._view().html()


_NUMBERS = frozenset(
    ("avg", "min", "max", "peak", "value", "q1", "median", "q3", "std", "low", "high", "baseline", "candidate",
     "intensity", "performance", "attainable", "operations", "speedup", "per_work", "ratio", "speedup_bound",
     "vgpr", "agpr", "sgpr", "vgprs", "agprs", "sgprs")
)  # fmt: skip
"""Columns of figures whose unit is in another column: even if such a column is empty, its type is numeric."""
_UTC = "UTC"
"""The unit of columns that contain points in time."""
_INT64 = range(-(2**63), 2**63)


def of_table(table: Table, notes: Sequence[str] = ()) -> pd.DataFrame:
    """A table of a tool as a DataFrame."""
    rows = table.rows
    columns = {name: [row[i] for row in rows] for i, name in enumerate(table.columns)}
    units = {name: unit for name, unit in zip(table.columns, table.units, strict=True) if unit}
    return of_columns(columns, units, notes)


def of_any(table: Table | None) -> pd.DataFrame:
    """A table of a tool, or an empty one if the answer has none."""
    return of_table(table or Table(columns=[], units=[], rows=[], total_rows=0))


def of_columns(columns: Mapping[str, Sequence[Any]], units: Mapping[str, str], notes: Sequence[str]) -> pd.DataFrame:
    """A DataFrame from columns of values, in which None is a missing value."""
    import pandas as pd

    made = {name: _series(list(values), name in units or name in _NUMBERS) for name, values in columns.items()}
    return _label_columns(pd.DataFrame(made, columns=list(columns)), units, notes)


_UNITS = {"pct": "%", "ns": "ns", "us": "us", "ms": "ms", "mhz": "MHz", "bytes": "B"}
"""The last word of a column's name, if that is a unit."""


def of_records(records: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> pd.DataFrame:
    """A DataFrame from rows that are mappings, whose columns have the units that end their names."""
    names = list(dict.fromkeys(name for record in records for name in record))
    words = {name: name.rpartition("_")[2] for name in names}
    units = {name: _UNITS[word] for name, word in words.items() if word in _UNITS}
    return of_columns({name: [record.get(name) for record in records] for name in names}, units, notes)


def of_rows(rows: QueryRows, notes: Sequence[str] = ()) -> pd.DataFrame:
    """All rows of a query."""
    import numpy as np
    import pandas as pd

    made: dict[str, Any] = {}
    for name, values in rows.columns.items():
        if name in rows.wide:
            made[name] = _series([None if v is None else int(v) for v in values.tolist()], True)
        elif isinstance(values, np.ma.MaskedArray):
            made[name] = _masked_array(values)
        else:
            made[name] = values.astype("int64") if values.dtype.kind == "i" else values
        if rows.units.get(name) == _UTC:  # these are text in SQL, where they are sorted and truncated as text
            made[name] = pd.to_datetime(pd.Series(made[name], dtype="object"), utc=True, format="ISO8601")
    return _label_columns(pd.DataFrame(made, columns=list(rows.columns)), rows.units, [*rows.notes, *notes])


def _masked_array(values: Any) -> Any:
    """A column from a NumPy array with missing values, which become NA, NaN, NaT or None, as their type needs it."""
    import numpy as np
    import pandas as pd

    mask, kind = np.ma.getmaskarray(values), values.dtype.kind
    if kind not in "iubfMm":
        return np.where(mask, None, values.data)
    nullable = {"i": "Int64", "u": values.dtype.name.replace("uint", "UInt"), "b": "boolean"}
    return pd.Series(values.data).astype(nullable.get(kind, values.dtype)).mask(mask)


def _series(values: list[Any], numeric: bool) -> Any:
    """A column with the type of its values."""
    import pandas as pd

    known = [v for v in values if v is not None]
    nullable = len(known) < len(values)
    flags = [isinstance(v, bool) for v in known]
    kind = "object"
    if not known:
        kind = "float64" if numeric else "object"
    elif all(flags):
        kind = "boolean" if nullable else "bool"
    elif not any(flags) and all(isinstance(v, int) for v in known):
        if all(v in _INT64 for v in known):
            kind = "Int64" if nullable else "int64"
    elif not any(flags) and all(isinstance(v, int | float) for v in known):
        kind = "float64"
    elif all(isinstance(v, str) for v in known):
        return pd.Series(values)
    return pd.Series(values, dtype=kind)


def _label_columns(frame: pd.DataFrame, units: Mapping[str, str], notes: Sequence[str]) -> pd.DataFrame:
    frame.attrs["units"] = dict(units)
    frame.attrs["notes"] = list(notes)
    return frame


Drawing = Callable[[], "Drawn"]
WIDTH_PX = 800


class Chart(DisplayedObject):
    """A picture with a textual description, which is drawn when it is first requested."""

    def __init__(self, title: str, drawing: Drawing | None) -> None:
        self._title, self._drawing = title, drawing

    def plot(self) -> Figure:
        """A new matplotlib figure to show, change and save. Raises Problem if there is nothing to draw."""
        # Notebooks display figures only after pyplot was imported, and these figures are made without it.
        if "IPython" in sys.modules:
            import matplotlib.pyplot  # noqa: F401

        return self._draw().picture.figure

    @property
    def png(self) -> bytes:
        """The picture as PNG."""
        return self._cached_drawing.picture.png

    @property
    def svg(self) -> bytes:
        """The picture as SVG."""
        return self._cached_drawing.picture.svg

    @property
    def facts(self) -> list[str]:
        """A description of the picture."""
        return list(self._cached_drawing.facts)

    def _draw(self) -> Drawn:
        if self._drawing is None:
            fix = "Use the roofline, occupancy or timeline of a workload"
            raise BadArgument("This answer has no picture", fix=fix)
        return self._drawing()

    @cached_property
    def _cached_drawing(self) -> Drawn:
        return self._draw()

    def _view(self) -> View:
        return View(self._title)

    def _repr_html_(self) -> str:
        view = self._view()
        try:
            return replace(view, picture=self.png).html()
        except Problem as problem:
            told = {"no picture": problem.text} if self._drawing else {}
            return replace(view, facts={**view.facts, **told}).html()

    def _repr_png_(self) -> bytes | None:
        try:
            return self.png
        except Problem:
            return None
