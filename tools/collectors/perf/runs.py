"""Runs of a program as perf stat states them, whatever its output form: events, their values, the elapsed time."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_MODIFIER = re.compile(r"(?<=[^:/]):[ukhIGHpPSDWeb]{1,8}$|(?<=/)[ukhIGHpPSDWeb]{1,8}$")
DURATION = "duration_time"
"""perf's own name for the elapsed time as an event, in ns; user_time and system_time are its parts on the CPU."""


@dataclass
class Event:
    """One counted event: value in base units, None where perf could not count it (``reason``: its own words)."""

    name: str
    value: float | None
    reason: str = ""
    running_pct: float | None = None
    """Share of the time in which it was really counted; the value is scaled up from that."""
    error_pct: float | None = None
    """Standard error of the mean, where the value is a mean over repeated runs (-r)."""


@dataclass
class Run:
    """One run of the program, or the mean of ``repeats``."""

    events: list[Event] = field(default_factory=list)
    command: str | None = None
    repeats: int = 1
    unknown_units: set[str] = field(default_factory=set)

    @property
    def duration_ns(self) -> float | None:
        """Elapsed time; the text form always has it, the others only as an event."""
        return next((e.value for e in self.events if e.name == DURATION), None)

    def add(self, event: Event, unit: str) -> None:
        """Add an event whose value is in ``unit``."""
        factor = 1.0 if not unit else _units().get(unit)
        if factor is None:
            self.unknown_units.add(unit)
        elif event.value is not None:
            event.value *= factor
        if all(e.name != event.name for e in self.events):
            self.events.append(event)


def is_unit(text: str) -> bool:
    """Whether perf prints ``text`` as a unit."""
    return text in _units()


def plain_names(runs: Iterable[Run]) -> dict[str, str]:
    """Event as asked for -> counter: without its modifier (``cycles:u`` -> ``cycles``).

    Where an event was counted with several modifiers, or with and without, all but the bare one keep theirs.
    """
    spelled = defaultdict(set)
    for run in runs:
        for event in run.events:
            spelled[_bare(event.name)].add(event.name)
    return {name: bare if len(names) == 1 else name for bare, names in spelled.items() for name in names}


def _bare(name: str) -> str:
    return _MODIFIER.sub("", name)


@cache
def _units() -> dict[str, float]:
    return {k: float(v) for k, v in tomllib.loads(Path(__file__).with_name("units.toml").read_text()).items()}
