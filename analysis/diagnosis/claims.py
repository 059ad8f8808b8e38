"""Fills the claims of rules: numbers only, never text from a profile."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from ..rules import Rule

_FLAT = 10_000


def claim(rule: Rule, figures: Mapping[str, float | None]) -> str:
    """The rule's sentence with its figures; what is unknown is called so."""
    parts = []
    for text, name, _, _ in Formatter().parse(rule.claim):
        parts += [text, number(figures.get(name)) if name else ""]
    return "".join(parts)


def number(value: float | None) -> str:
    """Three digits, without exponents where people do not write them."""
    if value is None:
        return "an unknown number of"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < _FLAT else f"{value:.3g}"
