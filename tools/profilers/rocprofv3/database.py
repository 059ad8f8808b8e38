"""rocpd databases (SQLite) opened so that they can do no harm: read only, no environment, no endless query."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ....analysis.problems import BadInput, LimitExceeded
from ..tables.files import open_regular
from ..tables.names import plain_text

if TYPE_CHECKING:
    import sqlite3

MAGIC = b"SQLite format 3\x00"
_PRIVATE = {"environment", "call_stack", "line_info"}
_AGENTS = "rocpd_info_agent"
_HEADER = 100
_PATIENCE_S = 120
_STEPS = 1_000_000
_BATCH = 50_000
_WAIT = "Wait until the profiler has ended, or profile again"


class Database:
    """One open rocpd database; every query names its columns."""

    def __init__(self, con: sqlite3.Connection, path: Path) -> None:
        self.con, self.path, self.size = con, path, path.stat().st_size
        self._deadline = 0.0
        con.set_progress_handler(self._too_slow, _STEPS)
        self._objects = {
            name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        }

    def parts(self, name: str) -> list[str]:
        """The relations that hold ``name``: the view over it, else its tables with the id of a session as suffix."""
        if name in self._objects:
            return [name]
        return sorted(o for o in self._objects if re.fullmatch(rf"{name}_[0-9a-fA-F_]{{8,80}}", o))

    def read(self, name: str, picks: Sequence[str], where: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """Batches of rows of the relations that hold ``name``.

        A pick is SQL over their columns. Raises BadInput where they are missing or differ from the known layout.
        """
        relations = self.parts(name)
        if not relations:
            raise BadInput(f"{self.path.name} is no rocpd database", f"it has no table {name}")
        for table in relations:
            yield from self.batches(f'SELECT {", ".join(picks)} FROM "{table}" {where}')

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of a query in batches; a relation cannot have more rows than its file has bytes."""
        seen = 0
        with self._in_words():
            self._deadline = time.monotonic() + _PATIENCE_S
            cursor = self.con.execute(sql)  # already looks for the first row
            while True:
                self._deadline = time.monotonic() + _PATIENCE_S
                batch = cursor.fetchmany(_BATCH)
                if not batch:
                    return
                seen += len(batch)
                if seen > self.size:
                    raise BadInput(
                        f"{self.path.name} is damaged", "a view in it yields more rows than the file can hold"
                    )
                yield batch

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query with a small result."""
        return [row for batch in self.batches(sql) for row in batch]

    def _too_slow(self) -> int:
        return int(time.monotonic() > self._deadline)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        import sqlite3

        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _problem(self.path, error) from error


def is_rocpd(path: Path) -> bool:
    """Whether a SQLite file has the tables of rocpd; BadInput where it cannot be read."""
    with open_database(path) as db:
        return bool(db.parts("rocpd_kernel_dispatch") or db.parts("kernels"))


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open a rocpd database that nobody is writing; BadInput in words for everything else."""
    import sqlite3

    _check_whole(path)
    for suffix in ("-journal", "-wal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            raise BadInput(
                f"{path.name} is incomplete", f"{beside.name} beside it holds what was not written yet", _WAIT
            )
    _check_unlocked(path)
    con = sqlite3.connect(f"{_uri(path)}&immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    try:
        con.text_factory = lambda raw: raw.decode("utf-8", "replace")
        con.set_authorizer(_authorize)
        yield Database(con, path)
    finally:
        con.close()


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _source: str | None) -> int:
    """Only reading; private columns read as NULL, also where a view of the file hides them under another name."""
    import sqlite3

    if action == sqlite3.SQLITE_READ:
        table, column = (first or "").casefold(), (second or "").casefold()
        hidden = column in _PRIVATE or table.startswith("rocpd_arg")
        hidden = hidden or (column == "extdata" and not table.startswith(_AGENTS))
        return sqlite3.SQLITE_IGNORE if hidden else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = not (second or "").casefold().startswith(("load_extension", "randomblob", "zeroblob", "fts"))
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY


def _check_whole(path: Path) -> None:
    """BadInput unless the file begins as a database and is as long as its header says; SQLite fills in what is cut."""
    with open_regular(path) as file:
        start = file.read(_HEADER)
        size = file.seek(0, os.SEEK_END)
    if not start:
        raise BadInput(f"{path.name} is empty", "the profiler did not finish it", _WAIT)
    if not start.startswith(MAGIC) or len(start) < _HEADER:
        raise BadInput(f"{path.name} is no database", "it does not begin as a SQLite file", "Copy it again")
    page = int.from_bytes(start[16:18], "big")
    stated = (65536 if page == 1 else page) * int.from_bytes(start[28:32], "big")
    if start[24:28] == start[92:96] and size < stated:
        raise BadInput(f"{path.name} is damaged", f"it was cut: {size} of {stated} bytes are there", "Copy it again")


def _check_unlocked(path: Path) -> None:
    """BadInput where another process is writing; an immutable connection would not notice."""
    import sqlite3

    con = sqlite3.connect(_uri(path), uri=True, timeout=0, isolation_level=None)
    try:
        con.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise BadInput(f"{path.name} is locked", "another process is writing it", _WAIT) from error
    except sqlite3.DatabaseError as error:
        raise _problem(path, error) from error
    finally:
        con.close()


def _problem(path: Path, error: sqlite3.DatabaseError) -> BadInput | LimitExceeded:
    """An error of SQLite in words."""
    text = plain_text(str(error), 160)
    if "interrupted" in text:
        return LimitExceeded(f"{path.name} takes too long to read", f"a query of it gave nothing for {_PATIENCE_S} s")
    if "no such" in text or "prohibited" in text or "not authorized" in text or "recursive" in text:
        return BadInput(f"{path.name} has another layout than rocpd", text)
    return BadInput(f"{path.name} is damaged", text, "Copy it again, or profile again")


def _uri(path: Path) -> str:
    return f"file:{quote(str(path))}?mode=ro"
