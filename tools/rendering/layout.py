"""The layout of an answer in words: the sentence that answers, what it is about, tables, then notes and next calls.

A result that defines ``blocks`` decides itself what its text consists of; otherwise the text follows from the fields.
Figures have four digits, apart from whole numbers and the rows of a caller's own query.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any

import pydantic

from ...analysis.base.text import figure, inert, visible_lines
from ..base.results import Table, TextBlock
from .document import KERNEL, Cut, Document

_DIGITS, _EXACT_DIGITS, _CONFIDENCE_DIGITS = 4, 6, 2
_CONFIDENCE = "confidence"
_SAID_ONCE = "status n datatype kernel gpu unit rank performance operations time_ns bound limiter"
_STATED_ONCE = frozenset(_SAID_ONCE.split())
_SEVERAL = 3
"""Columns that are shown once below a table with at least this many rows, if all rows have the same value."""
_IDENTITY = ("workload", "name", "arch")
_APART = ("answer", "notes", "next", "tables")
"""Fields with a place of their own."""
TableStyle = Callable[[Sequence[str], Sequence[Sequence[str]], Sequence[bool]], list[str]]
"""Returns the lines of a table from its headings, the cells of its rows, and whether each column is a minor one."""


def markdown_lines(headings: Sequence[str], rows: Sequence[Sequence[str]], minor: Sequence[bool]) -> list[str]:
    """Return the lines of a Markdown table."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [" | ".join(row) for row in (headings, ["---"] * len(headings), *cells)]


def words_of(document: Document, cut: Cut, tables: TableStyle, *, following: bool) -> str:
    """Return the text: the answer, the other fields or the result's own blocks, notes, and the next calls if wanted."""
    layout = _Layout(document, cut, tables)
    parts = [*layout.parts(), *(layout.following() if following else [])]
    return "\n\n".join(part for part in parts if part)


def heading(table: Table, column: int) -> str:
    """The name of a column, with its unit if the name does not contain it."""
    name, unit = table.columns[column], table.units[column]
    return f"{name} [{unit}]" if unit and unit not in name else name


