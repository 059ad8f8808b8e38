"""The layout of an answer in words: the sentence that answers, what it is about, tables, then notes and next calls.

A result that defines ``blocks`` decides itself what its text consists of; otherwise the text follows from the fields.
Figures have four digits, apart from whole numbers and the rows of a caller's own query.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import pydantic

from ...analysis.base.kernel_names import short
from ...analysis.base.text import figure, inert, visible_lines
from ...analysis.catalogue.vocabulary import in_vendor_terms
from ..base.results import Result, Table, TextBlock

_DIGITS, _EXACT_DIGITS, _CONFIDENCE_DIGITS = 4, 6, 2
_CONFIDENCE = "confidence"
_STATED_ONCE = "status n datatype kernel gpu unit rank performance operations time_ns bound limiter"
_SAID_ONCE = frozenset(_STATED_ONCE.split())
_SEVERAL = 3
"""Columns that are shown once below a table with at least this many rows, if all rows have the same value."""
_DATA = frozenset(("name", "kernel", "line", "lines", "source", "instruction", "hottest", "file", "before", "after"))
"""Fields and columns with names and code of the profiled program, which keep their words."""
_IDENTITY = ("workload", "name", "arch")
_APART = ("answer", "notes", "next")
"""Fields with a place of their own."""


def words_of(result: Result) -> str:
    """Return the text: the answer, the other fields or the result's own blocks, notes, and next calls."""
    digits = _EXACT_DIGITS if result.NAMES_AS_STORED else _DIGITS
    target, data = vendor_context(result)

    def own_words(text: str) -> str:
        return inert(in_vendor_terms(text, target, data))

    parts = [own_words(result.answer)] if result.answer else []
    blocks = result.blocks()
    if blocks is None:
        parts += _parts_of_fields(result, digits)
    else:
        shown = [(block, _block_text(block, digits)) for block in blocks if block.content]
        parts += [visible_lines(text) if block.exact else own_words(text) for block, text in shown]
    if notes := [note for note in result.notes if note != result.answer]:
        parts.append(own_words("notes\n" + "\n".join(f"- {n}" for n in notes)))
    if result.next:
        calls = (f"- {c.tool} {inert(json.dumps(c.arguments))}: {own_words(c.why)}" for c in result.next)
        parts.append("next\n" + "\n".join(calls))
    return "\n\n".join(p for p in parts if p)


def vendor_context(result: Result) -> tuple[str | None, set[str]]:
    """The target whose vendor's terms apply to an answer, and the names and code that its sentences may quote."""
    target = getattr(result, "arch", None) or getattr(result, "gpu", None)
    data = [word for name, word, _ in texts(result) if name in _DATA] if target else []
    return target, {*data, *map(short, data)}


