"""Untrusted input files: only regular ones inside the profile's folder are opened, and reading is bounded."""

from __future__ import annotations

import csv
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from ...analysis.problems import BadInput, LimitExceeded
from .names import plain_text

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