class _Layout:
    """Makes the text of one answer, with names of kernels and long texts shortened where they are written."""

    def __init__(self, document: Document, cut: Cut, tables: TableStyle) -> None:
        self.document, self.result, self.cut, self.tables = document, document.result, cut, tables
        self.digits = _EXACT_DIGITS if self.result.NAMES_AS_STORED else _DIGITS

    def parts(self) -> Iterator[str]:
        """Yield the parts of the text, which blank lines separate."""
        if self.result.answer:
            yield inert(self.cut.shorten(self.result.answer))
        blocks = self.result.blocks()
        if blocks is None:
            yield from self._fields()
            blocks = [TextBlock(name, table) for name, table in self.result.tables.items() if table.rows]
        for block in blocks:
            if block.content:
                text = self._block(block)
                yield visible_lines(text) if block.exact else inert(text)
        content = self.document.content
        if notes := [note for note in content["notes"] if note != content.get("answer")]:
            yield inert("notes\n" + "\n".join(f"- {self.cut.shorten(note)}" for note in notes[: self.cut.entries]))

    def following(self) -> Iterator[str]:
        """Yield the calls that may follow."""
        if shown := self.cut.following(self.document.content["next"]):
            calls = [(c["tool"], json.dumps(c["arguments"]), inert(c["why"])) for c in shown]
            yield "next\n" + "\n".join(f"- {tool} {arguments}: {why}" for tool, arguments, why in calls)

    def _block(self, block: TextBlock) -> str:
        content = block.content
        if isinstance(content, Table):
            text = self._table(content)
        else:
            text = "\n".join(map(self.cut.shorten, content[: self.cut.entries]))
        return f"{block.title}\n{text}" if block.title else text

    def _fields(self) -> Iterator[str]:
        """Yield the texts of fields without a place of their own: scalars and lists together, then tables with rows."""
        yield "\n".join(self._lines())
        for name, value in self.result:
            if isinstance(value, Table) and (value.rows or name == "table"):
                yield self._safe(name, f"{name}\n{self._table(value)}")

    def _safe(self, name: str, text: str) -> str:
        return visible_lines(text) if name in self.result.EXACT else inert(text)

    def _lines(self) -> Iterator[str]:
        identity = self._identity()
        if identity:
            yield inert(identity)
        for name, value in self.result:
            if identity and name in _IDENTITY:
                continue
            if name not in _APART and not isinstance(value, Table) and value not in (None, [], {}):
                yield self._safe(name, f"{name}: {self._value(value, name)}")

    def _identity(self) -> str:
        """The workload with its name and GPU in one line; nothing if the answer is not about one workload."""
        workload, name, arch = (getattr(self.result, field, None) for field in _IDENTITY)
        if not (isinstance(workload, str) and isinstance(name, str)):
            return ""
        return f"workload: {workload} ({name}{f', {arch}' if arch else ''})"

    def _value(self, value: Any, name: str) -> str:
        if isinstance(value, str) and "\n" in value:
            return "\n" + self.cut.shorten(value)
        if own := _fields_of(value):
            return "".join(
                f"\n  {k}:\n{self._table(v)}" if isinstance(v, Table) else f"\n  {k}: {self._value(v, k)}"
                for k, v in own
                if v not in (None, [], {})
            )
        if isinstance(value, list) and value and all(map(_fields_of, value)):
            return "".join(f"\n- {self._item(item)}" for item in value[: self.cut.entries])
        if isinstance(value, list):
            return ", ".join(self._value(v, name) for v in value[: self.cut.entries])
        if isinstance(value, dict):
            members = list(value.items())[: self.cut.entries]
            return ", ".join(f"{k}={self._value(v, str(k))}" for k, v in members)
        return self._cell(value, name)

    def _item(self, item: Any) -> str:
        parts = (f"{k}: {self._value(v, k)}" for k, v in _fields_of(item) if v not in (None, [], {}))
        return "; ".join(parts)

    def _table(self, table: Table) -> str:
        """A table without empty columns; values that all rows have in common are shown below it."""
        rows, names = table.rows[: self.cut.entries], table.columns[: self.cut.columns]
        if not rows:
            return "(no rows)"
        used = [i for i in range(len(names)) if any(row[i] is not None for row in rows)]
        common = [i for i in used if len(rows) >= _SEVERAL and names[i] in _STATED_ONCE and _is_same(rows, i)]
        shown = [i for i in used if i not in common]
        cells = [[self._cell(row[i], names[i]) for i in shown] for row in rows]
        lines = self.tables(
            [self.cut.shorten(heading(table, i)) for i in shown], cells, [names[i] in table.minor for i in shown]
        )
        if common:
            values = (f"{names[i]} {self._cell(rows[0][i], names[i])}" for i in common)
            lines.append(f"in all rows: {', '.join(values)}")
        if table.truncated or len(rows) < len(table.rows):
            total = "" if table.total_rows is None else f" of {table.total_rows}"
            lines.append(f"({len(rows)}{total} rows shown)")
        return "\n".join(lines)

    def _cell(self, value: Any, name: str) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            digits = _CONFIDENCE_DIGITS if name == _CONFIDENCE else self.digits
            return figure(value, digits) if math.isfinite(value) else ""
        text = str(self.document.short_names.get(value, value) if name == KERNEL and isinstance(value, str) else value)
        return self.cut.shorten(text).replace("\n", " ")


def _is_same(rows: Sequence[Sequence[Any]], column: int) -> bool:
    return all(row[column] == rows[0][column] for row in rows)


def _fields_of(value: Any) -> list[tuple[str, Any]]:
    """The fields of an object in its structured answer; none for an object that is rendered as text."""
    if not (isinstance(value, pydantic.BaseModel) or is_dataclass(value)):
        return []
    kind: type = type(value)
    answered = _type_adapter(kind).dump_python(value)
    return [(name, getattr(value, name)) for name in answered] if isinstance(answered, dict) else []


_type_adapter = cache(pydantic.TypeAdapter)
