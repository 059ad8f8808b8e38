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
_GZIP_FREE = 1 << 20  # gzip never packs more than about 1032:1, so what is smaller cannot grow past 1 GiB
_GZIP_LIMIT = 1 << 30
_GZIP_RATIO = 100
_SMALL = 1 << 20


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


def check_expansion(path: Path) -> None:
    """LimitExceeded for a gzip file that unpacks to far more than a profile would (a decompression bomb)."""
    packed = path.stat().st_size
    if packed <= _GZIP_FREE or not is_gzip(path):
        return
    allowed, unpacked = max(_GZIP_LIMIT, _GZIP_RATIO * packed), 0
    with open_regular(path) as file:
        for block in _inflate(path, file):
            unpacked += len(block)
            if unpacked > allowed:
                raise LimitExceeded(
                    f"{path.name} unpacks to more than {allowed >> 20} MiB",
                    f"that is over {_GZIP_RATIO} times its size, which no profile reaches",
                    "Unpack it yourself and import the plain file if it is genuine",
                )


def small_table(path: Path) -> list[dict[str, str]]:
    """The rows of a small CSV file as texts, spaces trimmed; at most 1 MiB is read and foreign bytes are replaced."""
    text = head(path, _SMALL).decode("utf-8-sig", errors="replace").replace("\x00", "")
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
            packed = unpacker.unconsumed_tail or file.read(_SMALL)
            if not packed:
                raise BadInput(f"{path.name} is damaged", "its gzip stream ends early", "Copy it again")
            try:
                yield unpacker.decompress(packed, _SMALL)
            except zlib.error as error:
                raise BadInput(
                    f"{path.name} is damaged", f"its gzip stream is broken: {error}", "Copy it again"
                ) from error
        rest = unpacker.unused_data
        if rest and not rest.strip(b"\x00"):
            return
        file.seek(-len(rest), os.SEEK_CUR)
