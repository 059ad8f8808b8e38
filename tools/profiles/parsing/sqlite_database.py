"""Open SQLite files of profilers safely: read only, without private data, and without endless queries."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ....analysis.base.problems import BadInput, LimitExceeded
from ...base import size_limits
from ...base.profile_files import open_regular
from ...base.untrusted_text import plain_text
from ..merging.wording import refusal

if TYPE_CHECKING:
    import sqlite3

MAGIC = b"SQLite format 3\x00"
_PRIVATE = {"environment"}
_STACKS, _WITH_STACKS = {"call_stack", "line_info"}, "rocpd_event"
"""Columns with addresses and paths of the program, and the table in which they are read: there they are the frames of
the stacks that rocprof-sys samples, which say what code devices wait for."""
_FUNCTIONS = {
    "abs", "avg", "coalesce", "count", "ifnull", "iif", "json_extract", "json_valid", "max", "min", "nullif", "round",
    "sqrt", "substr", "sum", "total", "typeof",
}  # fmt: skip
"""Functions that AMD's views and rooflens use; others (printf, glob) may take minutes for one value without a pause."""
_WITH_EXTRA_DATA = ("rocpd_info_agent", "rocpd_event")
"""Tables whose column extdata is read: numbers of GPUs, and the names that a program gave to its ranges."""
_HEADER = 100
_STEPS = 20_000
_BATCH = 5_000


class Database:
    """An open database; every query names its columns."""

    def __init__(self, con: sqlite3.Connection, path: Path) -> None:
        self.con, self.path, self.size = con, path, path.stat().st_size
        self._patience_s = size_limits.patience_s(
            self.size, size_limits.DATABASE_PATIENCE_S, size_limits.DATABASE_BYTES_PER_S
        )
        self._deadline = 0.0
        con.set_progress_handler(lambda: int(time.thread_time() > self._deadline), _STEPS)
        self._objects = {
            str(name) for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        }

    def parts(self, name: str) -> list[str]:
        """Return the relations with the data of ``name``: the view, else its tables, which have a session id suffix."""
        if name in self._objects:
            return [name]
        return sorted(o for o in self._objects if re.fullmatch(rf"{name}_[0-9a-fA-F_]{{8,80}}", o))

    def tables(self, begin: str) -> set[str]:
        """Return the names, without a session id, of the relations that begin with ``begin``."""
        return {re.sub(r"_[0-9a-fA-F_]{8,80}$", "", name) for name in self._objects if name.startswith(begin)}

    def columns(self, name: str) -> set[str]:
        """Return the columns of the relations with the data of ``name``."""
        names: set[str] = set()
        for table in self.parts(name):
            sql = f'SELECT * FROM "{table}" LIMIT 0'
            names |= {str(column[0]) for column in self._patiently(partial(self.con.execute, sql)).description}
        return names

    def read(self, name: str, picks: Sequence[str], where: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """Yield batches of rows of the relations with the data of ``name``.

        A pick is SQL over their columns. Raises BadInput if they are missing or differ from the known layout.
        """
        relations = self.parts(name)
        if not relations:
            raise refusal("unknown_schema", file=self.path, why=f"it has no table {name}")
        for table in relations:
            yield from self.batches(f'SELECT {", ".join(picks)} FROM "{table}" {where}')

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in batches; a relation cannot have more rows than its file has bytes.

        All queries of a database share one time limit, so that no view in it can run for ever.
        """
        seen = 0
        cursor = self._patiently(lambda: self.con.execute(sql))  # already computes the first row
        while batch := self._patiently(lambda: cursor.fetchmany(_BATCH)):
            seen += len(batch)
            if seen > self.size:
                raise refusal("endless_view", file=self.path)
            yield batch

    def _patiently(self, step: Callable[[], Any]) -> Any:
        """Run a step of SQLite within the time limit of the database."""
        import sqlite3

        began = time.thread_time()
        self._deadline = began + self._patience_s
        try:
            return step()
        except (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError) as error:
            raise _problem(self.path, error) from error
        finally:
            self._patience_s -= time.thread_time() - began

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query with a small result."""
        return [row for batch in self.batches(sql) for row in batch]


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open a database that no other process is writing; BadInput for any other file."""
    import sqlite3

    _check_whole(path)
    for suffix in ("-journal", "-wal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            raise refusal("database_begun", file=path, beside=beside)
    _check_unlocked(path)
    con = sqlite3.connect(f"{_uri(path)}&immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    try:
        con.text_factory = lambda raw: raw.decode("utf-8", "replace")
        con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, size_limits.DATABASE_VALUE)
        con.set_authorizer(_authorize)
        yield Database(con, path)
    finally:
        con.close()


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _source: str | None) -> int:
    """Allow only reading; private columns read as NULL, even if a view renames them."""
    import sqlite3

    if action == sqlite3.SQLITE_READ:
        table, column = (first or "").casefold(), (second or "").casefold()
        hidden = column in _PRIVATE or table.startswith("rocpd_arg")
        hidden = hidden or (column in _STACKS and not table.startswith(_WITH_STACKS))
        hidden = hidden or (column == "extdata" and not table.startswith(_WITH_EXTRA_DATA))
        return sqlite3.SQLITE_IGNORE if hidden else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_OK if (second or "").casefold() in _FUNCTIONS else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY


def _check_whole(path: Path) -> None:
    """Raise BadInput unless the file is a complete SQLite database; SQLite itself would ignore missing pages."""
    with open_regular(path) as file:
        start = file.read(_HEADER)
        size = file.seek(0, os.SEEK_END)
    if not start:
        raise refusal("database_empty", file=path)
    if not start.startswith(MAGIC) or len(start) < _HEADER:
        raise refusal("not_sqlite", file=path)
    page = int.from_bytes(start[16:18], "big")
    stated = (65536 if page == 1 else page) * int.from_bytes(start[28:32], "big")
    if start[24:28] == start[92:96] and size < stated:
        raise refusal("database_cut", file=path, size=size, stated=stated)


def _check_unlocked(path: Path) -> None:
    """Raise BadInput if another process is writing the file; an immutable connection would not notice."""
    import sqlite3

    con = sqlite3.connect(_uri(path), uri=True, timeout=0, isolation_level=None)
    try:
        con.execute("PRAGMA schema_version").fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise refusal("database_locked", file=path) from error
        if not isinstance(error, sqlite3.OperationalError):
            raise _problem(path, error) from error
    finally:
        con.close()


def _code(error: Exception) -> int:
    """Return SQLite's primary result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _problem(path: Path, error: Exception) -> BadInput | LimitExceeded:
    """Convert an SQLite error to a problem."""
    import sqlite3

    code, text = _code(error), plain_text(str(error), 160)
    if isinstance(error, UnicodeDecodeError):
        text = "its schema is not UTF-8 text"
    if code == sqlite3.SQLITE_INTERRUPT:
        return LimitExceeded(f"{path.name} takes too long to read", "a view in it is endless, or far too slow")
    if code in (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM) or isinstance(error, MemoryError):
        return LimitExceeded(f"{path.name} contains a value of more than {size_limits.DATABASE_VALUE >> 20} MiB", text)
    if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH):
        return refusal("unknown_schema", file=path, why=text)
    return refusal("damaged", file=path, why=text)


def _uri(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"
