"""`rooflens export-db`: write the store as one DuckDB file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "write the store as one .duckdb file for any DuckDB client"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--workload", help="only this workload: id, unique id prefix, name or latest")


def execute(options: Namespace, store: Store) -> Outcome:
    """Write the file, and print how many rows each table has."""
    from ...tools.sql.export import export_db

    target = Path(options.file)
    if target.exists():
        raise BadArgument(f"{target} exists already", fix="Choose a new file, or delete the existing one first")
    rows = export_db(store, target, options.workload)
    return Outcome(
        {"file": options.file, "rows": rows},
        [f"{table}: {count} rows" for table, count in rows.items()],
    )
