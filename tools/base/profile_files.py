"""Files of a profile: finding, opening and naming them, and the database session that reads them."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ...analysis.base.database import open_own_database
from ...analysis.base.problems import BadInput, LimitExceeded, Problem
from ...analysis.base.text import count_text
from ...analysis.store.store import write_problem
from . import progress, size_limits
from .untrusted_text import numbers_with_underscores, plain_text

T = TypeVar("T")

if TYPE_CHECKING:
    import duckdb


_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20
_PACKED_BLOCK = 1 << 14
"""Bytes of a gzip file that are decompressed at a time; each further member copies at most this many again."""
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def open_regular(path: Path) -> io.BufferedReader:
    """Open ``path`` for reading; BadInput unless it is a regular file (a pipe or device could block for ever).

    Kernel files such as /proc/kmsg report a size of zero but may block or never end, so a file of size zero is
    read as empty.
    """
    with unreadable_as_bad_input(path):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise BadInput(f"{path.name} is not a regular file", "a folder, pipe or device cannot be imported")
    if state.st_size == 0:
        os.close(handle)
        handle = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return open(handle, "rb")  # noqa: PTH123  the descriptor was checked; a path could have been swapped


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether ``path``, with all links resolved, is a regular file or folder below ``folder``."""
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a name may contain a NUL
        return False


def is_gzip(path: Path) -> bool:
    """Return whether the content is gzip, regardless of the file name."""
    with open_regular(path) as file:
        return file.read(2) == _GZIP_MAGIC


def head(path: Path, limit: int) -> bytes:
    """Return the first ``limit`` bytes of the content, decompressed if it is gzip."""
    content = b""
    with open_text(path) as file:
        while len(content) < limit and (part := file.read(limit - len(content))):
            content += part
    return content


class _UnpackedFile:
    """Decompressed content of a gzip file; raises LimitExceeded if it expands beyond the limit."""

    def __init__(self, path: Path, file: io.BufferedReader) -> None:
        self.path, self.blocks, self.rest = path, _inflate(path, file), b""
        self.total = 0
        self.most = min(max(size_limits.GZIP_FREE, size_limits.GZIP_RATIO * path.stat().st_size), size_limits.GZIP_MOST)

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and none at the end of the content."""
        if not self.rest:
            self.rest = next((block for block in self.blocks if block), b"")
            self.total += len(self.rest)
            if self.total > self.most:
                raise LimitExceeded(
                    f"{self.path.name} unpacks to more than {self.most >> 20} MiB",
                    f"that is over {size_limits.GZIP_RATIO} times its size, or larger than any profile",
                    "If it is genuine, unpack it yourself and import the plain file",
                )
        part, self.rest = self.rest[:size], self.rest[size:]
        return part


@contextmanager
def open_text(path: Path) -> Iterator[io.BufferedReader | _UnpackedFile]:
    """Open a file of any size for reading in blocks, decompressed if it is gzip."""
    with open_regular(path) as file:
        yield _UnpackedFile(path, file) if file.peek(2)[:2] == _GZIP_MAGIC else file


def check_text(path: Path) -> list[bytes]:
    """Scan a CSV file once and reject what DuckDB accepts silently: endless lines and gzip bombs.

    DuckDB 2.0 silently drops the rest of a file after a line that is longer than its buffer. Returns the cells that
    DuckDB would read as different numbers (``1_000`` as 1000), each as often as it occurs.
    """
    total = unbroken = 0
    strange: list[bytes] = []
    tail = b""
    with open_text(path) as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            total += len(block)
            unbroken = 0 if b"\n" in block else unbroken + len(block)
            if unbroken > size_limits.LINE:
                raise BadInput(
                    f"{path.name} is damaged",
                    f"it has a line of more than {size_limits.LINE >> 20} MiB",
                    "Check that it is the CSV file that the profiler wrote",
                )
            known, *lines = (tail + block).rpartition(b"\n")
            strange += numbers_with_underscores(known)
            tail = lines[-1] if len(lines[-1]) < _BLOCK else b""
            progress.report(f"checked {total >> 20:,} MiB of {path.name}")
    strange += numbers_with_underscores(tail)
    if len(different := set(strange)) > size_limits.STRANGE_NUMBERS:
        example = plain_text(min(different).decode(errors="replace"), 40)
        raise BadInput(
            f"{path.name} contains {count_text(len(strange), 'number')} with underscores",
            f"for instance {example!r}, which no profiler writes",
            "Remove the underscores",
        )
    return strange


def small_table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a small CSV file as stripped text; reads at most 1 MiB and replaces undecodable bytes."""
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
    """Yield decompressed blocks of one or several gzip members, in time proportional to the size of the file.

    Raises BadInput if the stream is broken, or consists of many members with almost no content. Zeros after a member
    are padding.
    """
    members = total = 0
    packed = file.read(_PACKED_BLOCK)
    while packed.strip(b"\x00"):
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            if not packed:
                raise BadInput(f"{path.name} is damaged", "its gzip stream ends early", "Copy it again")
            try:
                block = unpacker.decompress(packed, _BLOCK)
            except zlib.error as error:
                raise BadInput(
                    f"{path.name} is damaged", f"its gzip stream is broken: {error}", "Copy it again"
                ) from error
            total += len(block)
            yield block
            packed = unpacker.unconsumed_tail or (b"" if unpacker.eof else file.read(_PACKED_BLOCK))
        members += 1
        if members > size_limits.GZIP_MEMBERS and total < members * size_limits.GZIP_MEMBER_BYTES:
            raise BadInput(
                f"{path.name} is damaged",
                f"it consists of more than {size_limits.GZIP_MEMBERS:,} gzip members with almost no content",
                "Compress the file again with gzip",
            )
        packed = unpacker.unused_data or file.read(_PACKED_BLOCK)


