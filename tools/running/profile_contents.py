"""Words among the metrics of a profile that name no metric: "timeline" (what host and devices did when) and "hotspots"
(which instruction and source line the time goes to), each beside counters or alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.planning.plan import PassPlan, plan

TIMELINE = "timeline"
HOTSPOTS = "hotspots"
_USUAL = ("overview", "diagnosis")
"""What a first look and a sure diagnosis need: about 20 replays of a launch on Hopper, 3 to 5 runs on Instinct."""


@dataclass(frozen=True)
class ProfileContents:
    """What a profile is to hold."""

    metrics: tuple[str, ...]
    timeline: bool
    hotspots: bool = False

    @property
    def counts(self) -> bool:
        """Whether a profiler is to measure launches; else the program runs once, for times."""
        return bool(self.metrics) or self.hotspots

    def plan(self, target: str, max_passes: int | None) -> PassPlan:
        """The passes for the metrics; none where no metric is wanted: timelines and hot spots need no counter of the
        target to be known."""
        if (self.timeline or self.hotspots) and not self.metrics:
            return PassPlan(target, (), (), (), {}, {}, 0, {})
        return plan(target, self.metrics, max_passes=max_passes)


def parse_metrics(metrics: Sequence[str] | None) -> ProfileContents:
    """The metrics that were asked for, and which of the two words are among them; by default _USUAL."""
    words = _USUAL if metrics is None else tuple(metrics)
    names = tuple(word for word in words if word.strip() not in (TIMELINE, HOTSPOTS))
    stripped = {word.strip() for word in words}
    return ProfileContents(names, TIMELINE in stripped, HOTSPOTS in stripped)
