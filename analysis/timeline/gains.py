"""How much each piece of advice can gain: by removing a part of the wall time, hiding it or speeding it up.

A share of the wall time that is removed leaves the rest. A share that is hidden behind other work leaves the longer of
the two: preparing input for 96 % of the time in one background worker makes a program 1.04 times as fast, although
without that work it would be 25 times as fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from ..store.manifest import PcieLink
from .activity_tables import CopyRow
from .idle import Idle
from .rules import GainKind, rules

_FEW_GAPS = 10
"""With fewer gaps than this, their mean length is not reliable."""
_MOST_WORKERS = 64
"""More workers than a host usually has cores for are not mentioned."""


@dataclass(frozen=True)
class AdviceGain:
    """How many times as fast the program can become: at most, and as expected from what was measured; None: unknown."""

    upper: float | None = None
    expected: float | None = None


@dataclass(frozen=True)
class Savings:
    """What advice for one height can save, in % of the wall time.

    ``share`` is the time of the height, ``saved`` what vanishes at most without it, and ``expected`` what remains of
    that after a change of one kind, as far as the trace and the machine tell.
    """

    share: float
    saved: float
    expected: Mapping[str, float]

    @property
    def bound(self) -> float | None:
        """The speed-up if everything that may vanish does; None if nothing would remain."""
        return speedup(self.saved)

    def gain(self, kind: GainKind | None) -> AdviceGain:
        """Return the gain of advice of one kind."""
        if kind is None:
            return AdviceGain()
        upper = self.bound
        if kind in ("overlap", "workers"):
            hidden = speedup(min(self.share, 100 - self.share))
            upper = hidden if upper is None or hidden is None else min(upper, hidden)
        return AdviceGain(upper, speedup(self.expected[kind]) if kind in self.expected else None)

    def gain_text(self, kind: GainKind | None) -> str:
        """Return the gain as a clause in parentheses with a leading space, or an empty text if it is unknown."""
        gain = self.gain(kind)
        if gain.upper is None:
            return ""
        expected = "" if gain.expected is None else f"about x {gain.expected:.3g} expected, "
        text = f"{expected}at most x {gain.upper:.3g}"
        if kind == "workers":
            workers = ceil(self.share / max(100 - self.share, 1e-9))
            text += " with one worker"
            if 1 < workers <= _MOST_WORKERS:
                text += f", x {100 / (100 - self.share):.3g} with {workers}"
        return f" ({text})"


def speedup(saved_pct: float) -> float | None:
    """Return the speed-up if this share of the wall time is saved; None if nothing would remain."""
    return None if saved_pct >= 100 else 100 / (100 - saved_pct)


def expected_from_pinning(copies: Sequence[CopyRow], link: PcieLink | None, wall: int) -> dict[str, float]:
    """Return, under ``pin``, what copies from pinned instead of pageable memory would save in % of the wall time.

    It is known if the link is, and if the copies are large enough to use it.
    """
    limits = rules().limits
    slow = [
        row
        for row in copies
        if row.pinned is False and row.gbs and row.bytes and row.bytes >= limits.large_copy_bytes * row.copies
    ]
    if link is None or not slow:
        return {}
    saved = sum(row.ns * max(0.0, 1 - (row.gbs or 0.0) / (limits.pinned * link.gbs)) for row in slow)
    return {"pin": 100 * saved / max(wall, 1)}


def expected_from_graphs(idle: Sequence[Idle], wall: int) -> dict[str, float]:
    """Return, under ``graph``, what launching everything as a graph would save in % of the wall time.

    The gaps at launches would become as long as those between queued operations of this trace, if it has any.
    """
    by_cause = {each.cause: each for each in idle}
    queued = next((by_cause[c] for c in ("graph_nodes", "queued") if c in by_cause), None)
    if queued is None or queued.gaps < _FEW_GAPS or "launch" not in by_cause:
        return {}
    launch = by_cause["launch"]
    return {"graph": 100 * max(0.0, launch.ns - launch.gaps * queued.ns / queued.gaps) / max(wall, 1)}
