"""The parts of a change of the wall time between two timelines: of a step if both certainly have the same steps,
otherwise of the time between the first and the last work of the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ..base.notes import Note
from ..base.problems import BadInput
from ..catalogue.thresholds import threshold
from ..timeline.busy import Busy, ProgramCeiling, Within, busy, program_ceiling
from ..timeline.idle import find
from ..timeline.steps import Steps
from ..timeline.timeline import Timeline, TimelineRequest, timeline
from ..timeline.trace import Trace, Window, has_timeline
from ..workload import Workload
from .time_ratio import Effect, ShapeTimes, TimeVerdict, effect
from .wording import note, sentence

_LEAST_SHARE = threshold("timeline.least_part_of_change")
_MOST = 4
SPAN = "first to last work of the device"
"""What is compared where the steps are not certainly the same."""


@dataclass(frozen=True)
class WallTimePart:
    """A part of the wall time (kernels, copies alone, idle by cause, ...) before and after, in ns."""

    name: str
    before: float
    after: float

    @property
    def delta(self) -> float:
        """The contribution to the change of the wall time in ns."""
        return self.after - self.before


@dataclass(frozen=True)
class StepChange:
    """The wall times of the steps before and after as samples, where both sides certainly have the same steps.

    Otherwise ``name`` is SPAN, with one time of each side.
    """

    name: str
    effect: Effect
    doubt: str | None
    """Why the times are not reliable."""

    @property
    def beyond_noise(self) -> bool:
        """Whether the times are reliable and differ by more than the noise floor."""
        return not self.doubt and self.effect.verdict != "inconclusive"

    @property
    def verdict(self) -> TimeVerdict:
        """Whether a step takes less or more time; inconclusive if the times are in doubt, or for one run of each."""
        return self.effect.verdict if self.beyond_noise and self.name != SPAN else "inconclusive"


@dataclass(frozen=True)
class WallTimeChange:
    """The mean wall time of a step, or the time from the first to the last work of the device, in ns, and the parts
    that add up to its change."""

    before: float
    after: float
    parts: Sequence[WallTimePart]
    steps: StepChange
    ceilings: Sequence[ProgramCeiling] = ()
    """The distance of both versions to their ceilings; empty without roofs."""


def change(before: Workload, after: Workload, roofs: Sequence[Mapping[str, float]] = ()) -> WallTimeChange | None:
    """Return the change of the wall time by its parts; None if one of the workloads has no timeline.

    ``roofs`` are the least times of the kernels of both, as ``program_ceiling`` takes them.
    """
    if not (has_timeline(before) and has_timeline(after)):
        return None
    try:
        sides = timeline(before, TimelineRequest(top_n=1)), timeline(after, TimelineRequest(top_n=1))
    except BadInput:  # one of the timelines contains no device work
        return None
    same = _same_steps(*sides)
    if same:
        name = same[0].name
        windows = [side.windows[0] for side in sides]
        times = [each.durations[each.warm_up :] for each in same]
    else:
        windows = [Window(int(side.trace.work.s.min()), int(side.trace.work.e.max())) for side in sides]
        name = SPAN
        times = [[window.end - window.start] for window in windows]
    if not all(map(min, times)):
        return None
    samples = [[ShapeTimes(tuple(some), len(some))] for some in times]
    measured = effect(samples[0], samples[1], (len(times[0]), len(times[1])))
    split = [_parts(side.trace, window, len(some)) for side, window, some in zip(sides, windows, times, strict=True)]
    parts = [WallTimePart(name, split[0].get(name, 0.0), split[1].get(name, 0.0)) for name in split[0] | split[1]]
    ceilings = [
        program_ceiling(side.trace, window, of_side, doubted=any(d.of in ("busy", "events") for d in side.doubts))
        for side, window, of_side in zip(sides, windows, roofs, strict=False)
    ]
    ranked = sorted(parts, key=lambda part: -abs(part.delta))
    changed = StepChange(name, measured, next((doubt.text for side in sides for doubt in side.doubts), None))
    return WallTimeChange(fmean(times[0]), fmean(times[1]), ranked, changed, ceilings)


def _same_steps(before: Timeline, after: Timeline) -> tuple[Steps, Steps] | None:
    """Return the steps of both sides; None unless they are certainly the same.

    A kernel or an operator that repeats may be a part of a step, so its repetitions are not compared.
    """
    one, other = before.steps, after.steps
    steady = before.selected == after.selected == "steady"
    if steady and one and other and one.name == other.name and one.certain and other.certain:
        return one, other
    return None


def notes(changed: WallTimeChange | None) -> list[Note]:
    """Return a note on the change of the wall time, if there is one."""
    if changed is None:
        return []
    total = abs(changed.after - changed.before)
    told = [p for p in changed.parts if abs(p.delta) >= _LEAST_SHARE * max(total, 1)][:_MOST]
    parts = [sentence("part_of_time", part=part) for part in told]
    what = sentence("span_of_timelines" if changed.steps.name == SPAN else "step_of_timelines")
    listed = sentence("parts_of_time", parts=parts) if parts else ""
    return [note("wall_time", what=what, changed=changed, parts=listed)]


def _parts(trace: Trace, window: Window, count: int) -> dict[str, float]:
    """Return disjoint parts of a window in ns, as means over the devices and a number of steps."""
    within = Within([window])
    total, n = sum(busy(trace, within).values(), Busy(0)), count * max(len(trace.lanes), 1)
    parts = {
        "kernels": total.computing,
        "communication alone": total.exposed_communication,
        "copies alone": total.exposed_copies,
        **{f"idle: {idle.cause}": idle.ns for idle in find(trace, within).causes},
    }
    return {name: ns / n for name, ns in parts.items() if ns}
