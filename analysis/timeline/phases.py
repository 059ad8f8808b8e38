"""The phases of a program, such as prefill and decode: what the names of its ranges say about the work in them.

Device work belongs to the phase in which it was requested, on any thread of its process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.database import sql_literal
from .requested_work import requested_work
from .rules import rules
from .trace import NONE, OF_PROGRAM, Trace

_MOST = 200_000

OPERATIONS = (
    "attention",
    "matrix",
    "convolution",
    "collectives",
    "normalisation",
    "sampling",
    "cache",
    "copies",
    "other",
)
"""Groups of operations on the device."""


Row = dict[str, Any]
"""A range that is a phase of the program, by the columns of the table phases. Those of the device are None if nothing
is known of it; ``busy_ns`` is the time in which the work that it requested runs, without overlap, but the time of each
group of operations counts work that overlaps twice. For decode, ``interval_ns`` is the time between tokens."""
_DEVICE = ("device_start_ns", "device_end_ns", "busy_ns", *(f"{group}_ns" for group in OPERATIONS))
_KEY = itemgetter("phase", "pid", "thread")


def phases(trace: Trace) -> list[Row]:
    """Return the phases of the program by their start, at most 200,000; empty if no range is one."""
    if not trace.ranges:
        return []
    named = " OR ".join(f"regexp_matches(name, {sql_literal(rule.pattern.pattern)})" for rule in rules().phases)
    rows = trace.rows(
        f"SELECT name, rank, pid, thread, start_ns, end_ns FROM {trace.ranges} WHERE {OF_PROGRAM} "
        f"AND ({named}) ORDER BY pid, thread, start_ns, end_ns DESC LIMIT {_MOST}"
    )
    made: list[Row] = []
    last: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        each = dict(zip(("name", "rank", "pid", "thread", "start_ns", "end_ns"), row, strict=True))
        if (stated := _phase_of(str(each["name"]))) is None:
            continue
        each |= stated
        before = last.get(_KEY(each))
        if before is not None and each["end_ns"] <= before["end_ns"]:
            before |= {name: before[name] or each[name] for name in ("requests", "tokens")}
            continue
        made.append(each | dict.fromkeys((*_DEVICE, "interval_ns")))
        last[_KEY(each)] = made[-1]
    if trace.calls and made:
        _add_device_work(trace, made)
    return sorted(made, key=lambda each: (each["start_ns"], -each["end_ns"]))


@lru_cache(10_000)
def _phase_of(name: str) -> Row | None:
    """Return the phase that the name of a range states, with its numbers of requests and tokens."""
    for rule in rules().phases:
        if (match := rule.pattern.search(name)) is None:
            continue
        numbers = {key: int(text[:18]) for key, text in match.groupdict().items() if text}
        if rule.name is not None:
            return {"phase": rule.name, "requests": numbers.get("requests"), "tokens": numbers.get("tokens")}
        context, generation = numbers["context"], numbers["generation"]
        if context or generation:
            what = "decode" if not context else "mixed" if generation else "prefill"
            tokens = numbers["context_tokens"] + numbers["generation_tokens"]
            return {"phase": what, "requests": context + generation, "tokens": tokens}
    return None


def _add_device_work(trace: Trace, made: Sequence[Row]) -> None:
    """Add to the phases what the device did for them."""
    pid = np.array([NONE if each["pid"] is None else each["pid"] for each in made])
    requested = requested_work(
        trace, pid, *(np.array([each[name] for each in made]) for name in ("start_ns", "end_ns"))
    )
    lengths, groups = trace.work.e - trace.work.s, _operation_groups(trace)
    by_group = [requested.before(np.where(groups == g, lengths, 0)) for g in range(len(OPERATIONS))]
    known = np.flatnonzero(requested.has_work)
    first, last = requested.first[known], requested.last[known]
    sums = [total[last] - total[first] for total in (requested.times(), *by_group)]
    for at, *values in np.stack([known, *requested.spans(), *sums], axis=1).tolist():
        made[at].update(zip(_DEVICE, values, strict=True))
    before: dict[tuple[Any, ...], int] = {}
    for each in made:
        if (end := each["device_end_ns"]) is not None:
            each["interval_ns"] = end - before[_KEY(each)] if _KEY(each) in before else None
            before[_KEY(each)] = end


def _operation_groups(trace: Trace) -> NDArray[np.int8]:
    """Return for each piece of device work the position of its group in ``OPERATIONS``."""
    cases = " ".join(
        f"WHEN regexp_matches(name, {sql_literal(pattern)}) THEN {OPERATIONS.index(group)}"
        for group, pattern in rules().operations.items()
    )
    talks, other = OPERATIONS.index("collectives"), OPERATIONS.index("other")
    known = trace.rows(f"SELECT CASE WHEN talks THEN {talks} {cases} ELSE {other} END FROM tl_kernels ORDER BY kernel")
    of_kernel = np.array([*(group for (group,) in known), OPERATIONS.index("copies")], dtype=np.int8)
    groups: NDArray[np.int8] = of_kernel[trace.work.kernel]  # -1 is the last one: copies and fills
    return groups
