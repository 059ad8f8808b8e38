"""Which trusted SQL gives the worker the tables of a query, and the tables that are computed on request."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..analysis.problems import LimitExceeded
from ..analysis.schema import Column, manifest_rows, relation, schema
from ..analysis.store import Manifest, Store, sql_literal, sql_name
from .providers import PROVIDERS
from .sandbox import MEMORY_BYTES
from .sql_errors import too_wide
from .sql_references import Node, References, row_limit

_WIDTH = {"VARCHAR": 40, "DOUBLE": 8, "BIGINT": 8, "INTEGER": 4, "SMALLINT": 2}
"""Bytes of a value in memory, roughly."""


@dataclass
class Plan:
    """Trusted SQL for the worker: ``load`` fills the tables, ``count`` counts the rows where not all are copied."""

    load: list[str] = field(default_factory=list)
    count: str | None = None
    empty: list[str] = field(default_factory=list)
    """Tables of the query that have no rows anywhere."""


def plan(
    store: Store,
    manifests: list[Manifest],
    tables: Mapping[str, Mapping[str, Column]],
    found: References,
    folder: Path,
    first: tuple[str, int, bool] | None,
) -> Plan:
    """Create every one of ``tables``, and fill those columns that the query can use.

    ``folder`` takes the rows of computed tables; ``first`` is what ``rows_needed`` said.
    """
    made = Plan()
    for table, columns in tables.items():
        names = list(columns)
        if table in found.tables and table not in found.whole and not found.foreign:
            names = [name for name in names if name.lower() in found.words] or names[:1]
        typed = ", ".join(f"{sql_name(name)} {columns[name].type}" for name in names)
        made.load.append(f"CREATE TABLE {table} ({typed})")
        if table not in found.tables:
            continue
        if computed := _computed(store, manifests, table):
            _write_rows(computed, folder / f"{table}.jsonl")
            made.load.append(f"INSERT INTO {table} {_read_rows(table, columns, names)}")
        elif source := relation(store, manifests, table, names):
            limit = ""
            if first:
                limit = f" LIMIT {first[1]}"
                made.count = f"SELECT count(*) FROM ({source})" if first[2] else None
            else:
                _check_size(table, manifests, [columns[name].type for name in names])
            made.load.append(f"INSERT INTO {table} {source}{limit}")
        else:
            made.empty.append(table)
    return made


def rows_needed(tree: Node, found: References, limit: int) -> tuple[str, int, bool] | None:
    """``row_limit`` for a query that shows the first ``limit`` rows, where nothing else in it forbids that."""
    return row_limit(tree, limit + 1) if len(found.tables) == 1 and not found.foreign else None


def _computed(
    store: Store, manifests: list[Manifest], table: str
) -> tuple[Sequence[str], Sequence[Sequence[Any]]] | None:
    """Columns and rows of a table that is not kept in files; computed only when a query names it."""
    if table in ("workloads", "facts"):
        return list(schema()[table].columns), manifest_rows(table, manifests)
    return PROVIDERS[table](store, manifests) if table in PROVIDERS else None


def _write_rows(given: tuple[Sequence[str], Sequence[Sequence[Any]]], path: Path) -> None:
    names, rows = given
    try:
        with path.open("w", encoding="utf-8") as out:
            for row in rows:
                finite = (None if isinstance(value, float) and not math.isfinite(value) else value for value in row)
                out.write(json.dumps(dict(zip(names, finite, strict=True))) + "\n")
    except OSError as error:
        what = f"The rows of {path.stem} cannot be handed over"
        raise LimitExceeded(what, error.strerror or "", "Free space in the temporary folder") from error


def _read_rows(table: str, columns: Mapping[str, Column], names: list[str]) -> str:
    """SQL for the worker, which starts in the folder of the file."""
    types = ", ".join(f"{sql_literal(name)}: {sql_literal(columns[name].type)}" for name in names)
    picks = ", ".join(map(sql_name, names))
    return f"SELECT {picks} FROM read_json('{table}.jsonl', format = 'newline_delimited', columns = {{{types}}})"


def _check_size(table: str, manifests: list[Manifest], types: list[str]) -> None:
    """Refuse at once what would fill the memory after seconds of copying."""
    rows = sum(m.dispatches for m in manifests) if table in ("dispatches", "counters") else 0
    if rows * sum(_WIDTH[kind] for kind in types) > 0.8 * MEMORY_BYTES:
        raise too_wide(table, rows, len(types))
