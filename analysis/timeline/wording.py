"""The sentences about a timeline, whose wording is data (sentences.toml)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..base.wording import Wording
from ..catalogue.files import load


def sentence(code: str, **values: Any) -> str:
    """Return the sentence with this code, with its values."""
    return Wording().format(_sentences()[code], **values)


@cache
def _sentences() -> dict[str, str]:
    return load(Path(__file__).with_name("sentences.toml"))
