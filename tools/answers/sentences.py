"""The sentences that answer a question; their wording is data (sentences.toml)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import tomli

from ...analysis.base.notes import Note
from ...analysis.base.text import figure
from ...analysis.base.wording import Wording
from ...analysis.catalogue.vocabulary import in_vendor_terms


def sentence(code: str, target: str | None = None, /, **values: Any) -> str:
    """Return the sentence with this code, such as ``metrics.one``, with its values; numbers get four digits.

    Its own words are those of the vendor of ``target``.
    """
    group, _, name = code.partition(".")
    return AnswerWording().format(in_vendor_terms(_sentences()[group][name], target), **values)


def optional_sentence(code: str, target: str | None = None, /, **values: Any) -> str:
    """Return the sentence with this code; empty text if one of its values is missing, empty, false or 0."""
    return sentence(code, target, **values) if all(values.values()) else ""


def present(*texts: str) -> list[str]:
    """Return the texts that are not empty."""
    return list(filter(None, texts))


def note(code: str, target: str | None = None, /, **values: Any) -> Note:
    """Return the note with this sentence; its code lacks the group of the sentence."""
    return Note(code.partition(".")[2], sentence(code, target, **values))


def value_text(value: float | None, unit: str | None) -> str:
    """Return a value with four digits and its unit; "unknown" for None."""
    return "unknown" if value is None else f"{figure(value)}{f' {unit}' if unit else ''}"


class AnswerWording(Wording):
    """Formats numbers for reading, unless the wording states how."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, float) and not format_spec:
            return figure(value)
        return f"{value:,}" if isinstance(value, int) and not format_spec else super().format_field(value, format_spec)


@cache
def _sentences() -> dict[str, dict[str, str]]:
    return tomli.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))
