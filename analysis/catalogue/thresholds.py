"""The thresholds that decide what a user is told, from thresholds.toml.

A module that judges names its thresholds as constants: ``REACHED = threshold("roofline.reached_pct")``. Each number is
written once, so that a figure that is suspect in a table is suspect in a roofline, a diagnosis and a comparison too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tomli

_FILE = Path(__file__).with_suffix(".toml")


@cache
def thresholds() -> dict[str, float]:
    """Return every threshold by its dotted name, such as ``figures.impossible_pct``."""
    return dict(_numbers(tomli.loads(_FILE.read_text(encoding="utf-8")), ""))


def threshold(name: str) -> float:
    """Return the threshold with this dotted name. Raises KeyError for an unknown name."""
    return thresholds()[name]


def count_threshold(name: str) -> int:
    """Return a threshold that counts something, such as launches. Raises KeyError for an unknown name."""
    return int(thresholds()[name])


def _numbers(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
