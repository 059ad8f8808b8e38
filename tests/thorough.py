"""Tests that repeat, on more data, what a test of the usual run proves: ``make test-thorough`` runs them too.

thorough.toml lists them as patterns of node ids, each with the test that proves the same in the usual run.
"""

from __future__ import annotations

import fnmatch
import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

THOROUGH = "ROOFLENS_THOROUGH"
"""The environment variable with which everything runs."""
RECORD = Path(__file__).with_suffix(".toml")


collected: list[str] = []
"""The node ids of the tests of this run."""


@dataclass(frozen=True)
class Repetition:
    """Tests (a pattern of node ids in which only ``*`` is special), except some, and what proves the same."""

    tests: str
    instead: str
    keep: tuple[str, ...] = ()

    def covers(self, node_id: str) -> bool:
        """Whether a test is one of these."""
        return _matches(node_id, self.tests) and not any(_matches(node_id, kept) for kept in self.keep)


@cache
def repetitions() -> tuple[Repetition, ...]:
    """Everything in thorough.toml."""
    entries = tomllib.loads(RECORD.read_text(encoding="utf-8"))["repetition"]
    return tuple(Repetition(**{**entry, "keep": tuple(entry.get("keep", ()))}) for entry in entries)


def skip_repetitions(items: list[pytest.Item]) -> None:
    """Skip what only repeats, unless everything is wanted or the tests were named one by one."""
    collected[:] = [item.nodeid for item in items]
    if THOROUGH in os.environ:
        return
    for item in items:
        found = next((one for one in repetitions() if one.covers(item.nodeid)), None)
        if found is not None:
            item.add_marker(pytest.mark.skip(reason=f"make test-thorough; here {found.instead} proves the same"))


def _matches(node_id: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(node_id, pattern.replace("[", "[[]"))
