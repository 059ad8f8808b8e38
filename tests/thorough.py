"""Tests that repeat, on more data, what a test of the usual run proves: ``make test-thorough`` runs them too.

thorough.toml lists them as patterns of node ids, each with the test that proves the same in the usual run. Those that
``make select`` found to add nothing are in repeated.txt; see selection.py.
"""

from __future__ import annotations

import fnmatch
import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rooflens.tests import selection

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


@cache
def _essential_patterns() -> tuple[str, ...]:
    return tuple(entry["tests"] for entry in tomllib.loads(RECORD.read_text(encoding="utf-8"))["essential"])


def is_essential(node_id: str) -> bool:
    """Whether a test is kept whatever it executes."""
    return any(_matches(node_id, pattern) for pattern in _essential_patterns())


def deselect_repetitions(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what only repeats, unless everything is wanted. A measuring run needs all of repeated.txt."""
    collected[:] = [item.nodeid for item in items]
    if THOROUGH in os.environ:
        return
    measured = frozenset() if selection.SELECT in os.environ else selection.read_names(selection.RECORD)
    repeated = [i for i in items if i.nodeid in measured or any(one.covers(i.nodeid) for one in repetitions())]
    if repeated:
        left = set(repeated)
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=repeated)


def _matches(node_id: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(node_id, pattern.replace("[", "[[]"))
