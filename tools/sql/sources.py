"""How the rows of every SQL table are read: from workload files, from derived files, or from rows written for a query.

Tables that follow from a workload alone are computed once and stored as
``<store>/derived/<digest>/<id>/<table>.parquet``. The digest covers all code and data of the computation, so another
version uses its own files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from ...analysis.base.database import connect, sql_literal, sql_name, sql_path
from ...analysis.base.problems import LimitExceeded, NotAllowed, StoreProblem
from ...analysis.catalogue import files
from ...analysis.store import measured_ceilings
from ...analysis.store.integrity import readable_workloads
from ...analysis.store.schema import SchemaColumn, columns, further_names, manifest_rows, pass_times, relation, schema
from ...analysis.store.store import TABLES, Manifest, Store, write_table
from ...analysis.workload import Workload
from ..base.results import Table
from .computed_tables import DERIVED, Row, log_rows
from .errors import query_problem
from .references import References
from .sandbox import MEMORY_BYTES

T = TypeVar("T")
_WIDTH = {"VARCHAR": 40, "DOUBLE": 8, "BIGINT": 8, "INTEGER": 4, "SMALLINT": 2, "BOOLEAN": 1}
"""Approximate bytes of a value in memory."""
_LONG = ("dispatches", "counters", "events")
"""Tables whose number of rows is in the manifest."""


@dataclass
class SqlLoadPlan:
    """Trusted SQL for the worker: ``load`` fills the tables, ``count`` counts the rows if not all are copied."""

    load: list[str] = field(default_factory=list)
    count: str | None = None
    empty: list[str] = field(default_factory=list)
    """Tables of the query that have no rows at all."""


@dataclass(frozen=True)
class ReadableTables:
    """What a query may read: the tables of some workloads, with all their columns."""

    store: Store
    manifests: list[Manifest]
    tables: Mapping[str, Mapping[str, SchemaColumn]]


def skip_damaged(
    store: Store, manifests: Sequence[Manifest], run: Callable[[list[Manifest]], T]
) -> tuple[T, list[str]]:
    """Run a query; without the damaged workloads, and with notes on them, if a file of the store cannot be read."""
    try:
        return run(list(manifests)), []
    except StoreProblem:
        whole, damages = readable_workloads(store, manifests)
        if not whole:
            raise
    return run(whole), [f"Skipped: {sentence}" for sentence in damages]


def widen_counters(
    store: Store, manifests: Sequence[Manifest], tables: dict[str, dict[str, SchemaColumn]], named: References
) -> None:
    """Add columns to the table counters that a query can name: other names of counters, times of single passes."""
    tables["counters"] |= columns("counters", more=further_names(manifests, named.words))
    if named.may_list_columns:
        tables["counters"] = columns("counters", manifests, pass_times(store, manifests)) | tables["counters"]


def plan(offer: ReadableTables, named: References, folder: Path, first: tuple[str, int, bool] | None) -> SqlLoadPlan:
    """Create every table, and fill the columns and rows that the query can use.

    ``folder`` receives rows that are in no file yet; ``first`` is the result of ``rows_needed``.
    """
    load_plan = SqlLoadPlan()
    for table, known in offer.tables.items():
        names = list(known)
        if table in named.tables and table not in named.whole and not named.foreign:
            names = [name for name in names if name.lower() in named.words] or names[:1]
        column_definitions = ", ".join(f"{sql_name(name)} {known[name].type}" for name in names)
        load_plan.load.append(f"CREATE TABLE {table} ({column_definitions})")
        if table not in named.tables:
            continue
        only = named.workloads.get(table)
        manifests = offer.manifests if only is None else [m for m in offer.manifests if m.id in only]
        rows = source(offer.store, manifests, table, names, folder)
        if table in TABLES and rows is None and not any(f"{table}.parquet" in m.files for m in offer.manifests):
            load_plan.empty.append(table)
        if rows is None:
            continue
        limit = ""
        if first:
            limit = f" LIMIT {first[1]}"
            load_plan.count = f"SELECT count(*) FROM ({rows})" if first[2] else None
        else:
            _check_size(table, manifests, [known[name].type for name in names])
        load_plan.load.append(f"INSERT INTO {table} {rows}{limit}")
    return load_plan


def source(store: Store, manifests: Sequence[Manifest], table: str, names: Sequence[str], folder: Path) -> str | None:
    """Return trusted SQL that reads the columns ``names`` of a table of some workloads; None if there are no rows.

    ``folder`` receives files that must be written for this and cannot be stored in the store.
    """
    picks = ", ".join(map(sql_name, names))
    if table in TABLES:
        return relation(store, manifests, table, names, folder)
    if table in DERIVED:
        files = derived_files(store, manifests, table, folder)
        return f"SELECT {picks} FROM read_parquet([{', '.join(map(sql_path, files))}])" if files else None
    rows = log_rows(store, manifests) if table == "log" else manifest_rows(table, manifests)
    return f"SELECT {picks} FROM {_write_rows(rows, table, folder)}" if rows else None


# -- derived files ---------------------------------------------------------------------------------


def derived_files(store: Store, manifests: Iterable[Manifest], table: str, spare: Path) -> list[Path]:
    """Return the Parquet files of a derived table, one per workload that has it; missing ones are computed now.

    If the store cannot be written to, they go to ``spare``. Several processes may write the same file: each renames a
    complete file into place.
    """
    kind, home = DERIVED[table], store.derived_folder(digest())
    name, files, computed = f"{table}.parquet", [], False
    if kind.measured:
        # Verdicts depend on the measured ceilings.
        ceilings = ",".join(path.name for path in measured_ceilings.files(store))
        name = f"{table}-{hashlib.sha256(ceilings.encode()).hexdigest()[:8]}.parquet"
    having = [manifest for manifest in manifests if kind.exists(manifest)]
    store.prepare([manifest for manifest in having if not measured_ceilings.is_complete(home / manifest.id / name)])
    for manifest in having:
        path = home / manifest.id / name
        if not measured_ceilings.is_complete(path):
            with Workload(store, manifest) as workload:
                path, computed = _store_rows(store, kind.rows(workload), table, path, spare), True
        files.append(path)
    if computed and not store.read_only:
        store.sweep_derived(home.name)
    elif files:
        with contextlib.suppress(OSError):  # read-only stores are not swept either
            # Store.sweep_derived sees from the folder's time whether it is still in use.
            os.utime(home)
    return files


def _store_rows(store: Store, rows: list[Row], table: str, target: Path, spare: Path) -> Path:
    """Return the file with the rows of one workload: ``target``, or a file in ``spare``."""
    select = f"SELECT * FROM {_write_rows(rows, table, spare)}"
    with connect() as con:
        try:
            with store.draft() as folder:
                write_table(con, select, folder / target.name)
                store.keep(folder / target.name, target)
        except (StoreProblem, NotAllowed):
            target = spare / f"{target.parent.name}-{table}.parquet"
            write_table(con, select, target)
            return target
    for older in target.parent.glob(f"{table}-*.parquet"):
        if older != target:
            older.unlink(missing_ok=True)
    return target


@cache
def digest() -> str:
    """Return a digest of what derived files depend on: code and data of the analysis, and DuckDB's version."""
    import duckdb

    analysis, hasher = Path(__file__).parents[2] / "analysis", hashlib.sha256(duckdb.__version__.encode())
    inputs = {*(p for p in analysis.rglob("*") if p.suffix in (".py", ".toml")), *files.all_files()}
    for path in [*sorted(inputs), Path(__file__).with_name("computed_tables.py")]:
        hasher.update(path.name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()[:16]


# -- rows ------------------------------------------------------------------------------------------


def _write_rows(rows: Iterable[Row], table: str, folder: Path) -> str:
    """Write rows as JSON lines and return the SQL that reads them with the types of the schema."""
    path = folder / f"{table}.jsonl"
    try:
        with path.open("w", encoding="utf-8") as out:
            for row in rows:
                known = {k: v for k, v in row.items() if not isinstance(v, float) or math.isfinite(v)}
                out.write(json.dumps(known) + "\n")
    except OSError as error:
        what = f"The rows of {table} cannot be passed on"
        raise LimitExceeded(what, error.strerror or "", "Free space in the temporary folder") from error
    types = ", ".join(f"{sql_literal(n)}: {sql_literal(c.type)}" for n, c in schema()[table].columns.items())
    return f"read_json({sql_path(path)}, format = 'newline_delimited', columns = {{{types}}})"


def _check_size(table: str, manifests: Sequence[Manifest], types: list[str]) -> None:
    """Raise a Problem at once for data that would only fill the memory after seconds of copying."""
    rows = sum(m.events if table == "events" else m.dispatches for m in manifests) if table in _LONG else 0
    if rows * sum(_WIDTH[kind] for kind in types) > 0.8 * MEMORY_BYTES:
        raise query_problem("too_wide", table=table, rows=rows, columns=len(types), limit=MEMORY_BYTES / 1e9)


_OF_ONE = ["column_name", "column_type", "null", "key", "default", "extra"]
_OF_ALL = ["database", "schema", "name", "column_names", "column_types", "temporary"]
_FIRST = 40
"""Maximum columns shown when one table is described."""
_FIRST_OF_ALL = 30
"""Maximum columns shown per table when all tables are described."""
_SOME = "SELECT column_name FROM (DESCRIBE counters) WHERE column_name LIKE '%HIT%' finds more"


def shorten_description(table: Table, *, cut: bool) -> tuple[Table, list[str]] | None:
    """Return the answer to DESCRIBE without columns that are constant, and notes on it; None for other answers.

    ``cut``: limit the number of columns that are shown.
    """
    if table.columns == _OF_ALL:
        return _describe_all(table)
    if table.columns != _OF_ONE:
        return None
    rows = [row[:2] for row in table.rows]
    notes = [f"The first {_FIRST} rows are shown; {_SOME}."] if cut and len(rows) > _FIRST else []
    return _with_rows(table, _OF_ONE[:2], rows[:_FIRST] if notes else rows), notes


def _describe_all(table: Table) -> tuple[Table, list[str]]:
    rows, long = [], False
    for _, _, name, listed, *_ in table.rows:
        # The worker sends very many column names as text that may be cut off.
        names = listed if isinstance(listed, list) else [part.strip(' "') for part in listed.strip("[").split(",")]
        long |= len(names) > _FIRST_OF_ALL
        rows.append([name, ", ".join(names[:_FIRST_OF_ALL]) + (", ..." if len(names) > _FIRST_OF_ALL else "")])
    notes = ["DESCRIBE TABLE shows types.", *([f"Each counter is a column; {_SOME}."] * long)]
    return _with_rows(table, ["name", "column_names"], rows), notes


def _with_rows(table: Table, columns: list[str], rows: list[list[object]]) -> Table:
    return table.model_copy(update={"columns": columns, "units": [None] * len(columns), "rows": rows})
