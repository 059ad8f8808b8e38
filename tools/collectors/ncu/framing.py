"""The frame of a report file: blocks that state their own length, by which a file that was cut short is noticed.

NVIDIA's library reads what is there of such a file and keeps quiet about the rest. Layout, as found in reports of
2025: ``NVR`` and a zero byte; a header and then blocks up to the end, where a block is the length of its header
(4 bytes, little endian), the header (a protobuf message whose field 5 is the size of what follows), and that.
"""

from __future__ import annotations

import io
from pathlib import Path

from ..files import open_regular

MAGIC = b"NVR\x00"
_HEADER_LIMIT = 64 << 20
_PAYLOAD = 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def is_cut(path: Path) -> bool:
    """Whether a report ends within a block. A file of another layout is not judged."""
    size = path.stat().st_size
    with open_regular(path) as file:
        file.seek(len(MAGIC))
        first = True
        while (at := file.tell()) < size:
            length = int.from_bytes(file.read(4), "little")
            if length > _HEADER_LIMIT:
                return False
            if file.tell() + length > size or at + 4 > size:
                return True
            payload = _payload(file.read(length))
            if payload is None:
                return False
            file.seek(0 if first else payload, io.SEEK_CUR)
            first = False
        return file.tell() > size


def _payload(header: bytes) -> int | None:
    """The size in field 5, 0 without it; None where the bytes are no message."""
    at, found = 0, 0
    while at < len(header):
        key, at = _varint(header, at)
        kind = key & 7
        if key >> 3 == 0 or kind not in (_VARINT, _FIXED64, _BYTES, _FIXED32):
            return None
        if kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
            continue
        value, at = _varint(header, at)
        if kind == _BYTES:
            at += value
        elif key >> 3 == _PAYLOAD:
            found = value
    return found if at == len(header) else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in base 128 and where it ends; past the end of the data where it does not end within."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
    return value, len(data) + 1
