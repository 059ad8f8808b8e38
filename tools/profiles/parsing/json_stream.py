"""JSON read as a stream, so that a file may be larger than the memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

_BLOCK = 1 << 20
_VALUE_LIMIT = 64 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
ENTERED = "{"

KeyPath = tuple[str, ...]
"""Names of the objects' members on the way to a value."""


class JsonCut(ValueError):
    """The text ends within a value, or is no JSON."""


class ByteSource(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes, none at the end."""


def elements(
    file: ByteSource, is_entered: Callable[[KeyPath], bool], *, numbers_as_text: bool = False, may_end: bool = False
) -> Iterator[tuple[KeyPath, Any]]:
    """Paths and values of a JSON text, in its order.

    Objects whose path ``is_entered`` accepts are entered, all arrays in them too; what is not entered is one value.
    An element of an array has the array's path; that an object was entered is told as ``path + (ENTERED,)``.
    ``numbers_as_text`` leaves numbers with a point as they are written: a time in microseconds since 1970 has more
    digits than a float. NaN and infinities, which are no JSON, are None. Where the outermost array ``may_end`` without
    its bracket, a text that stops between its elements is whole. Raises JsonCut.
    """
    yield from _Reader(file, numbers_as_text, may_end).value((), is_entered)


class _Reader:
    """A window on the text, which moves on as values are taken."""

    def __init__(self, file: ByteSource, numbers_as_text: bool, may_end: bool) -> None:
        self.file, self.text, self.at, self.may_end = file, "", 0, may_end
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        as_written = str if numbers_as_text else None
        none = _no_number if numbers_as_text else None
        self.parse = json.JSONDecoder(parse_float=as_written, parse_constant=none).raw_decode

    def value(self, path: KeyPath, is_entered: Callable[[KeyPath], bool]) -> Iterator[tuple[KeyPath, Any]]:
        """The value that begins here, whole or by its parts."""
        first = self.peek()
        if first == "[":
            yield from self._elements(path, is_entered)
        elif first == "{" and is_entered(path):
            yield (*path, ENTERED), None
            yield from self._members(path, is_entered)
        else:
            yield path, self.take()

    def _elements(self, path: KeyPath, is_entered: Callable[[KeyPath], bool]) -> Iterator[tuple[KeyPath, Any]]:
        self.at += 1
        entered = bool(path) and is_entered(path)
        while (character := self._next_element(path)) != "]":
            if character == ",":
                self.at += 1
            elif character == "{" and entered:
                yield from self.value(path, is_entered)
            else:
                yield path, self.take()
        self.at += 1

    def _next_element(self, path: KeyPath) -> str:
        try:
            return self.peek()
        except JsonCut:
            if self.may_end and not path:
                return "]"
            raise

    def _members(self, path: KeyPath, is_entered: Callable[[KeyPath], bool]) -> Iterator[tuple[KeyPath, Any]]:
        self.at += 1
        while (character := self.peek()) != "}":
            if character == ",":
                self.at += 1
                continue
            key = self.take()
            if not isinstance(key, str) or self.peek() != ":":
                raise JsonCut("an object has no names")
            self.at += 1
            yield from self.value((*path, key), is_entered)
        self.at += 1

    def peek(self) -> str:
        """The next character that is no space."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                raise JsonCut("the text ends early")

    def take(self) -> Any:
        """The whole value that begins here."""
        self.peek()
        while True:
            try:
                value, end = self.parse(self.text, self.at)
            except (ValueError, RecursionError) as error:  # also a number of thousands of digits
                if isinstance(error, RecursionError) or len(self.text) - self.at > _VALUE_LIMIT or not self._more():
                    raise JsonCut("the text is cut or no JSON") from error
                continue
            if end == len(self.text) and self._more():  # a number may go on
                continue
            self.at = end
            return value

    def _more(self) -> bool:
        block = self.file.read(max(_BLOCK, len(self.text) - self.at))
        self.text, self.at = self.text[self.at :] + self.decode(block, not block), 0
        return bool(block)


def _no_number(_text: str) -> None:
    return None
