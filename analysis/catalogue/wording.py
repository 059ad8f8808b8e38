"""Sentences whose wording is data: how their values are formatted."""

from __future__ import annotations

from string import Formatter
from typing import Any

from ..base.text import count_text


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
