"""SQL of the local user, run in this process: views over the files of the store, nothing copied or truncated.

Tables, names and refused statements are the same as for query_counters. The differences: no child process with limits,
no maximum number of rows, and the user's data frames as additional tables. It reads what the user may read and writes
nothing; one query runs at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...analysis.base.database import connect, sql_name
from ...analysis.base.problems import BadArgument, StoreProblem
from ...analysis.base.temporary_files import scratch
from ...analysis.store.integrity import readable_workloads
from ...analysis.store.store import Manifest, Store
from . import errors
from .errors import FailedQuery
from .references import references, result_units
from .sources import ReadableTables, skip_damaged, source
from .statement_gate import StatementRefused, columns_as_text, gate, query_relation

if TYPE_CHECKING:
    import numpy as np

Arrays = dict[str, "np.ndarray[Any, Any] | np.ma.MaskedArray[Any, Any]"]
_WIDE = ("HUGEINT", "UHUGEINT")
"""Types of integer sums, which NumPy would represent as floating point."""
_OF_FILES = ("IOException", "HTTPException")


@dataclass(frozen=True)
class QueryRows:
    """All rows by column, and the units of columns that have one. Columns in ``wide`` contain integers as text."""

    columns: Arrays
    units: Mapping[str, str]
    wide: frozenset[str]
    notes: Sequence[str] = ()


def query(store: Store, manifests: Sequence[Manifest], sql: str, frames: Mapping[str, Any] | None = None) -> QueryRows:
    """Return all rows of one SELECT over some workloads, with ``frames`` (pandas) as additional tables by name.

    Raises NotAllowed for anything but a query, NotFound and BadArgument for mistakes in it, and StoreProblem if
    required data cannot be read; damaged workloads are skipped and named in ``notes``.
    """
    if "\0" in sql:
        raise BadArgument("The SQL contains a NUL character")
    rows, damages = skip_damaged(store, manifests, lambda whole: _run_query(store, whole, sql, frames or {}))
    return replace(rows, notes=damages)


def _run_query(store: Store, manifests: Sequence[Manifest], sql: str, frames: Mapping[str, Any]) -> QueryRows:
    import duckdb

    offer = ReadableTables(store, manifests)
    _refuse_names(frames, offer.columns)
    used: frozenset[str] = frozenset()
    with connect() as con, scratch() as folder:
        con.execute("SET errors_as_json = true")
        # Only tables of the store and the given frames are visible, never the caller's variables.
        con.execute("SET python_enable_replacements = false")
        try:
            for name, frame in frames.items():
                con.register(name, frame)
            text, explain, tree = gate(duckdb, con, sql)
            named = references(tree, {*offer.columns, *map(str.lower, frames)})
            used = frozenset(named.tables)
            offer.widen(named)
            for table, known in offer.columns.items():
                rows = None
                if table in used:
                    rows = source(store, offer.workloads(table, named), table, list(known), folder)
                empty = ", ".join(f"NULL::{column.type} AS {sql_name(name)}" for name, column in known.items())
                con.execute(f"CREATE TEMP VIEW {table} AS {rows or f'SELECT {empty} WHERE false'}")
            return _fetch_rows(con, text, explain, tree, offer)
        except StatementRefused as refusal:
            raise errors.query_problem(str(refusal)) from None
        except RecursionError:
            raise errors.query_problem("too_deep") from None
        except duckdb.Error as error:
            kind = type(error).__name__
            if kind in _OF_FILES:
                if readable_workloads(store, manifests)[1]:
                    raise StoreProblem("A table of the store could not be read") from error
                raise BadArgument("The query failed", str(error).splitlines()[0]) from error
            failed = FailedQuery(sql, {**offer.columns, **dict.fromkeys(frames, ())}, used)
            raise errors.problem({"phase": "run", "type": kind, "message": str(error)}, failed) from error


def _refuse_names(frames: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    for name in frames:
        if name.lower() in tables:
            raise BadArgument(f"{name!r} is a table of the store", fix="Give the frame another name")
        if not (hasattr(frames[name], "columns") and hasattr(frames[name], "dtypes")):
            kind = type(frames[name]).__name__
            raise BadArgument(
                f"{name!r} is not a DataFrame", f"it is a {kind}", "Additional tables must be data frames"
            )


def _fetch_rows(con: Any, sql: str, explain: str, tree: Any, offer: ReadableTables) -> QueryRows:
    if explain:
        return QueryRows(con.execute(f"{explain} {sql}").fetchnumpy(), {}, frozenset())
    import duckdb

    relation = query_relation(duckdb, con, sql)
    names = list(relation.columns)
    wide = [str(kind) in _WIDE for kind in relation.types]
    of = result_units(tree, names, offer.columns)
    if any(wide):
        relation = relation.project(columns_as_text(wide))
    arrays = list(relation.fetchnumpy().values())
    distinct_names = _distinct(names)
    return QueryRows(
        dict(zip(distinct_names, arrays, strict=True)),
        {name: unit for name, unit in zip(distinct_names, of, strict=True) if unit},
        frozenset(name for name, w in zip(distinct_names, wide, strict=True) if w),
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Return column names, with a number appended to repeated ones."""
    distinct_names: list[str] = []
    for name in names:
        candidate, n = name, 1
        while candidate in distinct_names:
            candidate, n = f"{name}_{n}", n + 1
        distinct_names.append(candidate)
    return distinct_names
