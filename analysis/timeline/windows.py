"""The windows that the figures of a timeline refer to: its steps, all its work, or requested ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..base.database import sql_literal
from ..base.kernel_names import matching
from ..base.problems import near
from ..catalogue.thresholds import threshold
from .busy import Busy, Within, busy, merge_windows
from .requested_work import RequestedWork, requested_work
from .steps import STEPS_COVER, Steps
from .trace import NONE, Trace, Window
from .wording import problem

_MOST_RANGES = 20_000
_OTHER_STORY = threshold("timeline.other_story_points")


Selected = Literal["steady", "work", "whole", "range"]
"""Steps after the warm-up, the time from the first to the last device work, the whole trace, or requested ranges."""


@dataclass(frozen=True)
class ChosenWindows:
    """The windows that figures refer to; ``apart`` is the other one of steps and the time around them, if they tell
    different stories."""

    windows: Sequence[Window]
    selected: Selected
    apart: Window | None = None
    requested: RequestedWork | None = None
    """The work of requested ranges, to which the kernels are limited."""


def select_windows(trace: Trace, division: Steps | None, requested_range: str | None, *, steady: bool) -> ChosenWindows:
    """Return the windows that the figures refer to: the steps, if they stand for all work of the devices."""
    if requested_range is not None:
        return _select_ranges(trace, requested_range)
    if not steady:
        return ChosenWindows([trace.whole], "whole")
    loop = division.steady if division else None
    if not (division and loop):
        return ChosenWindows([trace.work_span], "work")
    if not _differ(trace, division, loop):
        return ChosenWindows([loop], "steady")
    # Steps that the program names are what it does; repetitions may be anything.
    if division.named:
        return ChosenWindows([loop], "steady", trace.work_span)
    return ChosenWindows([trace.work_span], "work", loop)


def _select_ranges(trace: Trace, name: str) -> ChosenWindows:
    """Return the times in which the devices do what ranges with this name, or of which the name matches, requested.

    If none of them requested work, their times on the host are returned.
    """
    if not trace.ranges:
        raise problem("no_ranges", name=name)
    every = [str(n) for (n,) in trace.rows(f"SELECT DISTINCT name FROM {trace.ranges} ORDER BY name LIMIT 100000")]
    names = {name} if name in every else set(matching(name, every))
    if not names:
        raise problem("unknown_range", name=name, near=near(name, every))
    listed = ", ".join(map(sql_literal, sorted(names)))
    rows = trace.rows(
        f"SELECT coalesce(pid, {NONE}), start_ns, end_ns FROM {trace.ranges} WHERE name IN ({listed}) "
        f"AND end_ns > start_ns ORDER BY start_ns LIMIT {_MOST_RANGES + 1}"
    )
    if not rows:
        raise problem("empty_ranges", name=name)
    if len(rows) > _MOST_RANGES:
        raise problem("many_ranges", name=name, most=_MOST_RANGES)
    pid, start, end = np.array(rows, dtype=np.int64).T
    requested = requested_work(trace, pid, start, end)
    known = bool(requested.has_work.any())
    spans = np.stack(requested.spans() if known else (start, end), axis=1)
    return ChosenWindows(merge_windows(spans.tolist()), "range", requested=requested if known else None)


def _parts(trace: Trace, window: Window) -> list[float]:
    """Return the disjoint parts of the time within a window in %, without that before the first and after the last work
    of each device."""
    within = Within([window])
    total = sum(busy(trace, within).values(), Busy(0))
    idle_ns, whole = total.idle, trace.whole
    for lane in trace.lanes:
        first, last = trace.work.s[lane.first], trace.work.e[lane.first : lane.last].max()
        edges = np.array([whole.start, last]), np.array([first, whole.end])
        idle_ns -= int(within.ns(*edges).sum())
    parts = (total.computing, total.exposed_communication, total.exposed_copies, idle_ns)
    return [100 * ns / max(sum(parts), 1) for ns in parts]


def _differ(trace: Trace, division: Steps, steady: Window) -> bool:
    """Whether steps tell another story than the work around them, of which a setup and a warm-up after it are no part.

    Repetitions that are not certainly steps do so as soon as they leave out a large part of that time.
    """
    span = trace.work_span
    around = Window(steady.start, span.end) if division.after_setup else span
    if not division.certain and steady.ns < STEPS_COVER * around.ns:
        return True
    pairs = zip(_parts(trace, steady), _parts(trace, around), strict=True)
    return any(abs(one - other) > _OTHER_STORY for one, other in pairs)
