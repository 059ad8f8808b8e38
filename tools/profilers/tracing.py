"""The word "timeline" among the metrics of a profile: the run for times is traced, beside counters or alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.planning.plan import PassPlan, plan

TIMELINE = "timeline"
"""No metric has this name: it asks for what host and devices did when."""
_USUAL = ("overview",)


@dataclass(frozen=True)
class Wanted:
    """What a profile is to hold."""

    metrics: tuple[str, ...]
    timeline: bool

    @property
    def counts(self) -> bool:
        """Whether anything is to be counted; else the program runs once."""
        return bool(self.metrics)

    def plan(self, target: str, max_passes: int | None) -> PassPlan:
        """The passes for the metrics; none for a timeline alone, which needs no counter of the target to be known."""
        if self.timeline and not self.metrics:
            return PassPlan(target, (), (), (), {}, {}, 0, {})
        return plan(target, self.metrics, max_passes=max_passes)


def wanted(metrics: Sequence[str] | None) -> Wanted:
    """The metrics that were asked for, and whether a timeline is among them; by default the preset overview."""
    words = _USUAL if metrics is None else tuple(metrics)
    rest = tuple(word for word in words if word.strip() != TIMELINE)
    return Wanted(rest, len(rest) < len(words))
