"""Tables of answers, whose columns are data (tables.toml): where each value comes from, its unit and its digits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from ..base.results import Table, table

Row = dict[str, Any]
"""The values and objects that the columns of a row are taken from."""


def table_from(
    name: str,
    rows: Sequence[Row],
    total: int | None = None,
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    limit: int | None = None,
    offset: int = 0,
) -> Table:
    """Return ``rows[offset:offset + limit]`` as the table with this name.

    ``only`` names the columns that it has, ``without`` those that it lacks. ``total`` is the number of rows if these
    are only the first of them.
    """
    declared = _tables()[name]
    columns = {of: declared[of] for of in only or declared if of not in without}
    cells = [[_cell(row, of, column) for of, column in columns.items()] for row in rows]
    made = table({of: column.get("unit") for of, column in columns.items()}, cells, limit=limit, offset=offset)
    if total is not None:
        made.total_rows, made.truncated = total, total > len(rows)
    return made


def _cell(row: Row, name: str, column: Mapping[str, Any]) -> Any:
    """Return the value at a path such as ``pair.share``; None if it or anything on the way is None or missing."""
    first, *attributes = column["of"].split(".") if "of" in column else [name]
    value = row.get(first)
    for attribute in attributes:
        value = None if value is None else getattr(value, attribute)
    if value is None:
        return None
    if origin := column.get("from"):
        value = 100 * value if origin == "fraction" else value / 1e6
    if "decimals" in column:
        return round(value, column["decimals"] or None)
    return float(f"{value:.{column['digits']}g}") if "digits" in column else value


@cache
def _tables() -> dict[str, dict[str, dict[str, Any]]]:
    return tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