HOTSPOTS_STEP = "hotspots"
"""Name of the step of a run that samples instructions, and of its folder."""
STEP_PATTERN = rf"timing|{HOTSPOTS_STEP}|pass_\d+"
_STEP = re.compile(STEP_PATTERN)
_LOOKED_AT = 2000


def step_of(file: Path) -> str | None:
    """Return the step of a run that a file belongs to, from its folder's name; None outside such a folder."""
    return file.parent.name if _STEP.fullmatch(file.parent.name) else None


def plain_or_packed(file: Path) -> Path:
    """Return ``file``, or the file of that name with .gz if only that one exists."""
    packed = file.with_name(f"{file.name}.gz")
    return packed if packed.is_file() and not file.is_file() else file


def files_of_format(path: Path, suffixes: tuple[str, ...], has_format: Callable[[Path], bool]) -> list[Path]:
    """Return those of ``files_below`` that have a format; files that cannot be read have none."""

    def test(file: Path) -> bool:
        try:
            return has_format(file)
        except Problem:
            return False

    return [file for file in files_below(path, suffixes) if test(file)]


def files_below(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the file ``path``, or the files in it and one level below whose names end in ``suffixes``, or are packed.

    The timing run comes first. Files and folders that link to a place outside ``path`` are skipped.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        return []
    here = sorted(path.iterdir())[:_LOOKED_AT]
    folders = sorted((p for p in here if p.is_dir() and is_inside(p, path)), key=_order)
    candidates = [*here, *(f for folder in folders for f in sorted(folder.iterdir())[:_LOOKED_AT])]
    return [
        f for f in candidates if f.name.removesuffix(".gz").endswith(suffixes) and f.is_file() and is_inside(f, path)
    ]


def _order(folder: Path) -> tuple[bool, bool, list[tuple[int, str]]]:
    """Sort key of folders: the timing run first, samples last, others by name with numbers by value (run_2, run_10)."""
    return folder.name != "timing", folder.name == HOTSPOTS_STEP, natural_sort_key(folder.name)


WORK = "work"
"""Sub-folder of a draft for files that are not published: files of passes and what the database spills."""
_THREADS, _MEMORY = 2, "1200MB"
_SLOW = "common_subexpressions"
"""The optimizer whose time grows with the square of the number of columns: 89 s for 10,000 columns."""
_REORDERING = f"{_SLOW},join_order,build_side_probe_side"


@contextmanager
def unreadable_as_bad_input(source: Path) -> Iterator[None]:
    """Turn file system errors on the profile into BadInput; errors of the disk, such as a full one, pass through."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK:
            raise
        name = Path(os.fsdecode(error.filename)).name if isinstance(error.filename, str | bytes) else source.name
        raise BadInput(f"{name} cannot be read", error.strerror or str(error), "Check its permissions") from error


@contextmanager
def database(source: Path, work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a private database with bounded memory that spills into ``work``; its errors become Problems."""
    import duckdb

    con = open_own_database(_THREADS, temp_directory=str(work / "spill"), autoload_known_extensions="false")
    try:
        con.execute(f"SET memory_limit = '{_MEMORY}'; SET preserve_insertion_order = true")
        con.execute(f"SET disabled_optimizers = '{_SLOW}'")
        yield con
    except duckdb.OutOfMemoryException as error:
        raise write_problem(work / "spill", error) or LimitExceeded(
            f"{source.name} needs more than {_MEMORY} of memory to import",
            "it has too many columns or kernels",
            "Import a smaller part of it",
        ) from error
    except (duckdb.IOException, duckdb.DataError) as error:
        raise write_problem(work / "spill", error) or BadInput(
            f"{source.name} could not be imported", plain_text(str(error).splitlines()[0], 200)
        ) from error
    finally:
        con.close()


@contextmanager
def rows_in_order(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let joins keep the order of the rows on their left, with one thread: of several, each keeps rows in memory until
    those before them are written. The right side must fit in memory."""
    con.execute(f"SET threads = 1; SET disabled_optimizers = '{_REORDERING}'")
    yield
    con.execute(f"SET threads = {_THREADS}; SET disabled_optimizers = '{_SLOW}'")


def natural_sort_key(text: str) -> list[tuple[int, str]]:
    """Return a sort key that orders pass_10 after pass_2, and rocm-6.10 after rocm-6.9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]


def grouped(items: Iterable[T], alike: Callable[[T, T], bool]) -> list[list[T]]:
    """Return the items in groups: each joins the first group whose first item is like it."""
    groups: list[list[T]] = []
    for item in items:
        fitting = next((group for group in groups if alike(group[0], item)), None)
        if fitting is None:
            groups.append([item])
        else:
            fitting.append(item)
    return groups
