"""Tests of files that no code of rooflens touches: while these files are unchanged, their last proof holds.

Compiling the example program for five GPUs takes minutes and depends on the example's sources alone. Such tests carry
the marker ``proves`` with the paths that they depend on. A test is skipped while the digest of these paths is the one
in proved.toml, and runs as soon as a file changes. ``make prove`` runs all of them and records the digests of those
that passed.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_suffix(".toml")
MARKER = "proves"
PROVE = "ROOFLENS_PROVE"
"""The environment variable with which every test runs and digests are recorded."""
_SKIPPED_NAMES = ("__pycache__", ".venv")


@cache
def digest(paths: tuple[str, ...]) -> str:
    """The SHA-256 of the names and contents of all files at or below ``paths``, which are relative to the project."""
    hasher = hashlib.sha256()
    for path in sorted(paths):
        whole = ROOT / path
        for file in sorted(whole.rglob("*")) if whole.is_dir() else [whole]:
            if file.is_file() and not set(file.parts) & set(_SKIPPED_NAMES):
                hasher.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return hasher.hexdigest()


@cache
def recorded() -> dict[str, str]:
    """The recorded digest for each test, by its node id without parameters."""
    return tomllib.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def inputs(item: pytest.Item) -> tuple[str, ...] | None:
    """The paths that a test depends on, with its own folder; None for a test without the marker."""
    marker = item.get_closest_marker(MARKER)
    return None if marker is None else (*marker.args, str(item.path.parent.relative_to(ROOT)))


def name_of(node_id: str) -> str:
    """The node id of a test without its parameters."""
    return node_id.partition("[")[0]


def skip_unchanged(items: list[pytest.Item]) -> None:
    """Skip the marked tests whose files are those of the recorded proof."""
    if PROVE in os.environ:
        return
    for item in items:
        paths = inputs(item)
        if paths is not None and recorded().get(name_of(item.nodeid)) == digest(paths):
            item.add_marker(pytest.mark.skip(reason="its files are unchanged since it last passed (make prove)"))


class Recorder:
    """Collects what passed in a run with ``ROOFLENS_PROVE``, in the process that reports, and writes the record."""

    def __init__(self) -> None:
        self._outcomes: dict[str, set[str]] = defaultdict(set)
        self._digests: dict[str, str] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember the digest of a marked test."""
        if (paths := inputs(item)) is not None:
            self._digests[name_of(item.nodeid)] = digest(paths)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember how each phase of a test ended."""
        self._outcomes[name_of(report.nodeid)].add(report.outcome)

    def pytest_sessionfinish(self) -> None:
        """Replace the entries of the tests that passed with all of their parameters."""
        passed = {name for name in self._digests if self._outcomes[name] == {"passed"}}
        entries = recorded() | {name: self._digests[name] for name in passed}
        RECORD.write_text("".join(f'"{name}" = "{entries[name]}"\n' for name in sorted(entries)), encoding="utf-8")
