"""Large JSON files piece by piece: the elements of their arrays one at a time, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from typing import Any

_BLOCK = 1 << 20
_VALUE_LIMIT = 64 << 20
_SPACE = " \t\n\r"
ENTERED = "{"

Path = tuple[str, ...]
"""Names of the objects' members on the way to a value."""


class JsonCut(ValueError):
    """The text ends within a value, or is no JSON."""


def elements(file: BufferedIOBase, opened: Callable[[Path], bool]) -> Iterator[tuple[Path, Any]]:
    """Paths and values of a JSON text, in its order.

    Objects whose path ``opened`` accepts are entered, all arrays in them too; what is not entered is one value.
    An element of an array has the array's path; that an object was entered is told as ``path + (ENTERED,)``.
    Raises JsonCut.
    """
    yield from _Reader(file).value((), opened)


class _Reader:
    """A window on the text, which moves on as values are taken."""

    def __init__(self, file: BufferedIOBase) -> None:
        import codecs

        self.file, self.text, self.at = file, "", 0
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self.parse = json.JSONDecoder().raw_decode

    def value(self, path: Path, opened: Callable[[Path], bool]) -> Iterator[tuple[Path, Any]]:
        """The value that begins here, whole or by its parts."""
        first = self.peek()
        if first == "[":
            yield from self._inside("]", path, opened)
        elif first == "{" and opened(path):
            yield (*path, ENTERED), None
            yield from self._inside("}", path, opened)
        else:
            yield path, self.take()

    def _inside(self, end: str, path: Path, opened: Callable[[Path], bool]) -> Iterator[tuple[Path, Any]]:
        self.at += 1
        while (found := self.peek()) != end:
            if found == ",":
                self.at += 1
            elif end == "]":
                # An object in an array is an element, entered only where its path is opened.
                yield from self.value(path, opened) if found == "{" else [(path, self.take())]
            else:
                key = self.take()
                if not isinstance(key, str) or self.peek() != ":":
                    raise JsonCut("an object has no names")
                self.at += 1
                yield from self.value((*path, key), opened)
        self.at += 1

    def peek(self) -> str:
        """The next character that is no space."""
        while True:
            while self.at < len(self.text):
                if (found := self.text[self.at]) not in _SPACE:
                    return found
                self.at += 1
            if not self._more():
                raise JsonCut("the text ends early")

    def take(self) -> Any:
        """The whole value that begins here."""
        self.peek()
        while True:
            try:
                found, end = self.parse(self.text, self.at)
            except (ValueError, RecursionError) as error:  # also a number of thousands of digits
                if isinstance(error, RecursionError) or len(self.text) - self.at > _VALUE_LIMIT or not self._more():
                    raise JsonCut("the text is cut or no JSON") from error
                continue
            if end == len(self.text) and self._more():  # a number may go on
                continue
            self.at = end
            return found

    def _more(self) -> bool:
        block = self.file.read(max(_BLOCK, len(self.text) - self.at))
        self.text, self.at = self.text[self.at :] + self.decode(block, not block), 0
        return bool(block)
