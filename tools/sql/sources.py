"""How the rows of every SQL table are read: from files of workloads, from derived files, or from rows that are written
for a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ...analysis.base.database import sql_name, sql_path
from ...analysis.base.problems import StoreProblem
from ...analysis.store.integrity import readable_workloads
from ...analysis.store.schema import further_names, manifest_rows, pass_times, relation
from ...analysis.store.store import TABLES, Manifest, Store
from ...analysis.tables import columns, derived_tables, schema
from ...analysis.tables.derived import derived_files, write_rows
from ..base.results import Table
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


class ReadableTables:
    """What a query may read: the tables of some workloads, with all their columns."""

    def __init__(self, store: Store, manifests: Sequence[Manifest]) -> None:
        self.store, self.manifests = store, manifests
        self.columns = {name: columns(name, manifests) for name in schema()}

    def widen(self, named: References) -> None:
        """Add columns to the table counters that a query can name: other names of counters, times of single passes."""
        counters = self.columns["counters"] | columns("counters", more=further_names(self.manifests, named.words))
        if named.may_list_columns:
            counters = columns("counters", self.manifests, pass_times(self.store, self.manifests)) | counters
        self.columns["counters"] = counters

    def workloads(self, table: str, named: References) -> list[Manifest]:
        """Return the workloads whose rows of a table a query can use."""
        only = named.workloads.get(table)
        return [one for one in self.manifests if only is None or one.id in only]


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


def plan(offer: ReadableTables, named: References, folder: Path, first: tuple[str, int, bool] | None) -> SqlLoadPlan:
    """Create every table, and fill the columns and rows that the query can use.

    ``folder`` receives rows that are in no file yet; ``first`` is the result of ``rows_needed``.
    """
    load_plan = SqlLoadPlan()
    for table, known in offer.columns.items():
        names = list(known)
        if table in named.tables and table not in named.whole and not named.foreign:
            names = [name for name in names if name.lower() in named.words] or names[:1]
        column_definitions = ", ".join(f"{sql_name(name)} {known[name].type}" for name in names)
        load_plan.load.append(f"CREATE TABLE {table} ({column_definitions})")
        if table not in named.tables:
            continue
        manifests = offer.workloads(table, named)
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
    derived = derived_tables().get(table)
    if derived and not derived.fill:
        files = derived_files(store, manifests, table, folder)
        return f"SELECT {picks} FROM read_parquet([{', '.join(map(sql_path, files))}])" if files else None
    rows = derived.fill(store, manifests) if derived and derived.fill else manifest_rows(table, manifests)
    return f"SELECT {picks} FROM {write_rows(rows, table, folder)}" if rows else None


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
