"""The limits, name patterns and texts of the timeline analysis, from rules.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import tomli
from pydantic import TypeAdapter


@dataclass(frozen=True)
class TimelineLimits:
    """The limits of the analysis, in ns and % where the name says so; rules.toml explains each one."""

    short_pause_ns: int
    lazy_load_ns: int
    queued_ns: int
    short_kernel_ns: int
    ordinary_launch_ns: int
    warm_up: float
    kernels_weigh: float
    recorded_launch: float
    launches_alone: float
    doubted: float
    early_pct: float
    unasked_pct: float
    instant_pct: float
    one_gap_pct: float
    told_pct: float
    idle_first_pct: float
    start_up_pct: float
    imbalance_pct: float
    uneven_pct: float
    slow_link: float
    pinned: float
    large_copy_bytes: int
    sequence: int


@dataclass(frozen=True)
class CallClass:
    """A class of host calls: RE2 patterns for their names and for the category that the profiler states."""

    name: str
    pattern: str
    category: str = ""


@dataclass(frozen=True)
class LaunchPatterns:
    """RE2 patterns for the names of host calls that launch kernels or graphs, or begin and end a stream capture."""

    kernel: str
    graph: str
    capture_begin: str
    capture_end: str


HeightName = Literal[
    "gpu", "launch", "host", "copies", "synchronisation", "allocation", "communication", "latency", "waiting", "unknown"
]  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """A cause of idle time: its description, and the height to which the time is added (None for none)."""

    title: str
    height: HeightName | None = None


GainKind = Literal["remove", "overlap", "workers", "pin", "graph"]


@dataclass(frozen=True)
class AdviceLine:
    """A piece of advice, and how its gain is computed; without a text it is for PyTorch programs only (``torch``).

    ``after`` is the height whose advice has to be followed first if the host waits for the device within a step.
    """

    text: str = ""
    torch: str = ""
    gain: GainKind | None = None
    after: str | None = None


@dataclass(frozen=True)
class Height:
    """The texts for a height; ``claim`` contains placeholders for the share in % and for the window."""

    claim: str
    advice: Sequence[AdviceLine]
    falsify: str

    def advice_lines(self, vendor: str | None, torch: bool) -> list[AdviceLine]:
        """The advice for the program, with the names of the vendor's runtime."""
        known = rules().words
        # For an unknown vendor, the names of all vendors.
        chosen = [known[vendor]] if vendor and vendor in known else list(known.values())
        words = {name: " or ".join(each[name] for each in chosen) for name in chosen[0]}
        lines = [replace(line, text=(torch and line.torch) or line.text) for line in self.advice]
        return [replace(line, text=line.text.format_map(words)) for line in lines if line.text]


@dataclass(frozen=True)
class OfRanks:
    """The texts for one reason why a rank computes longer than the others."""

    claim: str
    advice: Sequence[str]


@dataclass(frozen=True)
class RankCounters:
    """Counters that measure a quantity, the best first, and how to interpret it."""

    names: Sequence[str]
    words: str


@dataclass(frozen=True)
class PhaseRule:
    """A phase of a program (None if its counts of requests decide) and the pattern of its ranges."""

    pattern: re.Pattern[str]
    name: str | None = None


@dataclass(frozen=True)
class Rules:
    """The content of rules.toml."""

    limits: TimelineLimits
    calls: Sequence[CallClass]
    collectives: Mapping[Literal["kernels"], Sequence[str]]
    launches: LaunchPatterns
    steps: Mapping[Literal["names", "parts"], Sequence[str]]
    """RE2 patterns for the names of ranges that are steps, those that match an earlier one contain the others, and for
    ranges that are parts of a step."""
    phases: Sequence[PhaseRule]
    operations: Mapping[str, str]
    """Groups of operations -> RE2 patterns for the names of their kernels; the first match decides."""
    causes: Mapping[str, Cause]
    heights: Mapping[str, Height]
    ranks: Mapping[str, OfRanks]
    rank_counters: Mapping[str, RankCounters]
    """Quantity compared between ranks -> the counters that measure it."""
    words: Mapping[str, Mapping[str, str]]
    """The names in the vendors' runtimes."""

    @property
    def communication(self) -> str:
        """A RE2 pattern for the names of kernels that communicate between devices."""
        return f"(?i)({'|'.join(self.collectives['kernels'])})"


@cache
def rules() -> Rules:
    """Return the rules; the file is part of the package, so an error in it is a bug."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return TypeAdapter(Rules).validate_python(tomli.loads(text))
