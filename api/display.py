"""How objects show themselves in a notebook: HTML without scripts, legible on light and dark, and plain text."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..analysis.base.text import shorten, visible_lines

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 10
_CELL, _TEXT = 160, 600
"""Characters of a cell, and of a fact."""
_NOTES = 6
_LINE = "1px solid rgba(128,128,128,.45)"
_TABLE = "border-collapse:collapse;margin:.4em 0"
_HEAD = f"text-align:left;padding:.15em .6em;border-bottom:{_LINE};font-weight:600"
_DATA = "text-align:left;padding:.15em .6em;vertical-align:top"


@dataclass(frozen=True)
class View:
    """What an object shows: a title, facts by their names, tables by their titles, a picture, and notes."""

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    picture: bytes | None = None
    notes: Sequence[str] = ()

    def html(self) -> str:
        """As HTML: every text escaped, no script, no link, colours of the page around it."""
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
        """As text: the title and the facts, a line each."""
        lines = [visible_lines(self.title), *(f"  {name}: {text}" for name, text in self.facts.items() if text)]
        return "\n".join(shorten(" ".join(visible_lines(line).splitlines()), _TEXT) for line in lines)


def _table(title: str, frame: pd.DataFrame) -> str:
    """The first rows of a frame, without columns that are empty."""
    units: Mapping[str, str] = frame.attrs.get("units", {})
    names = [name for name in frame.columns if not frame[name].isna().all()]
    heads = "".join(
        f'<th style="{_HEAD}">{_escape_line(_column_heading(str(name), units.get(str(name))), _CELL)}</th>'
        for name in names
    )
    rows = []
    for values in frame[names].head(_ROWS).itertuples(index=False, name=None):
        cells = "".join(f'<td style="{_DATA}">{_escape_line(value_text(value), _CELL)}</td>' for value in values)
        rows.append(f"<tr>{cells}</tr>")
    more = f" ({_ROWS} of {len(frame)} rows)" if len(frame) > _ROWS else ""
    caption = f'<div style="margin-top:.6em;opacity:.7">{_escape_line(title + more, _CELL)}</div>'
    body = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'{caption}<div style="overflow-x:auto"><table style="{_TABLE}">{body}</table></div>'


def _column_heading(name: str, unit: str | None) -> str:
    return f"{name} [{unit}]" if unit else name


def value_text(value: Any) -> str:
    """A value for reading: four digits of a figure, whole numbers whole, nothing for what is missing."""
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


def some(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Those of a frame's columns that it has, with their units."""
    return frame[[name for name in columns if name in frame.columns]]


class DisplayedObject:
    """An object that shows the view of itself."""

    def _view(self) -> View:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._view().text()

    def _repr_html_(self) -> str:
        return self._view().html()
