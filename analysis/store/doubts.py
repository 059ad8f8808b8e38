"""Doubts about what a profile holds: counters and times that are not to be trusted, and the figures that they reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..base.notes import Reason

DURATION = "duration_ns"
"""What a figure reads that needs the time of a launch."""
EVERY_COUNTER = "*"
_MOST_IN_REASON = 2
"""Doubts that one figure's reason tells."""


@dataclass(frozen=True)
class Doubt:
    """What a check found: ``counters`` (columns of counters or dispatches, ``*`` for all) or times that may be wrong.

    ``across`` doubts only figures that join passes. ``kernels`` are those in which it was seen; None for all.
    """

    code: str
    text: str
    counters: tuple[str, ...] = ()
    times: bool = False
    across: bool = False
    kernels: tuple[str, ...] | None = None

    def touches(self, reads: frozenset[str], several_passes: bool) -> bool:
        """Whether a figure with these inputs, possibly of ``several_passes``, is built on what is doubted."""
        if self.across:
            return several_passes
        if self.times and DURATION in reads:
            return True
        return (EVERY_COUNTER in self.counters and bool(reads - {DURATION})) or not reads.isdisjoint(self.counters)

    def seen_in(self, kernels: Iterable[str]) -> bool:
        """Whether it was seen in any of these kernels, or in what a launch configuration of one is called."""
        known = self.kernels
        if known is None:
            return True
        names = set(known)
        return any(k in names or any(k.startswith(f"{name} [") for name in known) for k in kernels)


@dataclass(frozen=True)
class Doubts:
    """All doubts about a workload, and what tells which figures join passes."""

    known: Sequence[Doubt]
    passes: Mapping[str, frozenset[str]]
    """Pass -> its columns; times are those of the first."""

    def about(self, reads: frozenset[str], kernels: Iterable[str]) -> Reason | None:
        """Why a figure of these kernels with these inputs is not to be trusted; None where nothing says so."""
        if not self.known:
            return None
        several_passes = self._needs_several_passes(reads)
        names = list(kernels)
        texts = dict.fromkeys(d.text for d in self.known if d.touches(reads, several_passes) and d.seen_in(names))
        return Reason("doubted", "; ".join(list(texts)[:_MOST_IN_REASON])) if texts else None

    def _needs_several_passes(self, reads: frozenset[str]) -> bool:
        if len(self.passes) < 2:
            return False
        collected = frozenset[str]().union(*self.passes.values())
        first = next(iter(self.passes))
        wanted = reads & collected
        timed = DURATION in reads
        return not any(wanted <= columns for name, columns in self.passes.items() if name == first or not timed)
