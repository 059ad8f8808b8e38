"""The limits, name patterns and texts of the timeline analysis, from rules.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import tomli


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
    category: str | None


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
    height: HeightName | None


GainKind = Literal["remove", "overlap", "workers", "pin", "graph"]


@dataclass(frozen=True)
class AdviceLine:
    """A piece of advice, and how its gain is computed.

    ``after`` is the height whose advice has to be followed first if the host waits for the device within a step.
    """

    text: str
    gain: GainKind | None
    after: str | None


@dataclass(frozen=True)
class Height:
    """The texts for a height; ``claim`` contains placeholders for the share in % and for the window."""

    claim: str
    advice: Sequence[Mapping[str, str]]
    falsify: str

    def advice_lines(self, vendor: str | None, torch: bool) -> list[AdviceLine]:
        """The advice for the program, with the names of the vendor's runtime."""
        words = _words(vendor)
        texts = [((torch and one.get("torch")) or one.get("text"), one) for one in self.advice]
        return [
            AdviceLine(text.format_map(words), cast("GainKind | None", one.get("gain")), one.get("after"))
            for text, one in texts
            if text
        ]


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

    name: str | None
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Rules:
    """The content of rules.toml."""

    limits: TimelineLimits
    calls: Sequence[CallClass]
    communication: str
    """A RE2 pattern for the names of kernels that communicate between devices."""
    launches: LaunchPatterns
    step_ranges: Sequence[str]
    """RE2 patterns for the names of ranges that are steps; those that match an earlier one contain the others."""
    step_parts: str
    """A RE2 pattern for the names of ranges that are parts of a step."""
    phases: Sequence[PhaseRule]
    operations: Mapping[str, str]
    """Groups of operations -> RE2 patterns for the names of their kernels; the first match decides."""
    causes: Mapping[str, Cause]
    heights: Mapping[str, Height]
    ranks: Mapping[str, OfRanks]
    rank_counters: Mapping[str, RankCounters]
    """Quantity compared between ranks -> the counters that measure it."""


@cache
def _data() -> dict[str, Any]:
    return tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def _words(vendor: str | None) -> dict[str, str]:
    """The names in a vendor's runtime; for an unknown vendor, those of all vendors."""
    known = _data()["words"]
    chosen = [known[vendor]] if vendor in known else list(known.values())
    return {name: " or ".join(words[name] for words in chosen) for name in chosen[0]}


@cache
def rules() -> Rules:
    """Return the rules; the file is part of the package, so an error in it is a bug."""
    data = _data()
    return Rules(
        limits=TimelineLimits(**data["limits"]),
        calls=[CallClass(c["class"], c["name"], c.get("category")) for c in data["call"]],
        communication=f"(?i)({'|'.join(data['communication']['kernels'])})",
        step_ranges=data["steps"]["names"],
        step_parts="|".join(f"({pattern})" for pattern in data["steps"]["parts"]),
        phases=[PhaseRule(p.get("name"), re.compile(p["pattern"])) for p in data["phase"]],
        operations=data["operations"],
        launches=LaunchPatterns(**data["launches"]),
        causes={name: Cause(c["title"], c.get("height")) for name, c in data["cause"].items()},
        heights={name: Height(**h) for name, h in data["height"].items()},
        ranks={name: OfRanks(**said) for name, said in data["ranks"].items() if name != "counters"},
        rank_counters={name: RankCounters(**one) for name, one in data["ranks"]["counters"].items()},
    )
