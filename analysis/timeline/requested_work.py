"""The device work that was requested during intervals on the host, such as ranges and phases.

Work belongs to all intervals of its process that were open when it was requested, on any thread: launches of a thread
for gradients belong to the range in which the main thread waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .busy import ANY
from .trace import NONE, Flags, Ints, Trace


@dataclass(frozen=True)
class RequestedWork:
    """The work of some intervals: that of each is ``order[first:last]``, indexes into the work of the trace."""

    trace: Trace
    order: Ints
    first: Ints
    last: Ints

    @property
    def has_work(self) -> Flags:
        """Whether any work of an interval is known."""
        return self.last > self.first

    def start(self, otherwise: Ints) -> Ints:
        """Return the start of the work that was requested first, in ns; ``otherwise`` for intervals without work."""
        return np.where(self.has_work, np.append(self.trace.work.s[self.order], 0)[self.first], otherwise)

    def spans(self) -> tuple[Ints, Ints]:
        """Return the first start and the last end of the work of the intervals whose work is known, in ns."""
        work, known = self.trace.work, self.has_work
        bounds = np.stack([self.first[known], self.last[known]], axis=1).ravel()
        if not len(bounds):
            return bounds, bounds
        start, end = (np.append(column[self.order], 0) for column in (work.s, work.e))
        return np.minimum.reduceat(start, bounds)[::2], np.maximum.reduceat(end, bounds)[::2]

    def times(self) -> Ints:
        """Return the time of the work before each place of ``order`` in ns; work that overlaps counts once."""
        work = self.trace.work
        new = np.maximum(0, work.e - np.maximum(work.s, self.trace.ahead("any", ANY)))
        return self.before(new)

    def before(self, amounts: NDArray[np.int64]) -> Ints:
        """Return the sum of the amounts of work before each place of ``order``."""
        return np.append(0, np.cumsum(amounts[self.order]))

    def of_any(self) -> Flags:
        """Return a mask of the work that belongs to any of the intervals."""
        change = np.zeros(len(self.order) + 1, dtype=np.int64)
        np.add.at(change, self.first, 1)
        np.add.at(change, self.last, -1)
        mine = np.zeros(len(self.trace.work.s), dtype=bool)
        mine[self.order[np.cumsum(change)[:-1] > 0]] = True
        return mine


def requested_work(trace: Trace, pid: Ints, s: Ints, e: Ints) -> RequestedWork:
    """Return the work that was requested during intervals, from their processes, starts and ends.

    What is requested at the end of an interval belongs to the next one.
    """
    work = trace.work
    order = np.flatnonzero(work.a0 != NONE)
    order = order[np.lexsort((work.a0[order], work.pid[order]))]
    first, last = np.zeros((2, len(s)), dtype=np.int64)
    for number in np.unique(pid):
        own, (low, high) = pid == number, np.searchsorted(work.pid[order], (number, number + 1))
        asked = work.a0[order[low:high]]
        first[own] = low + np.searchsorted(asked, s[own])
        last[own] = low + np.searchsorted(asked, e[own])
    return RequestedWork(trace, order, first, last)
