"""The sentences about a comparison, whose wording is data (sentences.toml, claims.toml, work.toml)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..base.wording import Wording, Wordings
from ..catalogue import files


@cache
def entries(name: str) -> dict[str, Any]:
    """The content of a data file of this folder."""
    return files.load(Path(__file__).with_name(f"{name}.toml"))


def word(wording: str, **figures: Any) -> str:
    """A wording with its values."""
    return Wording().format(wording, **figures)


_SENTENCES = Wordings(Path(__file__).with_name("sentences.toml"))
sentence, note = _SENTENCES.sentence, _SENTENCES.note
