"""The command export-db: write the store, or one workload, as one .duckdb file with the tables of the SQL schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.base.database import open_own_database, sql_literal, sql_name
from ...analysis.base.problems import BadInput, StoreProblem
from ...analysis.base.temporary_files import draft_of, scratch
from ...analysis.store.integrity import readable_workloads
from ...analysis.store.schema import pass_times
from ...analysis.store.store import Manifest, Store
from ...analysis.tables import columns, schema
from ..base.progress import report
from .sources import source

if TYPE_CHECKING:
    import duckdb

# The format that DuckDB 1.5 clients can open too.
_STORAGE = "v1.5.0"


def export_db(store: Store, target: Path, workload: str | None = None) -> dict[str, int]:
    """Write ``target`` and return the number of rows of every table; the file appears only when it is complete.

    Raises BadInput for an empty store, and StoreProblem if the file cannot be written.
    """
    import duckdb

    manifests = [store.resolve(workload)] if workload is not None else store.scan()[0]
    if not manifests:
        raise BadInput("There is nothing to export", f"the store {store.address} is empty")
    con = open_own_database()
    try:
        with draft_of(target) as draft:
            return _export(con, store, manifests, draft)
    except (duckdb.Error, OSError, StoreProblem) as error:
        if damages := readable_workloads(store, manifests)[1]:
            what, why = "The store cannot be exported because of damaged files", " ".join(damages[:3])
            raise StoreProblem(what, why, "Delete the damaged workloads, or name another workload") from error
        if not isinstance(error, duckdb.IOException | OSError):
            raise
        raise StoreProblem(
            f"{target} cannot be written", str(error).splitlines()[0], "Name a file in a writable folder"
        ) from error
    finally:
        con.close()


def _export(con: duckdb.DuckDBPyConnection, store: Store, manifests: list[Manifest], target: Path) -> dict[str, int]:
    """Write the new file ``target``; return the number of rows of every table."""
    try:
        con.execute(f"ATTACH {sql_literal(str(target))} AS out (STORAGE_VERSION {sql_literal(_STORAGE)})")
        counts, tables = dict[str, int](), schema()
        for number, table in enumerate(tables):
            report(f"export: {table}", number / len(tables))
            counts[table] = _export_table(con, store, manifests, table)
        con.execute("DETACH out")
    finally:
        target.with_name(target.name + ".wal").unlink(missing_ok=True)
    return counts


def _export_table(con: duckdb.DuckDBPyConnection, store: Store, manifests: list[Manifest], table: str) -> int:
    known = columns(table, manifests, pass_times(store, manifests) if table == "counters" else ())
    column_definitions = ", ".join(f"{sql_name(name)} {column.type}" for name, column in known.items())
    con.execute(f"CREATE TABLE out.{table} ({column_definitions})")
    for name, column in known.items():
        unit = f" [{column.unit}]" if column.unit else ""
        con.execute(f"COMMENT ON COLUMN out.{table}.{sql_name(name)} IS {sql_literal(column.description + unit)}")
    with scratch() as folder:
        if rows := source(store, manifests, table, list(known), folder):
            con.execute(f"INSERT INTO out.{table} BY NAME {rows}")
    [(count,)] = con.execute(f"SELECT count(*) FROM out.{table}").fetchall()
    return int(count)
