"""Streaming JSON parser for files that are larger than the memory, and numbers that it returns as text."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

_BLOCK = 1 << 20
_VALUE_LIMIT = 64 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"\}[ \t\n\r]*(,)[ \t\n\r]*\{")
_BATCH, _END_OF_BATCH = 1 << 17, 1 << 13
"""Characters of elements that are parsed at a time, and of the part in which the last of them must end."""
_SINGLE, _MOST_SINGLE = 100, 1_000_000
"""Elements that are parsed one by one after a batch did not end between two of them; doubled each time."""
_NOT_AVAILABLE = re.compile(r'(":\s*)N/A(?=\s*[,}])')
"""What early versions of PyTorch write for a bandwidth that is not known, without quotation marks."""
ENTERED = "{"

KeyPath = tuple[str, ...]
"""Member names of the enclosing objects of a value."""


class JsonCut(ValueError):
    """The text ends within a value, or is not JSON."""


class ByteSource(Protocol):
    """Source of bytes, such as an open file."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and none at the end."""


def elements(
    file: ByteSource, is_entered: Callable[[KeyPath], bool], *, numbers_as_text: bool = False, may_end: bool = False
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield paths and values of a JSON text, in its order.

    Objects whose path ``is_entered`` accepts are split into their members, including objects in arrays; anything else
    is one value. An element of an array has the array's path. When an object is entered, ``path + (ENTERED,)`` is
    yielded first. ``numbers_as_text`` returns numbers with a point as text, because a time in microseconds since 1970
    has more digits than a float; NaN and Infinity, which are not valid JSON, are text too. With ``may_end``, the
    outermost array may lack its closing bracket if the text ends between elements. Raises JsonCut.
    """
    yield from _JsonWindow(file, numbers_as_text, may_end).value((), is_entered)


class _JsonWindow:
    """A window on the text that moves forward as values are read."""

    def __init__(self, file: ByteSource, numbers_as_text: bool, may_end: bool) -> None:
        self.file, self.text, self.at, self.may_end = file, "", 0, may_end
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        as_written = str if numbers_as_text else None
        self.parse = json.JSONDecoder(parse_float=as_written, parse_constant=as_written).raw_decode
        self.single, self.next_single = 0, _SINGLE
        """Elements that are still to be parsed one by one, and how many there will be the next time."""
        self.repairs = False
        """Whether the text is known to hold values that are not JSON (``_NOT_AVAILABLE``)."""

    def value(self, path: KeyPath, is_entered: Callable[[KeyPath], bool]) -> Iterator[tuple[KeyPath, Any]]:
        """Yield the value that starts here, as a whole or split into its parts."""
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
                for element in self._batch() if character == "{" else ():
                    yield path, element
                yield path, self.take()
        self.at += 1

    def _batch(self) -> list[Any]:
        """Return objects that follow each other here, all but the last of them; often none.

        Parsing many elements at a time saves two thirds of the time. What lies between two objects may also be inside
        one; the text up to there is then not a list, and the elements are parsed one by one.
        """
        if self.single:
            self.single -= 1
            return []
        if len(self.text) - self.at < _BATCH:
            self._more()
        end = min(self.at + _BATCH, len(self.text))
        between = list(_BETWEEN.finditer(self.text, max(self.at, end - _END_OF_BATCH), end))
        if not between:
            self.single = _SINGLE
            return []
        batch = f"[{self.text[self.at : between[-1].start(1)]}]"
        try:
            elements, after = self.parse(batch, 0)
        except (ValueError, RecursionError):
            after = 0
        if after != len(batch):
            self.single, self.next_single = self.next_single, min(2 * self.next_single, _MOST_SINGLE)
            return []
        self.at = between[-1].end(1)
        return list(elements)

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
        """Return the next character that is not white space."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                raise JsonCut("the text ends early")

    def take(self) -> Any:
        """Return the whole value that starts here."""
        self.peek()
        while True:
            try:
                value, end = self.parse(self.text, self.at)
            except (ValueError, RecursionError) as error:  # also raised for numbers with thousands of digits
                if not self.repairs and _NOT_AVAILABLE.search(self.text, self.at):
                    self.repairs = True
                    self._repair()
                    continue
                if isinstance(error, RecursionError) or len(self.text) - self.at > _VALUE_LIMIT or not self._more():
                    raise JsonCut("the text is truncated or not JSON") from error
                continue
            if end == len(self.text) and self._more():  # a number may continue in the next block
                continue
            self.at = end
            return value

    def _more(self) -> bool:
        block = self.file.read(max(_BLOCK, len(self.text) - self.at))
        self.text, self.at = self.text[self.at :] + self.decode(block, not block), 0
        if self.repairs:
            self._repair()
        return bool(block)

    def _repair(self) -> None:
        self.text, self.at = _NOT_AVAILABLE.sub(r"\1null", self.text[self.at :]), 0


LARGEST = 1 << 62
"""The largest number that is read, which leaves room for sums in 64 bits."""


def whole_ns(value: Any) -> int | None:
    """Convert a time in microseconds, a number or its text, to whole ns; None if invalid or beyond any clock."""
    if type(value) is str:
        whole, _, fraction = value.partition(".")
        if len(fraction) == 3 and len(whole) < 20 and (digits := whole + fraction).isdecimal() and whole:
            time_ns = int(digits)
            return time_ns if time_ns < LARGEST else None
        if len(whole) < 20 and whole.isdecimal() and (fraction.isdecimal() or not fraction):
            time_ns = int(whole) * 1000 + int((fraction + "000")[:3])
            return time_ns if time_ns < LARGEST else None
        time_us = number(value)  # a text with a sign or an exponent
        return round(time_us * 1000) if time_us is not None and abs(time_us) * 1000 < LARGEST else None
    if type(value) is int:
        return value * 1000 if -LARGEST < value * 1000 < LARGEST else None
    return None


def number(value: Any) -> float | None:
    """Parse a finite number or its text; None for anything else."""
    if type(value) is int:
        return float(value) if abs(value) < 1 << 1000 else None
    if type(value) is not str or len(value) > 400:
        return None
    try:
        parsed = float(value)
    except ValueError:
        return None
    return parsed if parsed - parsed == 0 else None


def whole_number(value: Any) -> int | None:
    """Parse a whole number or its text; None for anything else."""
    if type(value) is str:
        value = int(value) if len(value) < 20 and value.removeprefix("-").isdecimal() and value.isascii() else None
    return value if type(value) is int and -LARGEST < value < LARGEST else None
