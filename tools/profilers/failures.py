"""Known ways in which profilers fail: patterns in what they print, told in words with the fix, from failures.toml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...analysis.problems import BadArgument, LimitExceeded, MissingTool, NotFound, Problem
from .tables.names import plain_text

_HERE = Path(__file__).parent
_KINDS = {kind.__name__: kind for kind in (BadArgument, LimitExceeded, MissingTool, NotFound)}
_SEEN = 200_000
"""Characters of output looked at, from the end: what made a profiler stop stands there."""


@dataclass(frozen=True)
class _Failure:
    profilers: tuple[str, ...]
    pattern: re.Pattern[str]
    kind: type[Problem]
    what: str
    why: str
    fix: str
    silent: bool
    """Whether the profiler ends with status 0 all the same."""


def explained(profiler: str, status: int, text: str) -> Problem | None:
    """The first known failure in what a profiler printed; None where it is unknown, or nothing failed."""
    end = text[-_SEEN:]
    for failure in _failures():
        if profiler not in failure.profilers or (status == 0 and not failure.silent):
            continue
        if hit := failure.pattern.search(end):
            named = {k: plain_text(v or "", 160) for k, v in hit.groupdict().items()}
            return failure.kind(
                failure.what.format(profiler=profiler, **named),
                failure.why.format(profiler=profiler, **named),
                failure.fix.format(profiler=profiler, **named),
            )
    return None


@cache
def _failures() -> tuple[_Failure, ...]:
    entries = tomllib.loads((_HERE / "failures.toml").read_text(encoding="utf-8"))["failure"]
    return tuple(
        _Failure(
            tuple(e["profilers"]), re.compile(e["pattern"], re.MULTILINE), _KINDS[e["kind"]], e["what"], e["why"],
            e["fix"], e.get("silent", False),
        )
        for e in entries
    )  # fmt: skip
