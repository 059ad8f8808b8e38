"""Sentences, notes and problems whose wording is data: a TOML file with an entry for each code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any

import tomli

from . import problems
from .notes import Note
from .problems import Problem
from .text import count_text


class Wording(Formatter):
    """Formats values as the wording states: ``{n:launch}`` is a number with its noun, a list is joined by commas.

    ``{n:row has|rows have}`` gives an irregular plural. ``{ns!m}`` converts ns to ms, ``{share!p}`` a fraction to
    percent, and ``{name!w}`` shows an identifier as words.
    """

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "w":
            return value.replace("_", " ")
        if conversion == "m":
            return value / 1e6
        return 100 * value if conversion == "p" else super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list):
            return ", ".join(value)
        if format_spec[1:2].isalpha() and isinstance(value, int):
            return count_text(value, *format_spec.split("|"))
        return format(value, format_spec)


class Wordings:
    """The entries of one file: a text for a sentence or note, a table with ``kind``, ``what``, ``why`` and ``fix`` for
    a problem, which is a BadArgument unless ``kind`` names another class."""

    def __init__(self, file: Path, in_vendor_terms: Callable[[str, str | None], str] | None = None) -> None:
        self._file, self._wording, self._in_vendor_terms = file, Wording(), in_vendor_terms

    @cached_property
    def entries(self) -> dict[str, Any]:
        """The content of the file."""
        return tomli.loads(self._file.read_text(encoding="utf-8"))

    def sentence(self, code: str, target: str | None = None, /, **values: Any) -> str:
        """The sentence with this code in the words of the vendor of ``target``, with its values."""
        template = self.entries[code]
        if self._in_vendor_terms is not None:
            template = self._in_vendor_terms(template, target)
        return self._wording.format(template, **values)

    def note(self, code: str, /, **values: Any) -> Note:
        """The note with this sentence. What precedes the point of a code only distinguishes sentences of one code."""
        return Note(code.rpartition(".")[2], self.sentence(code, **values))

    def problem(self, code: str, /, **values: Any) -> Problem:
        """The problem with this code, to be raised by the caller."""
        parts = {"kind": "BadArgument", **self.entries[code]}
        kind: type[Problem] = getattr(problems, parts.pop("kind"))
        return kind(**{part: self._wording.format(text, **values) for part, text in parts.items()})
