"""Sentences of which an answer contains those that apply."""

from __future__ import annotations

from typing import Any

from .sentences import sentence


def optional_sentence(code: str, **values: Any) -> str:
    """Return the sentence with this code; empty text if one of its values is missing, empty, false or 0."""
    return sentence(code, **values) if all(values.values()) else ""


def present(*texts: str) -> list[str]:
    """Return the texts that are not empty."""
    return list(filter(None, texts))
