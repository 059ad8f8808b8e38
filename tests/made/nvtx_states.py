"""The recorded report with ranges put into its launches, so that NVIDIA's library can be asked which match a filter.

A report is blocks of length-prefixed protobuf messages. Field 21 of a launch is its NVTX state: domains (1), threads
with their stacks (2), started ranges (3), the default domain (4) and the scope of stacks (5: process).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rooflens.tests.standins.ncu_filters import DEFAULT, Launch

_RESULTS, _SOURCES, _PAYLOAD, _NVTX = 2, 1, 5, 21
Field = tuple[int, int, int | bytes]


def write(report: bytes, path: Path, launches: Sequence[Launch], *, process: bool = False) -> Path:
    """``report`` at ``path``, with the ranges of the n-th of ``launches`` in its n-th launch."""
    (size,) = struct.unpack_from("<I", report, 4)
    out, at = report[: 8 + size], 8 + size
    waiting = iter(launches)
    while at < len(report):
        (size,) = struct.unpack_from("<I", report, at)
        header = list(_fields(report[at + 4 : at + 4 + size]))
        at += 4 + size
        known = {number: value for number, _, value in header}
        length = _whole(known.get(_PAYLOAD, 0))
        first, count = _whole(known.get(_SOURCES, 0)), _whole(known.get(_RESULTS, 0))
        payload = b""
        for place, message in enumerate(_parts(report[at : at + length])):
            mine = next(waiting, None) if first <= place < first + count else None
            payload += _sized(message if mine is None else _with(message, mine, process=process))
        at += length
        out += _sized(b"".join(_field(n, k, len(payload) if n == _PAYLOAD else v) for n, k, v in header)) + payload
    path.write_bytes(out)
    return path


def _with(message: bytes, launch: Launch, *, process: bool) -> bytes:
    thread = next(_whole(value) for number, _, value in _fields(message) if number == 1)
    numbers = {
        name: i for i, name in enumerate(dict.fromkeys((DEFAULT, *launch.pushed, *launch.started, *launch.elsewhere)))
    }
    state = b"".join(_bytes(1, _number(1, i) + _text(2, name)) for name, i in numbers.items())
    for tid, stacks in ((thread, launch.pushed), (thread + 1, launch.elsewhere)):
        domains = (
            _bytes(
                2,
                _number(1, numbers[d]) + b"".join(_bytes(3, _text(1, n) + _number(4, i)) for i, n in enumerate(names)),
            )
            for d, names in stacks.items()
        )
        state += _bytes(2, _number(1, tid) + b"".join(domains))
    for domain, names in launch.started.items():
        ranges = (_bytes(3, _number(1, i) + _text(2, n) + _number(5, thread)) for i, n in enumerate(names, 1))
        state += _bytes(3, _number(1, numbers[domain]) + b"".join(ranges))
    state += _number(4, numbers[DEFAULT]) + _number(5, int(process))
    kept = b"".join(_field(*field) for field in _fields(message) if field[0] != _NVTX)
    return kept + _bytes(_NVTX, state)


def _whole(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value


def _parts(payload: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(payload):
        (size,) = struct.unpack_from("<I", payload, at)
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size


def _sized(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _field(number: int, kind: int, value: int | bytes) -> bytes:
    key = _varint(number << 3 | kind)
    if isinstance(value, int):
        return key + _varint(value)
    return key + (_varint(len(value)) if kind == 2 else b"") + value


def _number(number: int, value: int) -> bytes:
    return _field(number, 0, value)


def _bytes(number: int, value: bytes) -> bytes:
    return _field(number, 2, value)


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _fields(message: bytes) -> Iterator[Field]:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    sizes: dict[int, Callable[[], int]] = {1: lambda: 8, 2: varint, 5: lambda: 4}
    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, kind, varint()
            continue
        size = sizes[kind]()
        yield key >> 3, kind, message[at : at + size]
        at += size
