"""Read streams of protobuf messages one by one; the fields that are needed of each are stated in a TOML file."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from .json_stream import ByteSource

_BYTES = 2
_BLOCK = 1 << 20
_MESSAGE_LIMIT = 64 << 20
_VARINT_LIMIT = 10
_PACKAGE = "rooflens"


class WireError(ValueError):
    """The bytes are not a message, or end within one."""


@cache
def message_types(stated: Path) -> dict[str, Any]:
    """Return the classes of the messages in a file: a table for each, with field = [number, type].

    A type is that of a number, bytes, or another message of the file, with "repeated" before it for a list. Texts are
    bytes, because they need not be valid.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    tables: dict[str, dict[str, tuple[int, str]]] = tomli.loads(stated.read_text(encoding="utf-8"))
    file = descriptor_pb2.FileDescriptorProto(name=str(stated), package=_PACKAGE)
    for message, fields in tables.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            label, _, scalar = kind.rpartition(" ")
            field = described.field.add(name=name, number=number, label=f"LABEL_{(label or 'optional').upper()}")
            if scalar in tables:
                field.type_name = f".{_PACKAGE}.{scalar}"
            else:
                field.type = field.Type.Value(f"TYPE_{scalar.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in tables}


def parse(kind: Any, data: bytes) -> Any:
    """Return a message of a class of ``message_types``; WireError if the bytes are not one."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise WireError("a field is longer than its message, or of an unknown kind") from error


def text(value: bytes) -> str:
    """Return a text, with marks in place of what is not valid."""
    return value.decode("utf-8", "replace")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the whole number at a position, and the position after it."""
    value = shift = 0
    for place in range(at, min(at + _VARINT_LIMIT, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise WireError("a number does not end")


def messages(stream: ByteSource, numbers: Container[int], most: int = _MESSAGE_LIMIT) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the fields ``numbers`` of the outermost message; other fields are skipped.

    Each is a message or a text, of at most ``most`` bytes.
    """
    window, at = b"", 0
    while True:
        if len(window) - at < 2 * _VARINT_LIMIT:
            window, at = window[at:] + stream.read(_BLOCK), 0
            if not window:
                return
        tag, at = varint(window, at)
        if tag & 7 != _BYTES:
            raise WireError("it is not a list of messages")
        size, at = varint(window, at)
        if size > most:
            raise WireError("a message is larger than in any trace")
        parts, held = [window[at:]], len(window) - at
        while held < size:
            if not (block := stream.read(_BLOCK)):
                raise WireError("the file ends within a message")
            parts.append(block)
            held += len(block)
        if len(parts) > 1:
            window, at = b"".join(parts), 0
        if tag >> 3 in numbers:
            yield tag >> 3, window[at : at + size]
        at += size
