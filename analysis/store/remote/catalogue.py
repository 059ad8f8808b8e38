"""The DuckLake catalogue of a shared store: the list of workloads, and SQL over all of them.

Its tables are those of docs/reference/schema.md that are stored in files, partitioned by a workload column, and
``workloads`` and ``facts`` with the checksum of the manifest. The rows of a workload are its own Parquet files, which
are registered without copying them.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...base.database import column_names, open_own_database, sql_literal, sql_name
from ...base.problems import BadArgument, Unreachable
from ...base.temporary_files import mark
from ..manifest import PREFIX, Manifest
from ..schema import manifest_rows, stored_columns, stored_tables
from ..store import TABLES
from ..wording import problem
from .address import S3, Lake, bucket, mask_secrets
from .extensions import load
from .objects import Folder
from .s3 import Objects, S3Objects

if TYPE_CHECKING:
    import duckdb

_LAKE, _PLAIN = "lake", "catalogue"
_VERSION_COLUMN = "manifest_sha256"
"""An additional column of ``workloads``: the checksum of the stored manifest."""
_ROWS = ("workloads", "facts")
_LOCK = 0x726F6F666C656E73
"""The number of the PostgreSQL advisory lock that is held while workloads are registered or removed."""
_TRIES, _PAUSE_S = 20, 0.2
_PATIENCE_S, _POLL_S = 1800, 0.05
"""How long a writer waits for others: with many of them every one has its turn only after some minutes."""
_CONNECT_S = 5
_SNAPSHOTS_S = 86_400
"""How long old snapshots of the catalogue are kept: longer than any query takes."""
_MEMORY = "2GB"
_REQUESTS = 16
"""The number of threads, one per file; they mostly wait for the storage."""
_OFFLINE: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
T = TypeVar("T")


class Catalogue:
    """One catalogue. Connections are opened on first use and kept, because loading extensions takes half a second.

    ``room`` is a local folder for data read from the shared store.
    """

    def __init__(self, place: Lake, room: Path) -> None:
        self.place, self.room = place, room

    # -- reading -----------------------------------------------------------------------------

    def data(self) -> Objects:
        """The location of the files."""
        if self._path.startswith(S3):
            return S3Objects(bucket(self._path))
        if not self._path.startswith("/"):
            raise problem("unsupported_data_path", path=mask_secrets(self._path)[:200])
        return Folder(Path(self._path))

    def manifest_versions(self, id: str | None = None) -> dict[str, str]:
        """Id -> SHA-256 of the manifest of every workload, or of one."""
        only = "" if id is None else f" WHERE workload = {sql_literal(id)}"
        with self._open(read_only=True) as con:
            rows = con.execute(f"SELECT workload, {_VERSION_COLUMN} FROM {_LAKE}.workloads{only}").fetchall()
        return {str(workload): str(version) for workload, version in rows}

    def columns(self, table: str) -> list[str]:
        """The columns of one table."""
        with self._open(read_only=True) as con:
            return column_names(con, f"{_LAKE}.{table}")

    def extract(self, ids: Sequence[str], table: str, names: Sequence[str], target: Path) -> None:
        """Write the columns ``names`` that exist in the table, for some workloads, to a new Parquet file.

        Reads only these columns, and only from the files of these workloads.
        """
        draft = self.room / mark()
        try:
            with self._open(read_only=True) as con:
                self.room.mkdir(parents=True, exist_ok=True)
                known = {name.lower() for name in column_names(con, f"{_LAKE}.{table}")}
                column_list = ", ".join(sql_name(name) for name in names if name.lower() in known)
                id_list = ", ".join(map(sql_literal, ids))
                con.execute(
                    f"COPY (SELECT {column_list} FROM {_LAKE}.{table} WHERE workload IN ({id_list})) "
                    f"TO {sql_literal(str(draft))} (FORMAT parquet)"
                )
            shutil.move(draft, target)
        finally:
            draft.unlink(missing_ok=True)

    # -- writing -----------------------------------------------------------------------------

    def create(self, data: str) -> bool:
        """Create the catalogue, with its files at ``data`` (``s3://...`` or a folder); returns False if it already
        exists.

        Raises BadArgument for an invalid place.
        """
        path = f"{bucket(data)}/" if data.startswith(S3) else f"{Path(data).expanduser().absolute()}/"
        if mask_secrets(data) != data:
            raise problem("data_path_with_password")
        with closing(self._plain_connection()) as con:
            before = self._find_data_path(con)
        if before is not None:
            if before != path:
                what = f"The catalogue keeps its files at {before}"
                raise BadArgument(what, f"and not at {path}", "Use another database, or leave --data unchanged")
            return False
        with closing(self._connect(read_only=False, create=path)) as con, self._explain_errors():
            con.execute("BEGIN")
            for table in (*_ROWS, *TABLES):
                known = stored_columns(table)
                column_definitions = [f"{sql_name(name)} {column.type}" for name, column in known.items()]
                if table == "workloads":
                    column_definitions.append(f"{_VERSION_COLUMN} VARCHAR")
                if "workload" not in known:
                    column_definitions.insert(0, "workload VARCHAR")
                con.execute(f"CREATE TABLE {_LAKE}.{table} ({', '.join(column_definitions)})")
                if table in TABLES:
                    con.execute(f"ALTER TABLE {_LAKE}.{table} SET PARTITIONED BY (workload)")
            con.execute("COMMIT")
            for table in TABLES:
                # Deleting all rows then removes the file from the table instead of recording deleted rows.
                con.execute(f"CALL {_LAKE}.set_option('data_inlining_row_limit', 0, table_name => '{table}')")
        return True

    def add(self, manifests: Mapping[str, Manifest], data: Objects) -> list[bool]:
        """Register workloads whose files are in place, by the checksums of their manifests, in one transaction.

        Returns whether each was new: if several writers push the same workload, only one registers it.
        """
        return self._write_exclusively(lambda con: _add(con, manifests, data))

    def restate(self, manifest: Manifest, version: str, put: Callable[[], None]) -> None:
        """Replace the manifest of a registered workload in one transaction, during which ``put`` stores it."""

        def replace_manifest(con: duckdb.DuckDBPyConnection) -> None:
            _update_manifest(con, manifest, version)
            put()

        self._write_exclusively(replace_manifest)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove workloads in one transaction, and snapshots older than a day; the files stay."""

        def forget(con: duckdb.DuckDBPyConnection) -> None:
            id_list = ", ".join(map(sql_literal, ids))
            for table in (*_ROWS, *TABLES):
                con.execute(f"DELETE FROM {_LAKE}.{table} WHERE workload IN ({id_list})")

        self._write_exclusively(forget)
        for work in (_expire, _unschedule):  # the first must finish before its scheduled deletions are visible
            self._write_exclusively(work)

    def _write_exclusively(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run ``work`` in a transaction while no other rooflens writes; retried if another client interfered."""
        import duckdb

        with self._writer_lock():
            for attempt in range(_TRIES):
                with self._open(read_only=False) as con:
                    try:
                        con.execute("BEGIN")
                        result = work(con)
                        con.execute("COMMIT")
                        return result
                    except duckdb.TransactionException:
                        if attempt + 1 == _TRIES:
                            raise
                time.sleep(_PAUSE_S * (1 + random.random()))
        raise AssertionError("unreachable")

    @contextmanager
    def _writer_lock(self) -> Iterator[None]:
        """Hold the writer lock, which is released with this connection even if the process is killed."""
        if not self.place.postgres:  # only one process at a time can open a DuckDB file anyway
            yield
            return
        with self._open(read_only=False) as con:
            con.execute("BEGIN")
            query = sql_literal(f"SELECT pg_try_advisory_xact_lock({_LOCK})::text AS free")
            end = time.monotonic() + _PATIENCE_S
            while con.execute(f"FROM postgres_query('{_PLAIN}', {query})").fetchall() != [("true",)]:
                if time.monotonic() > end:
                    raise Unreachable(
                        f"The catalogue could not be written within {_PATIENCE_S} s",
                        "another writer holds the lock",
                        "Try again later; pg_locks of the database shows who holds an advisory lock",
                    )
                time.sleep(_POLL_S)
            yield
            con.execute("ROLLBACK")

    # -- connections -------------------------------------------------------------------------

    @contextmanager
    def _open(self, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """A new cursor with the catalogue attached."""
        wanted, other = ("_reader", "_writer") if read_only else ("_writer", "_reader")
        if not self.place.postgres and (held := self.__dict__.pop(other, None)):
            held.close()  # a file can be attached only once
        with closing(getattr(self, wanted).cursor()) as con, self._explain_errors():
            yield con

    @cached_property
    def _reader(self) -> duckdb.DuckDBPyConnection:
        con = self._connect(read_only=True)
        rooms = f"[{sql_literal(self._path)}, {sql_literal(f'{self.room}/')}]"
        with self._explain_errors():
            # Paths in a catalogue are not trusted: nothing outside of its data path is read.
            con.execute(f"SET allowed_directories = {rooms}")
            con.execute("SET enable_external_access = false")
        return con

    @cached_property
    def _writer(self) -> duckdb.DuckDBPyConnection:
        con = self._connect(read_only=False)
        if self.place.postgres:
            with self._explain_errors():
                con.execute(f"ATTACH {sql_literal(self._libpq)} AS {_PLAIN} (TYPE postgres)")
        return con

    @cached_property
    def _path(self) -> str:
        """The data path. Raises StoreProblem if there is no catalogue."""
        with closing(self._plain_connection()) as con:
            return self._require_data_path(con)

    def _connect(self, *, read_only: bool, create: str | None = None) -> duckdb.DuckDBPyConnection:
        """A separate database with the catalogue attached and the extensions for its files loaded."""
        import duckdb

        con = self._plain_connection()
        if "_path" not in self.__dict__ and not create:
            self.__dict__["_path"] = self._require_data_path(con)
        data = create or self._path
        options = ["READ_ONLY"] if read_only else []
        options += [f"DATA_PATH {sql_literal(create)}"] if create else ["CREATE_IF_NOT_EXISTS false"]
        name = f"ducklake:postgres:{self._libpq}" if self.place.postgres else str(self.place)
        load(con, ["ducklake", *(["httpfs"] if data.startswith(S3) else [])])
        if data.startswith(S3):
            S3Objects(bucket(data)).secret(con, "rooflens")
        try:
            con.execute(f"ATTACH {sql_literal(name)} AS {_LAKE} ({', '.join(options)})")
            query = f"SELECT lower(view_name) FROM duckdb_views() WHERE database_name = '{_LAKE}'"
            views = {str(view) for (view,) in con.execute(query).fetchall()}
        except duckdb.Error as error:
            raise problem(
                "catalogue_unreadable",
                place=mask_secrets(str(self.place)),
                error=mask_secrets(str(error).splitlines()[0])[:300],
            ) from None
        if clashing_views := sorted(views & {*_ROWS, *TABLES}):
            raise problem("catalogue_with_view", clashing_views=clashing_views[0], place=mask_secrets(str(self.place)))
        return con

    def _plain_connection(self) -> duckdb.DuckDBPyConnection:
        """A separate database that can access the location of the catalogue."""
        con = open_own_database(_REQUESTS, memory_limit=_MEMORY, **_OFFLINE)
        if self.place.postgres:
            load(con, ["postgres_scanner"])
        return con

    def _require_data_path(self, con: duckdb.DuckDBPyConnection) -> str:
        if (path := self._find_data_path(con)) is None:
            shown = mask_secrets(str(self.place))
            raise problem("no_catalogue", shown=shown)
        if not path.startswith(S3) and _is_private(Path(path)):
            raise problem("shared_data_path", path=mask_secrets(path)[:200])
        return path

    def _find_data_path(self, con: duckdb.DuckDBPyConnection) -> str | None:
        """The data path of the catalogue, or None if there is none. Raises StoreProblem if it cannot be reached."""
        import duckdb

        file = Path(self.place.connection)
        if not self.place.postgres and not file.exists():
            return None
        kind, name = ("postgres", self._libpq) if self.place.postgres else ("duckdb", str(file))
        with self._explain_errors():
            con.execute(f"ATTACH {sql_literal(name)} AS {_PLAIN} (TYPE {kind}, READ_ONLY)")
        try:
            query = f"SELECT value FROM {_PLAIN}.ducklake_metadata WHERE key = 'data_path'"
            row = con.execute(query).fetchone()
        except duckdb.CatalogException:
            return None
        finally:
            con.execute(f"DETACH {_PLAIN}")
        return str(row[0]) if row else None

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Convert DuckDB errors to Unreachable: the queries are internal, so a failure is caused by the catalogue's
        location."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            for kept in ("_reader", "_writer"):  # the next query reconnects
                self.__dict__.pop(kept, None)
            why = mask_secrets(str(error).splitlines()[0])[:300]
            raise Unreachable(
                f"The catalogue {mask_secrets(str(self.place))} cannot be used",
                why,
                "Check that its server runs, and that this user can read (and, to push, write) its tables and files",
            ) from error

    @property
    def _libpq(self) -> str:
        connection = self.place.connection
        return connection if "connect_timeout" in connection else f"{connection} connect_timeout={_CONNECT_S}"


def _add(con: duckdb.DuckDBPyConnection, manifests: Mapping[str, Manifest], data: Objects) -> list[bool]:
    """Execute the statements that register workloads; returns whether each was new.

    Each table gets the rows or files of all workloads in one statement, because other writers wait for the end.
    """
    ids = ", ".join(sql_literal(manifest.id) for manifest in manifests.values())
    query = f"SELECT workload, {_VERSION_COLUMN} FROM {_LAKE}.workloads WHERE workload IN ({ids})"
    known = dict(con.execute(query).fetchall()) if ids else {}
    for version, manifest in manifests.items():
        if known.get(manifest.id, version) != version:  # an earlier change of its tags was interrupted
            _update_manifest(con, manifest, version)
    new = {version: manifest for version, manifest in manifests.items() if manifest.id not in known}
    for table in _ROWS:
        rows = [row for m in new.values() for row in manifest_rows(table, [m])]
        if table == "workloads":
            rows = [{**row, _VERSION_COLUMN: version} for row, version in zip(rows, new, strict=True)]
        if rows:
            names = ", ".join(map(sql_name, rows[0]))
            marks = ", ".join(f"({', '.join('?' for _ in row)})" for row in rows)
            values = [value for row in rows for value in row.values()]
            con.execute(f"INSERT INTO {_LAKE}.{table} ({names}) VALUES {marks}", values)
    for table in TABLES:
        files = [f"{data.place}{PREFIX}{m.id}/{table}.parquet" for m in new.values() if f"{table}.parquet" in m.files]
        if not files:
            continue
        paths = f"[{', '.join(map(sql_literal, files))}]"
        if stored_tables()[table].open:
            _widen(con, table, paths)
        con.execute(
            f"CALL ducklake_add_data_files('{_LAKE}', '{table}', {paths}, allow_missing => true, "
            "ignore_extra_columns => true, hive_partitioning => true)"
        )
    return [manifest.id not in known for manifest in manifests.values()]


def _update_manifest(con: duckdb.DuckDBPyConnection, manifest: Manifest, version: str) -> None:
    """Execute the statement that updates the manifest of a registered workload: only its tags can differ."""
    (row,) = manifest_rows("workloads", [manifest])
    changed = f"UPDATE {_LAKE}.workloads SET tags = ?, {_VERSION_COLUMN} = ? WHERE workload = ?"
    con.execute(changed, [row["tags"], version, manifest.id])


def _expire(con: duckdb.DuckDBPyConnection) -> None:
    """Expire old snapshots, and with them the rows of removed workloads."""
    before = f"(now() AT TIME ZONE 'UTC')::TIMESTAMP - INTERVAL {_SNAPSHOTS_S} SECOND"
    con.execute(f"CALL ducklake_expire_snapshots('{_LAKE}', older_than => {before})")


def _unschedule(con: duckdb.DuckDBPyConnection) -> None:
    """Keep DuckLake from deleting files of removed workloads: rooflens does, and a later push may have restored
    them."""
    scheduled = f"__ducklake_metadata_{_LAKE}.ducklake_files_scheduled_for_deletion"
    con.execute(f"DELETE FROM {scheduled} WHERE contains(path, {sql_literal(PREFIX)})")


def _widen(con: duckdb.DuckDBPyConnection, table: str, paths: str) -> None:
    """Add the columns of files that a table lacks."""
    there = {name.lower() for name in column_names(con, f"{_LAKE}.{table}")}
    of_files = f"read_parquet({paths}, hive_partitioning = false, union_by_name = true)"
    for name, kind, *_ in con.execute(f"DESCRIBE FROM {of_files}").fetchall():
        if name.lower() not in there:
            con.execute(f"ALTER TABLE {_LAKE}.{table} ADD COLUMN {sql_name(name)} {kind}")


def _is_private(path: Path) -> bool:
    """Whether a folder is or contains the user's home, or is a system folder."""
    real = path.resolve()
    own = [Path.home(), *(Path(value) for name, value in os.environ.items() if name.startswith("XDG_") and value)]
    system = any(real.is_relative_to(folder) for folder in ("/etc", "/proc", "/sys", "/dev"))
    return not path.is_absolute() or system or any(folder.resolve().is_relative_to(real) for folder in own)
