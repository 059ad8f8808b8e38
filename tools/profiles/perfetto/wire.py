"""The wire format of Protocol Buffers, as far as a trace needs it: fields of messages, whole messages from a stream.

Source: protobuf.dev, "Encoding". Schemas are not needed: who reads a message knows the numbers of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..parsing.json_stream import ByteSource

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BLOCK = 1 << 20
_MESSAGE_LIMIT = 64 << 20
_VARINT_LIMIT = 10
Field = int | bytes


class WireError(ValueError):
    """The bytes are no message, or end within one."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The whole number at a place, and the place after it."""
    value = shift = 0
    for place in range(at, min(at + _VARINT_LIMIT, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place + 1
        shift += 7
    raise WireError("a number does not end")


def fields(data: bytes) -> Iterator[tuple[int, Field]]:
    """Numbers and values of the fields of a message: whole numbers, and bytes of texts, messages and lists.

    Numbers of fixed size are whole numbers too: ``double`` makes a floating-point number of one.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise WireError(f"a field is of the unknown kind {kind}")
        if at + size > end:
            raise WireError("a field is longer than its message")
        part, at = data[at : at + size], at + size
        yield number, part if kind == _BYTES else int.from_bytes(part, "little")


def messages(stream: ByteSource, number: int) -> Iterator[bytes]:
    """The messages that are field ``number`` of the outermost one, one after the other; others are skipped."""
    window, at = b"", 0
    while True:
        if len(window) - at < 2 * _VARINT_LIMIT:
            window, at = window[at:] + stream.read(_BLOCK), 0
            if not window:
                return
        tag, at = varint(window, at)
        if tag & 7 != _BYTES:
            raise WireError("it is no list of messages")
        size, at = varint(window, at)
        if size > _MESSAGE_LIMIT:
            raise WireError("a message is larger than any that a trace has")
        parts, held = [window[at:]], len(window) - at
        while held < size:
            if not (block := stream.read(_BLOCK)):
                raise WireError("the file ends within a message")
            parts.append(block)
            held += len(block)
        if len(parts) > 1:
            window, at = b"".join(parts), 0
        if tag >> 3 == number:
            yield window[at : at + size]
        at += size


def double(value: Field | None) -> float | None:
    """The floating-point number behind a field of fixed size."""
    import struct

    return float(struct.unpack("<d", value.to_bytes(8, "little"))[0]) if isinstance(value, int) else None


def text(value: Field) -> str:
    """The text of a field."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def signed_integer(value: int) -> int:
    """A whole number that may be below zero."""
    return value - (1 << 64) if value >= 1 << 63 else value
