"""Tool results as compact text with the same facts, and the one cap on an answer's size."""

from __future__ import annotations

import json
import math
import re
from dataclasses import is_dataclass
from functools import cache
from typing import Any

import pydantic

from ..tools.results import NextCall, Result, Table

CHARACTERS = 32_000
"""An answer's cap, about 8,000 tokens."""
_ROOM_FOR_NOTES = 600
_PAGED_BY_ROW = ("compute_metrics", "list_workloads", "search_metrics")
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


def text(result: Result) -> str:
    """Markdown: scalars as ``key: value`` lines, tables as Markdown tables, then notes and next calls."""
    parts = [_lines(result)]
    parts += [f"{name}\n{_markdown(value)}" for name, value in result if isinstance(value, Table)]
    if result.notes:
        parts.append("notes\n" + "\n".join(f"- {n}" for n in result.notes))
    if result.next:
        parts.append("next\n" + "\n".join(f"- {c.tool} {json.dumps(c.arguments)}: {c.why}" for c in result.next))
    return "\n\n".join(p for p in parts if p)


def structured(result: Result) -> dict[str, Any]:
    """The result as JSON-ready data: no NaN, no control or bidirectional characters."""
    cleaned: dict[str, Any] = clean(result.model_dump(mode="python"))
    return cleaned


def clean(value: Any) -> Any:
    """Plain data safe for JSON and for a model to read; non-finite numbers become null."""
    if isinstance(value, str):
        return _UNSAFE.sub("", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean(k): clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value


def capped(result: Result, tool: str, arguments: dict[str, Any]) -> Result:
    """The result, its longest table cut until the whole is under the cap; what was cut is told with the next call."""
    tables = {name: value for name, value in result if isinstance(value, Table) and value.rows}
    if not tables:
        return result
    name, longest = max(tables.items(), key=lambda item: len(item[1].rows))
    bare = result.model_copy(update={name: longest.model_copy(update={"rows": []})})
    room = CHARACTERS - len(json.dumps(structured(bare)))
    keep = _fitting(longest.rows, room)
    if keep == len(longest.rows):
        return result
    keep = max(1, _fitting(longest.rows[:keep], room - _ROOM_FOR_NOTES))
    cut = longest.model_copy(update={"rows": longest.rows[:keep], "truncated": True})
    update: dict[str, Any] = {
        name: cut,
        "notes": [
            *result.notes,
            f"Cut to {keep} of {len(longest.rows)} rows of this page to stay under the size cap; ask for the rest, "
            "for fewer columns, or use `rooflens call --full` in scripts.",
        ],
    }
    if tool in _PAGED_BY_ROW:
        rest = {**arguments, "offset": int(arguments.get("offset", 0)) + keep}
        update["next"] = [NextCall(tool=tool, arguments=rest, why="the rows after these"), *result.next]
    return result.model_copy(update=update)


def _fitting(rows: list[list[Any]], room: int) -> int:
    """How many leading rows fit into ``room`` characters of JSON."""
    for index, row in enumerate(rows):
        room -= len(json.dumps(clean(row))) + 2
        if room < 0:
            return index
    return len(rows)


def _lines(result: Result) -> str:
    skip = ("notes", "next")
    return "\n".join(
        f"{name}: {_value(value)}"
        for name, value in result
        if name not in skip and not isinstance(value, Table) and value not in (None, [], {})
    )


def _value(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return "\n" + _UNSAFE.sub("", value)
    if fields := _fields(value):
        return "".join(
            f"\n  {k}: {_markdown(v) if isinstance(v, Table) else _value(v)}"
            for k, v in fields
            if v not in (None, [], {})
        )
    if isinstance(value, list) and value and all(map(_fields, value)):
        return "".join(
            f"\n- {'; '.join(f'{k}: {_value(v)}' for k, v in _fields(item) if v not in (None, [], {}))}"
            for item in value
        )
    if isinstance(value, list):
        return ", ".join(_value(v) for v in value)
    if isinstance(value, dict):
        return ", ".join(f"{k}={_value(v)}" for k, v in value.items())
    return _cell(value)


def _fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of an object that its structured answer has; none for one that is answered as a text."""
    if not (isinstance(value, pydantic.BaseModel) or is_dataclass(value)):
        return []
    kind: Any = type(value)
    answered = _adapter(kind).dump_python(value)
    return [(name, getattr(value, name)) for name in answered] if isinstance(answered, dict) else []


@cache
def _adapter(kind: type) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)


def _markdown(table: Table) -> str:
    """A Markdown table without the columns that are empty throughout."""
    used = [i for i in range(len(table.columns)) if any(row[i] is not None for row in table.rows)]
    if not table.rows:
        return "(no rows)"
    head = [table.columns[i] + (f" [{u}]" if (u := table.units[i]) and u not in table.columns[i] else "") for i in used]
    rows = [" | ".join(_cell(row[i]) for i in used) for row in table.rows]
    total = "" if table.total_rows is None else f" of {table.total_rows}"
    tail = [f"({len(table.rows)}{total} rows shown)"] if table.truncated else []
    return "\n".join([" | ".join(head), " | ".join("---" for _ in used), *rows, *tail])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return (
            (str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}")
            if math.isfinite(value)
            else ""
        )
    return _UNSAFE.sub("", str(value)).replace("|", "\\|").replace("\n", " ")