def texts(result: Any, name: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield every text of a value with the name of its field or column, and whether it is in a table."""
    if isinstance(result, str):
        yield name, result, False
    elif isinstance(result, Table):
        for row in result.rows:
            for column, cell in zip(result.columns, row, strict=False):
                yield from ((column, word, True) for _, word, _ in texts(cell))
    elif isinstance(result, pydantic.BaseModel):
        for field, value in result:
            if field not in ("next", *getattr(result, "EXACT", ())):
                yield from texts(value, field)
    elif is_dataclass(result):
        for each in fields(result):
            yield from texts(getattr(result, each.name), each.name)
    elif isinstance(result, dict):
        for key, value in result.items():
            yield from texts(key, name)
            yield from texts(value, name)
    elif isinstance(result, list | tuple):
        for value in result:
            yield from texts(value, name)


def _block_text(block: TextBlock, digits: int) -> str:
    content = block.content
    text = _markdown(content, digits) if isinstance(content, Table) else "\n".join(content)
    return f"{block.title}\n{text}" if block.title else text


def _parts_of_fields(result: Result, digits: int) -> list[str]:
    """The texts of fields without a place of their own: scalars and lists together, then tables that have rows."""
    parts = ["\n".join(_lines(result, digits))]
    for name, value in result:
        if isinstance(value, Table) and (value.rows or name == "table"):
            text = f"{name}\n{_markdown(value, digits)}"
            parts.append((visible_lines if name in result.EXACT else inert)(text))
    return parts


def _lines(result: Result, digits: int) -> Iterator[str]:
    identity = _identity(result)
    if identity:
        yield inert(identity)
    for name, value in result:
        if identity and name in _IDENTITY:
            continue
        if name not in _APART and not isinstance(value, Table) and value not in (None, [], {}):
            yield (visible_lines if name in result.EXACT else inert)(f"{name}: {_value(value, name, digits)}")


def _identity(result: Result) -> str:
    """The workload with its name and GPU in one line; nothing if the answer is not about one workload."""
    workload, name, arch = (getattr(result, field, None) for field in _IDENTITY)
    if not (isinstance(workload, str) and isinstance(name, str)):
        return ""
    return f"workload: {workload} ({name}{f', {arch}' if arch else ''})"


def _value(value: Any, name: str, digits: int) -> str:
    if isinstance(value, str) and "\n" in value:
        return "\n" + value
    if own := _fields(value):
        return "".join(
            f"\n  {k}: {_markdown(v, digits) if isinstance(v, Table) else _value(v, k, digits)}"
            for k, v in own
            if v not in (None, [], {})
        )
    if isinstance(value, list) and value and all(map(_fields, value)):
        return "".join(f"\n- {_item(item, digits)}" for item in value)
    if isinstance(value, list):
        return ", ".join(_value(v, name, digits) for v in value)
    if isinstance(value, dict):
        return ", ".join(f"{k}={_value(v, str(k), digits)}" for k, v in value.items())
    return _cell(value, name, digits)


def _item(item: Any, digits: int) -> str:
    parts = (f"{k}: {_value(v, k, digits)}" for k, v in _fields(item) if v not in (None, [], {}))
    return "; ".join(parts)


def _fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of an object in its structured answer; none for an object that is rendered as text."""
    if not (isinstance(value, pydantic.BaseModel) or is_dataclass(value)):
        return []
    kind: type = type(value)
    answered = _type_adapter(kind).dump_python(value)
    return [(name, getattr(value, name)) for name in answered] if isinstance(answered, dict) else []


_type_adapter = cache(pydantic.TypeAdapter)


def _markdown(table: Table, digits: int) -> str:
    """A Markdown table without empty columns; values that all rows have in common are shown below it."""
    used = [i for i in range(len(table.columns)) if any(row[i] is not None for row in table.rows)]
    if not table.rows:
        return "(no rows)"
    common = [i for i in used if _common(table, i)]
    used = [i for i in used if i not in common]
    names = table.columns
    head = [heading(table, i) for i in used]
    rows = [" | ".join(_cell(row[i], names[i], digits) for i in used) for row in table.rows]
    total = "" if table.total_rows is None else f" of {table.total_rows}"
    tail = [f"({len(table.rows)}{total} rows shown)"] if table.truncated else []
    if common:
        told = (f"{names[i]} {_cell(table.rows[0][i], names[i], digits)}" for i in common)
        tail.insert(0, f"in all rows: {', '.join(told)}")
    return "\n".join([" | ".join(head), " | ".join("---" for _ in used), *rows, *tail])


def heading(table: Table, column: int) -> str:
    """The name of a column, with its unit if the name does not contain it."""
    name, unit = table.columns[column], table.units[column]
    return f"{name} [{unit}]" if unit and unit not in name else name


def _common(table: Table, column: int) -> bool:
    """Whether a column has the same value in all of several rows, and does not name them."""
    first = table.rows[0][column]
    return (
        len(table.rows) >= _SEVERAL
        and table.columns[column] in _SAID_ONCE
        and all(row[column] == first for row in table.rows)
    )


def _cell(value: Any, name: str, digits: int) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return figure(value, _CONFIDENCE_DIGITS if name == _CONFIDENCE else digits) if math.isfinite(value) else ""
    return str(value).replace("|", "\\|").replace("\n", " ")
