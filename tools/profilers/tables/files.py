"""Files of a profile: finding, opening and naming them, and the session that reads them."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.problems import BadInput, LimitExceeded
from ....analysis.store import write_problem
from .names import plain_text

if TYPE_CHECKING:
    import duckdb


_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20
_LINE_LIMIT = 4 << 20
_GZIP_LIMIT = 1 << 30
_GZIP_RATIO = 100


def open_regular(path: Path) -> io.BufferedReader:
    """Open ``path`` for reading; BadInput unless it is a regular file (a pipe or device could block for ever)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read", error.strerror or str(error), "Check its permissions") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BadInput(f"{path.name} is no regular file", "a folder, pipe or device cannot be imported")
    return open(handle, "rb")  # noqa: PTH123  the descriptor was checked; a path could have been swapped


def is_inside(path: Path, folder: Path) -> bool:
    """Whether ``path``, all links followed, is a regular file or folder below ``folder``."""
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def is_gzip(path: Path) -> bool:
    """Whether the content is gzip, whatever the file is called."""
    with open_regular(path) as file:
        return file.read(2) == _GZIP_MAGIC


def head(path: Path, limit: int) -> bytes:
    """The first ``limit`` bytes of the content, decompressed where it is gzip."""
    with open_regular(path) as file:
        start = file.read(2)
        file.seek(0)
        if start != _GZIP_MAGIC:
            return file.read(limit)
        found = bytearray()
        for block in _inflate(path, file):
            found += block
            if len(found) >= limit:
                break
        return bytes(found[:limit])


def check_text(path: Path) -> None:
    """Refuse, in one fast pass, what DuckDB would not: an endless line, or a gzip file that grows without measure.

    DuckDB 2.0 silently drops the rest of a file from a line that is longer than its buffer.
    """
    packed = path.stat().st_size
    bomb = max(_GZIP_LIMIT, _GZIP_RATIO * packed)
    total = unbroken = 0
    with open_regular(path) as file:
        gzipped = file.peek(2)[:2] == _GZIP_MAGIC
        for block in _inflate(path, file) if gzipped else iter(lambda: file.read(_BLOCK), b""):
            total += len(block)
            unbroken = 0 if b"\n" in block else unbroken + len(block)
            if unbroken > _LINE_LIMIT:
                raise BadInput(
                    f"{path.name} is damaged",
                    f"it has a line of more than {_LINE_LIMIT >> 20} MiB",
                    "Is it the CSV file that the profiler wrote?",
                )
            if gzipped and total > bomb:
                raise LimitExceeded(
                    f"{path.name} unpacks to more than {bomb >> 20} MiB",
                    f"that is over {_GZIP_RATIO} times its size, which no profile reaches",
                    "Unpack it yourself and import the plain file if it is genuine",
                )


def small_table(path: Path) -> list[dict[str, str]]:
    """The rows of a small CSV file as texts, spaces trimmed; at most 1 MiB is read and foreign bytes are replaced."""
    text = head(path, _BLOCK).decode("utf-8-sig", errors="replace").replace("\x00", "")
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise BadInput(f"{path.name} is damaged", str(error), "Repair or remove it") from error
    return [
        {plain_text(k, 120): v.strip() for k, v in row.items() if isinstance(k, str) and isinstance(v, str)}
        for row in rows
    ]


def _inflate(path: Path, file: io.BufferedReader) -> Iterator[bytes]:
    """Decompressed blocks of one or several gzip members; BadInput where the stream is broken."""
    while file.peek(1):
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            packed = unpacker.unconsumed_tail or file.read(_BLOCK)
            if not packed:
                raise BadInput(f"{path.name} is damaged", "its gzip stream ends early", "Copy it again")
            try:
                yield unpacker.decompress(packed, _BLOCK)
            except zlib.error as error:
                raise BadInput(
                    f"{path.name} is damaged", f"its gzip stream is broken: {error}", "Copy it again"
                ) from error
        rest = unpacker.unused_data
        if rest and not rest.strip(b"\x00"):
            return
        file.seek(-len(rest), os.SEEK_CUR)


_STEP = re.compile(r"timing|pass_\d+")
_LOOKED_AT = 2000


def step_of(file: Path) -> str | None:
    """The run that a file belongs to by its folder's name; None outside such a folder."""
    return file.parent.name if _STEP.fullmatch(file.parent.name) else None


def files_below(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The file ``path``, or the files in it and one level below that end in ``suffixes``, run of times first; none
    that leads out of the folder."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        return []
    here = sorted(path.iterdir())[:_LOOKED_AT]
    folders = sorted((p for p in here if p.is_dir() and is_inside(p, path)), key=_order)
    found = [*here, *(f for folder in folders for f in sorted(folder.iterdir())[:_LOOKED_AT])]
    return [f for f in found if f.name.endswith(suffixes) and f.is_file() and is_inside(f, path)]


def _order(folder: Path) -> tuple[bool, list[tuple[int, str]]]:
    """Times first, then by name, numbers in it by value: run_2 before run_10."""
    parts = re.findall(r"\d{1,9}|\D+|\d+", folder.name)
    return folder.name != "timing", [(int(p), "") if p.isdecimal() and len(p) < 10 else (-1, p) for p in parts]


WORK = "work"
"""Sub-folder of a draft for what is not published: files of passes and what the database spills."""
_MEMORY = "1200MB"


@contextmanager
def readable(source: Path) -> Iterator[None]:
    """Turn a refusal of the file system to show part of the profile into BadInput."""
    try:
        yield
    except PermissionError as error:
        named = Path(error.filename or source).name
        raise BadInput(f"{named} cannot be read", error.strerror or str(error), "Check its permissions") from error


@contextmanager
def database(source: Path, work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A private database with bounded memory that spills into ``work``; what data and machine do to it are Problems."""
    import duckdb

    con = duckdb.connect(config={"temp_directory": str(work / "spill"), "autoload_known_extensions": "false"})
    try:
        con.execute(f"SET memory_limit = '{_MEMORY}'; SET threads = 2; SET preserve_insertion_order = true")
        yield con
    except duckdb.OutOfMemoryException as error:
        raise write_problem(work / "spill", error) or LimitExceeded(
            f"{source.name} needs more than {_MEMORY} to import",
            "it has too many columns or kernels",
            "Import less of it",
        ) from error
    except (duckdb.IOException, duckdb.DataError) as error:
        raise write_problem(work / "spill", error) or BadInput(
            f"{source.name} could not be imported", plain_text(str(error).splitlines()[0], 200)
        ) from error
    finally:
        con.close()
