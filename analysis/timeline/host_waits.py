"""Whom code of the host waits for: a thread that waits is followed to the threads and processes that work meanwhile.

* If the recording states which thread ended a wait, the time of the wait is charged to what that thread ran then.
* Code that waits for a queue, a lock or another process (host_rules.toml) does nothing itself. The time is charged to
  what other threads of the process run at that time, or its worker processes if it waits for one of these; if none of
  them works, it stays where it is.
* A thread of Python code in the same process holds the global interpreter lock (GIL) for much of the time. Threads with
  a stack that changes with nearly every sample run Python code, not native code that releases the lock; they share the
  time of the code that they hold up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from .host_code import HostCode, Stack, ThreadCode, overlaps
from .host_rules import host_rules
from .trace import Flags, Floats, Ints

Via = Literal["self", "wait", "gil"]
"""Why code is charged: the thread that ends the gap runs it, waits for it, or needs the GIL that it holds."""
_CHANGES_NS = 30_000_000
"""A thread whose stack lasts less than this in the mean runs Python code: it changes with nearly every sample."""
_LEAST_ACTIVE = 0.2
"""A thread holds others up if it runs for at least this share of the time between its first and last sample."""


@dataclass(frozen=True)
class Charges:
    """Idle time charged to pieces of code: their stacks and times, ns by cause (rows) and piece, and the start of the
    gap that each belongs to."""

    stack: Ints
    start: Ints
    end: Ints
    ns: Floats
    gap: Ints

    def __getitem__(self, mine: Ints | Flags) -> Charges:
        """Return some of the pieces."""
        return Charges(self.stack[mine], self.start[mine], self.end[mine], self.ns[:, mine], self.gap[mine])


@dataclass(frozen=True)
class Waits:
    """What threads wait for, according to their stacks."""

    code: HostCode

    @cached_property
    def waiting(self) -> Flags:
        """For each stack, whether it waits."""
        return np.array([bool(stack) and is_waiting(stack) for stack in self.code.stacks])

    @cached_property
    def for_process(self) -> Flags:
        """For each stack, whether it waits for another process."""
        pattern = host_rules().waits_processes
        return np.array([any(pattern.search(f.file or "") for f in stack) for stack in self.code.stacks])

    @cached_property
    def active(self) -> dict[tuple[int, int], ThreadCode]:
        """The spans of each thread in which it does not wait."""
        return {who: spans[~self.waiting[spans.stack]] for who, spans in self.code.threads.items()}

    @cached_property
    def python(self) -> dict[tuple[int, int], ThreadCode]:
        """The active spans of threads that run Python code for much of the time."""
        chosen = {}
        for who, spans in self.active.items():
            every = self.code.threads[who]
            if not len(spans.s) or who in self.code.helpers:
                continue
            time = int((spans.e - spans.s).sum())
            if time / len(spans.s) < _CHANGES_NS and time >= _LEAST_ACTIVE * int(every.e[-1] - every.s[0]):
                chosen[who] = spans
        return chosen

    def charge_first_process(self, who: tuple[int, int], charges: Charges) -> list[Charges]:
        """Return charges of the time before a thread began, spread over the code of the process that began first, such
        as the one that started it; those without any such code first."""
        threads = [(int(spans.s[0]), other) for other, spans in self.code.threads.items() if len(spans.s)]
        _, first = min(threads, default=(0, who))
        return _spread(charges, [self.code.threads[first]] if first[0] != who[0] else [])

    def follow(self, who: tuple[int, int], charges: Charges) -> Iterator[tuple[Charges, Via]]:
        """Yield the charges of a thread, those of waits charged to what others run, and those of others shared."""
        if ended := self.code.wakers.get(who):
            charges, *followed = _spread(charges, [ended])
            yield from ((one, "wait") for one in followed)
        # A thread that works for the first one does not need its lock from it.
        free = {who, (who[0], who[0])} if who in self.code.helpers else {who}
        waits = self.waiting[charges.stack]
        processes = waits & self.for_process[charges.stack]
        elsewhere = [code for other, code in self.active.items() if other[0] != who[0]]
        beside = [code for other, code in self.active.items() if other[0] == who[0] and other != who]
        rivals = [code for other, code in self.python.items() if other[0] == who[0] and other not in free]
        rounds: list[tuple[Flags, list[ThreadCode], int, Via]] = [
            (processes, elsewhere, 0, "wait"),
            (waits & ~processes, beside, 0, "wait"),
            (~waits, rivals, 1, "gil"),
        ]
        for mine, others, keep, via in rounds:
            own, *followed = _spread(charges[mine], others, keep)
            yield from ((one, via) for one in followed)
            yield own, "self"


def _spread(charges: Charges, others: Sequence[ThreadCode], keep: int = 0) -> list[Charges]:
    """Return charges spread evenly over the code that others run at the time; ``keep`` counts for the own code.

    The first item contains what stays.
    """
    length = np.maximum(charges.end - charges.start, 1).astype(np.float64)
    parts = [(code.stack, *overlaps(charges.start, charges.end, code)) for code in others]
    weights = [(end - start) / length[piece] for _, piece, _, start, end in parts]
    total = np.zeros(len(length))
    for (_, piece, *_), weight in zip(parts, weights, strict=True):
        total += np.bincount(piece, weight, len(total))
    share = np.divide(1.0, np.where(total > 0, total + keep, 1.0))
    spread = [
        Charges(stack[span], start, end, charges.ns[:, piece] * (weight * share[piece]), charges.gap[piece])
        for (stack, piece, span, start, end), weight in zip(parts, weights, strict=True)
    ]
    own = replace(charges, ns=charges.ns * np.where(total > 0, keep * share, 1.0))
    return [own[(total == 0) | bool(keep)], *spread]


def is_waiting(stack: Stack) -> bool:
    """Whether the innermost frame waits for another thread or process, or sleeps."""
    frame, rules = stack[-1], host_rules()
    return bool(rules.waits_function.search(frame.function) or rules.waits_text.search(frame.text or ""))
