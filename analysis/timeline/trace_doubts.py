"""What speaks against the times of a timeline: clocks that differ, work without length, work that no call asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .rules import rules
from .trace import COMMUNICATION, COMPUTE, NONE, Trace


@dataclass(frozen=True)
class TraceDoubt:
    """One of them in words; ``of`` says what it makes doubtful: causes of idle time, or the time that devices work."""

    code: str
    of: Literal["causes", "busy"]
    text: str


def doubts(trace: Trace) -> list[TraceDoubt]:
    """All that there are."""
    import numpy as np

    work, limits, doubted = trace.work, rules().limits, list[TraceDoubt]()
    asked = work.a0 != NONE
    share = 100 * float(asked.mean())
    early = asked & (work.s < work.a0)
    if share and (part := 100 * int(early.sum()) / int(asked.sum())) >= limits.early_pct:
        ahead = float(np.median((work.a0 - work.s)[early]))
        text = (
            f"{part:.0f} % of the device's work starts before the call that asked for it (by {ahead / 1e3:.3g} us, "
            "median): the clocks of host and device differ, so why the device was idle is not certain."
        )
        doubted.append(TraceDoubt("clocks_differ", "causes", text))
    if trace.calls and 100 - share >= limits.unasked_pct:
        text = (
            f"{100 - share:.0f} % of the device's work belongs to no recorded call of the host (no correlation in "
            "common): why the device was idle before it is not known."
        )
        doubted.append(TraceDoubt("not_asked_for", "causes", text))
    kernels = work.of((COMPUTE, COMMUNICATION))
    if kernels.any() and (none := 100 * float((work.e == work.s)[kernels].mean())) >= limits.instant_pct:
        text = f"{none:.0f} % of the kernels have no length in the profile: the device works more than is told."
        doubted.append(TraceDoubt("no_length", "busy", text))
    return doubted
