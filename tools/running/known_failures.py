"""Recognise known failures of profilers and programs by patterns in their output (known_failures.toml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from ...analysis.base.problems import BadArgument, LimitExceeded, MissingTool, NotAllowed, NotFound, Problem
from ..base.untrusted_text import plain_text

PROGRAM = "program"
"""Used in place of a profiler name for failures of the profiled program."""
_HERE = Path(__file__).parent
_KINDS = {kind.__name__: kind for kind in (BadArgument, LimitExceeded, MissingTool, NotAllowed, NotFound)}
_MOST_CHARACTERS = 200_000
"""Maximum characters of output to search, from the end, where the fatal message is."""


@dataclass(frozen=True)
class _Failure:
    profilers: tuple[str, ...]
    pattern: re.Pattern[str]
    kind: type[Problem]
    what: str
    why: str
    fix: str
    silent: bool
    """Whether the profiler still ends with status 0 after this failure."""


def explain_failure(profiler: str, status: int, text: str, facts: Mapping[str, str] = {}) -> Problem | None:
    """Return the first known failure in the output of a profiler (or PROGRAM); None if nothing failed or it is unknown.

    The texts may use the names in ``facts`` and the named groups of the pattern.
    """
    end = text[-_MOST_CHARACTERS:]
    for failure in _failures():
        if profiler not in failure.profilers or (status == 0 and not failure.silent):
            continue
        if hit := failure.pattern.search(end):
            texts = {k: plain_text(v or "", 160) for k, v in {**facts, **hit.groupdict()}.items()}
            return failure.kind(
                failure.what.format(profiler=profiler, **texts),
                failure.why.format(profiler=profiler, **texts),
                failure.fix.format(profiler=profiler, **texts),
            )
    return None


@cache
def messages(profiler: str) -> re.Pattern[str] | None:
    """Return the pattern that the profiler's own lines in the program's output begin with; None if there is none."""
    known = _file()["messages"].get(profiler)
    return re.compile(known) if known else None


@cache
def _file() -> dict[str, Any]:
    return tomli.loads((_HERE / "known_failures.toml").read_text(encoding="utf-8"))


@cache
def _failures() -> tuple[_Failure, ...]:
    entries = _file()["failure"]
    return tuple(
        _Failure(
            tuple(e["profilers"]), re.compile(e["pattern"], re.MULTILINE), _KINDS[e["kind"]], e["what"], e["why"],
            e["fix"], e.get("silent", False),
        )
        for e in entries
    )  # fmt: skip
