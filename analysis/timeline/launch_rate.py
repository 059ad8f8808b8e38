"""The pace of a machine: how long a launch takes on it, by which limits on times of the host and the queue go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .busy import ANY
from .rules import TimelineLimits, rules
from .trace import COPY, NONE

if TYPE_CHECKING:
    from .trace import Trace

_LAUNCHES = 10
"""Fewer tell no pace."""


def launch_ns(trace: Trace) -> float | None:
    """Median time from the begin of a launch on an idle device to its end, or to the kernel's start where that comes
    first: a launch that blocks until its kernel ends is as quick as any. None of too few launches.

    Launches on a busy device are left out, as they wait where the queue is full.
    """
    import numpy as np

    work, ahead = trace.work, trace.ahead("any", ANY)
    idle = (ahead != NONE) & (work.a0 != NONE) & (work.a0 >= ahead) & (work.cls != COPY)
    if np.count_nonzero(idle) < _LAUNCHES:
        return None
    return float(np.median(np.minimum(work.a1[idle], work.s[idle]) - work.a0[idle]))


def scale_limits(trace: Trace) -> TimelineLimits:
    """The limits; those on host and queue are longer by as much as launches take longer than on ordinary machines."""
    limits, measured_ns = rules().limits, launch_ns(trace)
    slower = (measured_ns or 0.0) / limits.ordinary_launch_ns
    if slower <= 1:
        return limits
    return replace(
        limits,
        short_pause_ns=round(slower * limits.short_pause_ns),
        lazy_load_ns=round(slower * limits.lazy_load_ns),
        queued_ns=round(slower * limits.queued_ns),
    )
