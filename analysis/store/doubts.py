"""Doubts about the counters and times of a profile, and the figures that they affect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..base.notes import Reason

DURATION = "duration_ns"
"""The name of the launch time among the inputs of figures."""
EVERY_COUNTER = "*"
_MOST_IN_REASON = 2
"""How many doubts the reason of one figure lists."""


@dataclass(frozen=True)
class Doubt:
    """A suspicion from a check: ``counters`` (columns of counters or dispatches, ``*`` for all) or times may be wrong.

    ``across`` affects only figures that combine passes. ``kernels`` are those in which it was seen; None for all.
    """

    code: str
    text: str
    counters: tuple[str, ...] = ()
    times: bool = False
    across: bool = False
    kernels: tuple[str, ...] | None = None

    def touches(self, reads: frozenset[str], several_passes: bool) -> bool:
        """Whether a figure with these inputs, possibly from ``several_passes``, is built on something doubted."""
        if self.across:
            return several_passes
        if self.times and DURATION in reads:
            return True
        return (EVERY_COUNTER in self.counters and bool(reads - {DURATION})) or not reads.isdisjoint(self.counters)

    def seen_in(self, kernels: Iterable[str]) -> bool:
        """Whether it was seen in any of these kernels or in their launch configurations."""
        known = self.kernels
        if known is None:
            return True
        names = set(known)
        return any(k in names or any(k.startswith(f"{name} [") for name in known) for k in kernels)


@dataclass(frozen=True)
class Doubts:
    """All doubts about a workload, and the passes, to find out which figures combine several."""

    known: Sequence[Doubt]
    passes: Mapping[str, frozenset[str]]
    """Pass -> its columns; the times belong to the first pass."""

    def about(self, reads: frozenset[str], kernels: Iterable[str]) -> Reason | None:
        """The reason why a figure of these kernels with these inputs is doubted, or None."""
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
