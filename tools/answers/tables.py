"""Tables of answers, whose columns are declared: in ``analysis/tables`` if SQL has them too, or else in tables.toml."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from ...analysis.store.schema import Column
from ...analysis.tables import derived_tables, schema
from ...analysis.tables.derived import table_rows
from ...analysis.workload import Workload
from ..base.results import Table, round_number, table

Row = dict[str, Any]
"""The values and objects that the columns of a row are taken from."""
_SCALES = {"fraction": ("pct", "%"), "ns": ("ms", "ms"), "bytes": ("mb", "MB")}
"""What a value is -> in answers the last word of its name, and its unit."""
_EXACT_MS = 6
"""The decimal places of a time in ms that is exact to the ns."""


def table_from(
    name: str,
    rows: Sequence[Row],
    total: int | None = None,
    *,
    full: bool = True,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    limit: int | None = None,
    offset: int = 0,
) -> Table:
    """Return ``rows[offset:offset + limit]`` as the table with this name.

    ``only`` names the columns that it may have, and ``without`` those that it lacks besides what is declared for a
    ``full`` answer or a summary.
    ``total`` is the number of rows if these are only the first of them.
    """
    columns, shown = answer_columns(name), _declarations()["shown"].get(name, {})
    left_out, digits = ((), None) if full else (shown.get("full", ()), shown.get("digits_in_summary"))
    filled = {*shown.get("filled", ()), *(() if full else shown.get("filled_in_summary", ()))}
    declared = {column: columns[column] for column in only or columns if column not in {*left_out, *without}}
    cells = [[_cell(row, column, facts, digits) for row in rows] for column, facts in declared.items()]
    kept = [
        (column, facts.unit, values)
        for (column, facts), values in zip(declared.items(), cells, strict=True)
        if filled.isdisjoint(("*", column)) or any(value is not None for value in values)
    ]
    listed = [list(row) for row in zip(*(values for *_, values in kept), strict=True)]
    made = table({column: unit for column, unit, _ in kept}, listed, limit=limit, offset=offset)
    made.minor = [column for column, facts in declared.items() if facts.minor]
    if total is not None:
        made.total_rows, made.truncated = total, total > len(rows)
    return made


def declared_tables(tool: str, workload: Workload, limit: int) -> dict[str, Table]:
    """Return the first rows of the tables that are declared to be shown in the answers of a tool."""
    tables = {}
    for name, declared in derived_tables().items():
        if tool in declared.tools and declared.exists(workload.manifest):
            tables[name] = table_from(name, table_rows(workload, name), limit=limit)
    return tables


def _cell(row: Mapping[str, Any], name: str, column: Column, digits: int | None) -> Any:
    """Return the value at a path such as ``pair.share``; None if it or anything on the way is None or missing."""
    first, *attributes = column.of.split(".") if column.of else [name]
    value = row.get(first)
    for attribute in attributes:
        value = None if value is None else getattr(value, attribute)
    if value is None:
        return None
    if column.scale:
        value = 100 * value if column.scale == "fraction" else value / 1e6
    if column.decimals is not None:
        return round(value, column.decimals or None)
    if column.digits is not None:
        return float(f"{value:.{column.digits}g}")
    return round_number(value, digits) if digits is not None and isinstance(value, float) else value


@cache
def answer_columns(name: str) -> dict[str, Column]:
    """The columns of a table by their names in answers: those of SQL that answers show, then those of tables.toml."""
    sql = schema()[name].columns if name in schema() else {}
    columns = dict(_answer_column(column, facts) for column, facts in sql.items() if facts.answer)
    for column, facts in _declarations().get(name, {}).items():
        unit = _SCALES[facts["scale"]][1] if "scale" in facts else None
        columns[column] = Column(**{"type": "", "description": "", "unit": unit, **facts})
    return columns


def _answer_column(name: str, column: Column) -> tuple[str, Column]:
    """Return the name and the column in answers of a column of SQL: ns become ms, and bytes MB, also in its name."""
    shown = name if column.answer is True else str(column.answer)
    if column.unit not in _SCALES:
        return shown, replace(column, of=name)
    word, unit = _SCALES[column.unit]
    if shown == column.unit or shown.endswith(f"_{column.unit}"):
        shown = shown.removesuffix(column.unit) + word
    exact = column.unit == "ns" and column.digits is None and column.decimals is None
    decimals = _EXACT_MS if exact else column.decimals
    return shown, replace(column, of=name, unit=unit, scale=column.unit, decimals=decimals)


@cache
def _declarations() -> dict[str, dict[str, dict[str, Any]]]:
    return tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
