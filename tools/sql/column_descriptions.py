"""Short answers to DESCRIBE: the names and types of a table's columns, or every table with the names of its columns."""

from __future__ import annotations

from ..base.results import Table

_OF_ONE = ["column_name", "column_type", "null", "key", "default", "extra"]
_OF_ALL = ["database", "schema", "name", "column_names", "column_types", "temporary"]
_FIRST = 40
"""Columns of one table that are named."""
_FIRST_OF_ALL = 30
"""Columns of each table that are named where all are described."""
_SOME = "SELECT column_name FROM (DESCRIBE counters) WHERE column_name LIKE '%HIT%' finds some"


def shorten_description(table: Table, *, cut: bool) -> tuple[Table, list[str]] | None:
    """The answer to DESCRIBE without what its rows do not differ in, and what to say of it; None for other answers.

    ``cut``: of many columns the first alone.
    """
    if table.columns == _OF_ALL:
        return _describe_all(table)
    if table.columns != _OF_ONE:
        return None
    rows = [row[:2] for row in table.rows]
    notes = [f"Of these rows the first {_FIRST} are shown; {_SOME}."] if cut and len(rows) > _FIRST else []
    return _with_rows(table, _OF_ONE[:2], rows[:_FIRST] if notes else rows), notes


def _describe_all(table: Table) -> tuple[Table, list[str]]:
    rows, long = [], False
    for _, _, name, columns, *_ in table.rows:
        # Of very many columns the worker makes a text that is cut.
        names = columns if isinstance(columns, list) else [part.strip(' "') for part in columns.strip("[").split(",")]
        long |= len(names) > _FIRST_OF_ALL
        rows.append([name, ", ".join(names[:_FIRST_OF_ALL]) + (", ..." if len(names) > _FIRST_OF_ALL else "")])
    notes = ["DESCRIBE TABLE names types."]
    return _with_rows(table, ["name", "column_names"], rows), [
        *notes,
        *([f"Each counter is a column; {_SOME}."] * long),
    ]


def _with_rows(table: Table, columns: list[str], rows: list[list[object]]) -> Table:
    return table.model_copy(update={"columns": columns, "units": [None] * len(columns), "rows": rows})
