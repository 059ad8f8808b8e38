"""The parts of a change of the wall time between two timelines, per step if both have steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..base.notes import Note
from ..base.problems import BadInput
from ..catalogue.thresholds import threshold
from ..timeline.busy import ProgramCeiling, program_ceiling
from ..timeline.timeline import Timeline, TimelineRequest, timeline
from ..timeline.trace import has_timeline
from ..workload import Workload
from .time_ratio import Effect, ShapeTimes, TimeVerdict, effect

_LEAST_SHARE = threshold("timeline.least_part_of_change")
_COVERED = threshold("timeline.kernel_steps_cover")
_MOST = 4


@dataclass(frozen=True)
class WallTimePart:
    """A part of the wall time (kernels, copies alone, idle by cause, ...) before and after, in ns per step or total."""

    name: str
    before: float
    after: float

    @property
    def delta(self) -> float:
        """The contribution to the change of the wall time in ns."""
        return self.after - self.before


@dataclass(frozen=True)
class StepChange:
    """The wall times of the steps before and after as samples, where both sides certainly have the same steps."""

    name: str
    effect: Effect
    doubt: str | None
    """Why the times are not reliable."""

    @property
    def verdict(self) -> TimeVerdict:
        """Whether a step takes less or more time; inconclusive if the times are in doubt."""
        return "inconclusive" if self.doubt else self.effect.verdict


@dataclass(frozen=True)
class WallTimeChange:
    """The wall time in ns per step, or in total if one side has no steps, and the parts that add up to its change."""

    before: float
    after: float
    per_step: bool
    parts: Sequence[WallTimePart]
    steps: StepChange | None = None
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
    per_step = all(side.selected == "steady" for side in sides)
    steps = _step_change(*sides)
    if not per_step:
        sides = tuple(timeline(w, TimelineRequest(top_n=1, steady=False)) for w in (before, after))  # type: ignore[assignment]
    scales = [side.steps.count if per_step and side.steps else 1 for side in sides]
    split = [{name: ns / n for name, ns in _parts(side).items()} for side, n in zip(sides, scales, strict=True)]
    walls = [side.wall_ns / n for side, n in zip(sides, scales, strict=True)]
    parts = [WallTimePart(name, split[0].get(name, 0.0), split[1].get(name, 0.0)) for name in {**split[0], **split[1]}]
    ceilings = [
        program_ceiling(
            side.trace, side.windows[0], of_side, doubted=any(d.of in ("busy", "events") for d in side.doubts)
        )
        for side, of_side in zip(sides, roofs, strict=False)
    ]
    ranked = sorted(parts, key=lambda part: -abs(part.delta))
    return WallTimeChange(walls[0], walls[1], per_step, ranked, steps, ceilings)


def _step_change(before: Timeline, after: Timeline) -> StepChange | None:
    """Return the change of the wall time of a step; None unless both sides certainly have the same steps.

    That is so if ranges of one name are the steps. A kernel may repeat several times in a step of the program, so its
    repetitions are compared only if both sides have equally many of them and they cover the device's time.
    """
    one, other = before.steps, after.steps
    if one is None or other is None or (one.by, one.name) != (other.by, other.name):
        return None
    alike = len(one.starts) == len(other.starts) and min(map(_covered_share, (before, after))) >= _COVERED
    if not (one.certain or alike):
        return None
    times = [tuple(map(float, each.durations[each.warm_up :])) for each in (one, other)]
    if not all(times) or any(min(some) <= 0 for some in times):
        return None
    parts = [ShapeTimes(some, len(some)) for some in times]
    measured = effect(parts[:1], parts[1:], (len(times[0]), len(times[1])))
    doubts = [doubt.text for side in (before, after) for doubt in side.doubts]
    return StepChange(one.name, measured, doubts[0] if doubts else None)


def _covered_share(side: Timeline) -> float:
    """Return the share of the device's time span that the complete steps cover."""
    starts, work = side.steps.starts if side.steps else [0], side.trace.work
    return (starts[-1] - starts[0]) / max(int(work.e.max() - work.s.min()), 1)


def notes(changed: WallTimeChange | None) -> list[Note]:
    """Return a note on the change of the wall time, if there is one."""
    if changed is None:
        return []
    total = abs(changed.after - changed.before)
    told = [p for p in changed.parts if abs(p.delta) >= _LEAST_SHARE * max(total, 1)][:_MOST]
    parts = ", ".join(f"{p.name} {p.before / 1e6:.3g} -> {p.after / 1e6:.3g} ms ({p.delta / 1e6:+.3g})" for p in told)
    what = " per step" if changed.per_step else ""
    mean = "Mean wall" if changed.per_step else "Wall"
    text = f"{mean} time{what} in the timelines: {changed.before / 1e6:.4g} -> {changed.after / 1e6:.4g} ms"
    return [Note("wall_time", f"{text}; parts: {parts}." if parts else f"{text}.")]


def _parts(of: Timeline) -> dict[str, float]:
    """Return disjoint parts of the wall time in ns, as means over the devices."""
    total, devices = of.total, max(len(of.trace.lanes), 1)
    parts = {
        "kernels": total.computing,
        "communication alone": total.exposed_communication,
        "copies alone": total.exposed_copies,
        **{f"idle: {row.idle.cause}": row.idle.ns for row in of.causes},
    }
    return {name: ns / devices for name, ns in parts.items() if ns}
