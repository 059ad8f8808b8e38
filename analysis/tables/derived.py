"""What follows from a workload is computed once and stored beside it: the rows of derived tables, and other values.

They are in ``<store>/derived/<digest>/<id>``, as ``<table>.parquet`` and ``<name>.json``. The digest covers all code
and data of the analysis, so another version uses its own files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from ..base.database import connect, sql_literal, sql_path
from ..base.digits import STORED
from ..base.problems import LimitExceeded, NotAllowed, StoreProblem
from ..base.temporary_files import OPEN_SAFELY, scratch
from ..catalogue import files
from ..store import measured_ceilings
from ..store.manifest import Manifest
from ..store.store import Store, write_table
from ..workload import Workload
from . import columns, derived_tables
from .declaration import DerivedTable, Row

T = TypeVar("T")
_LONGEST = 4 << 20
"""The maximum number of bytes of a stored value that is read."""


def derived_files(store: Store, manifests: Sequence[Manifest], table: str, spare: Path) -> list[Path]:
    """Return the Parquet files of a derived table, one per workload that has it; missing ones are computed now.

    If the store cannot be written to, they go to ``spare``. Several processes may write the same file: each renames a
    complete file into place.
    """
    declared, home = derived_tables()[table], store.derived_folder(digest())
    having = {m.id: home / m.id / _file_name(store, declared) for m in manifests if declared.exists(m)}
    missing = [m for m in manifests if m.id in having and not measured_ceilings.is_complete(having[m.id])]
    store.prepare(missing)
    for manifest in missing:
        having[manifest.id] = _compute(store, manifest, declared, home / manifest.id, spare)
    if having:
        _mark_used(store, computed=bool(missing))
    return list(having.values())


def _mark_used(store: Store, *, computed: bool) -> None:
    """Delete what is no longer used if something was added, or else keep the files of this version from deletion."""
    if computed and not store.read_only:
        store.sweep_derived(digest())
        return
    with contextlib.suppress(OSError):  # read-only stores are not swept either
        # Store.sweep_derived sees from the folder's time whether it is still in use.
        os.utime(store.derived_folder(digest()))


def table_rows(workload: Workload, table: str) -> list[Row]:
    """Return the rows of a derived table for a workload, from its file or computed now."""
    with scratch() as folder:
        files = derived_files(workload.store, [workload.manifest], table, folder)
        if not files:
            return []
        read = workload.cursor.execute(f"SELECT * FROM read_parquet({sql_path(files[0])})")
        names = [name for name, *_ in read.description]
        return [dict(zip(names, row, strict=True)) for row in read.fetchall()]


def stored_value(workload: Workload, name: str, kind: Any, compute: Callable[[], T]) -> T:
    """Return a value that follows from a workload, from its file or computed now, with the same digits.

    ``kind`` is a type that pydantic writes as JSON. ``name`` says what else the value depends on.
    """
    store, adapter = workload.store, pydantic.TypeAdapter[T](kind)
    path = store.derived_folder(digest()) / workload.id / f"{name}.json"
    with contextlib.suppress(OSError, ValueError):  # it does not exist, or is damaged
        with os.fdopen(os.open(path, OPEN_SAFELY), "rb") as file:
            value = adapter.validate_json(file.read(_LONGEST))
        _mark_used(store, computed=False)
        return value
    value = compute()
    with contextlib.suppress(StoreProblem, NotAllowed), store.draft() as folder:
        (folder / path.name).write_bytes(adapter.dump_json(value, context=STORED))
        store.keep(folder / path.name, path)
        _mark_used(store, computed=True)
    return value


def _file_name(store: Store, table: DerivedTable) -> str:
    if not table.measured:
        return f"{table.name}.parquet"
    return f"{table.name}-{ceilings_digest(store)}.parquet"


def ceilings_digest(store: Store) -> str:
    """Return a digest of the ceilings that were measured so far."""
    names = ",".join(path.name for path in measured_ceilings.files(store))
    return hashlib.sha256(names.encode()).hexdigest()[:8]


def _compute(store: Store, manifest: Manifest, table: DerivedTable, home: Path, spare: Path) -> Path:
    """Compute a table, with all others that are made of the same; return its file."""
    together = [each for each in derived_tables().values() if each.source == table.source] if table.source else [table]
    with Workload(store, manifest) as workload:
        source = table.source(workload) if table.source else workload
        stored = {}
        for each in together:
            assert each.rows
            rows = [{"workload": workload.id, **row} for row in each.rows(source)]
            stored[each.name] = _store_rows(store, rows, each.name, home / _file_name(store, each), spare)
    return stored[table.name]


def _store_rows(store: Store, rows: list[Row], table: str, target: Path, spare: Path) -> Path:
    """Return the file with the rows of one workload: ``target``, or a file in ``spare``."""
    select = f"SELECT * FROM {write_rows(rows, table, spare)}"
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

    analysis, hasher = Path(__file__).parents[1], hashlib.sha256(duckdb.__version__.encode())
    inputs = {*(p for p in analysis.rglob("*") if p.suffix in (".py", ".toml")), *files.all_files()}
    for path in sorted(inputs):
        hasher.update(path.name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()[:16]


def write_rows(rows: Iterable[Row], table: str, folder: Path) -> str:
    """Write rows as JSON lines and return the SQL that reads them with the types of the table."""
    path = folder / f"{table}.jsonl"
    try:
        with path.open("w", encoding="utf-8") as out:
            for row in rows:
                known = {k: v for k, v in row.items() if not isinstance(v, float) or math.isfinite(v)}
                out.write(json.dumps(known) + "\n")
    except OSError as error:
        what = f"The rows of {table} cannot be passed on"
        raise LimitExceeded(what, error.strerror or "", "Free space in the temporary folder") from error
    types = ", ".join(f"{sql_literal(n)}: {sql_literal(c.type)}" for n, c in columns(table).items())
    return f"read_json({sql_path(path)}, format = 'newline_delimited', columns = {{{types}}})"
