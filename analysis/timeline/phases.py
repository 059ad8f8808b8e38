"""The phases of a program, such as prefill and decode: what the names of its ranges say about the work in them.

Device work belongs to the phase in which it was requested, on any thread of its process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

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


@dataclass
class Phase:
    """A range that is a phase of the program; times in ns, those of the device None if nothing is known of it."""

    phase: str
    name: str
    rank: int | None
    pid: int
    thread: int | None
    requests: int | None
    """The batch size, if the name states it."""
    tokens: int | None
    start: int
    end: int
    device_start: int | None = None
    device_end: int | None = None
    busy: int | None = None
    """The time in which the work that it requested runs, without overlap."""
    interval: int | None = None
    """From the end on the device of the phase before of the same kind; for decode, the time between tokens."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """Group of operations -> the time of its work; work that overlaps counts twice."""


def phases(trace: Trace) -> list[Phase]:
    """Return the phases of the program by their start, at most 200,000; empty if no range is one."""
    if not trace.ranges:
        return []
    named = " OR ".join(f"regexp_matches(name, {sql_literal(rule.pattern.pattern)})" for rule in rules().phases)
    rows = trace.rows(
        f"SELECT name, rank, coalesce(pid, {NONE}), thread, start_ns, end_ns FROM {trace.ranges} WHERE {OF_PROGRAM} "
        f"AND ({named}) ORDER BY pid, thread, start_ns, end_ns DESC LIMIT {_MOST}"
    )
    made: list[Phase] = []
    last: dict[tuple[str, int, int | None], Phase] = {}
    for name, rank, pid, thread, start, end in rows:
        if (stated := _phase_of(str(name))) is None:
            continue
        what, requests, tokens = stated
        before = last.get((what, pid, thread))
        if before is not None and end <= before.end:
            before.requests, before.tokens = before.requests or requests, before.tokens or tokens
            continue
        made.append(Phase(what, str(name), rank, pid, thread, requests, tokens, int(start), int(end)))
        last[what, pid, thread] = made[-1]
    if trace.calls and made:
        _add_device_work(trace, made)
    return sorted(made, key=lambda each: (each.start, -each.end))


@lru_cache(10_000)
def _phase_of(name: str) -> tuple[str, int | None, int | None] | None:
    """Return the phase that the name of a range states, with its numbers of requests and tokens."""
    for rule in rules().phases:
        if (match := rule.pattern.search(name)) is None:
            continue
        numbers = {key: int(text[:18]) for key, text in match.groupdict().items() if text}
        if rule.name is not None:
            return rule.name, numbers.get("requests"), numbers.get("tokens")
        context, generation = numbers["context"], numbers["generation"]
        if context or generation:
            what = "decode" if not context else "mixed" if generation else "prefill"
            return what, context + generation, numbers["context_tokens"] + numbers["generation_tokens"]
    return None


def _add_device_work(trace: Trace, made: Sequence[Phase]) -> None:
    """Add to the phases what the device did for them."""
    columns = ([getattr(each, name) for each in made] for name in ("pid", "start", "end"))
    requested = requested_work(trace, *map(np.array, columns))
    lengths, groups = trace.work.e - trace.work.s, _operation_groups(trace)
    by_group = [requested.before(np.where(groups == g, lengths, 0)) for g in range(len(OPERATIONS))]
    known = np.flatnonzero(requested.has_work).tolist()
    busy, *by_group = [
        total[requested.last[known]] - total[requested.first[known]] for total in (requested.times(), *by_group)
    ]
    for i, (at, start, end) in enumerate(zip(known, *requested.spans(), strict=True)):
        each = made[at]
        each.device_start, each.device_end, each.busy = int(start), int(end), int(busy[i])
        each.operations = {name: int(by_group[g][i]) for g, name in enumerate(OPERATIONS)}
    before: dict[tuple[str, int, int | None], int] = {}
    for each in made:
        key = each.phase, each.pid, each.thread
        if each.device_end is not None:
            each.interval = each.device_end - before[key] if key in before else None
            before[key] = each.device_end


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
