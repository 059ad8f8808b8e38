"""The sentences about a comparison, whose wording is data (sentences.toml, claims.toml, work.toml)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..base.notes import Note
from ..base.wording import Wording
from ..catalogue import files


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
