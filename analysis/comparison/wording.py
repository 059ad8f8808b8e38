"""The sentences about a comparison, whose wording is data (sentences.toml, claims.toml, work.toml)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from ..base.notes import Note
from ..base.text import count_text
from ..catalogue import files


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


@cache
def entries(name: str) -> dict[str, Any]:
    """The content of a data file of this folder."""
    return files.load(Path(__file__).with_name(f"{name}.toml"))


def word(wording: str, **figures: Any) -> str:
    """A wording with its values."""
    return Wording().format(wording, **figures)


def sentence(code: str, **figures: Any) -> str:
    """The sentence of sentences.toml with this code."""
    return word(entries("sentences")[code], **figures)


def note(code: str, **figures: Any) -> Note:
    """The note with this code, whose sentence has the same code."""
    return Note(code, sentence(code, **figures))
