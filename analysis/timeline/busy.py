"""How long devices work: unions of intervals over streams and engines, each stretch of time counted once.

An operation adds to the union of its lane what lies behind the end of all earlier ones (gaps and islands):
``[max(s, p), e]``, where p is the greatest end of the operations that started before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .trace import COMMUNICATION, COMPUTE, COPY, FILL, Trace, Window, pieces

if TYPE_CHECKING:
    from .trace import Ints

ANY, KERNELS, COMPUTING = (COMPUTE, COMMUNICATION, COPY, FILL), (COMPUTE, COMMUNICATION, FILL), (COMPUTE, FILL)
"""Classes whose unions are told."""


@dataclass(frozen=True)
class Busy:
    """Times in ns of one lane within the windows; ``any`` is the union of kernels, fills and copies."""

    wall: int
    any: int = 0
    kernels: int = 0
    """Union of kernels and fills."""
    computing: int = 0
    """Of these without kernels that communicate."""
    communication: int = 0
    """Union of kernels that communicate."""
    copies: int = 0
    """Union of copies."""
    summed: int = 0
    """Sum of all operations, which several streams can make longer than their union."""

    @property
    def idle(self) -> int:
        """Nothing at all runs."""
        return self.wall - self.any

    @property
    def exposed_copies(self) -> int:
        """Copies beside which no kernel runs."""
        return self.any - self.kernels

    @property
    def exposed_communication(self) -> int:
        """Communication beside which nothing computes."""
        return self.kernels - self.computing

    @property
    def overlapped_copies(self) -> int:
        """Copies beside which a kernel runs."""
        return self.copies - self.exposed_copies

    def __add__(self, other: Busy) -> Busy:
        return Busy(
            self.wall + other.wall,
            self.any + other.any,
            self.kernels + other.kernels,
            self.computing + other.computing,
            self.communication + other.communication,
            self.copies + other.copies,
            self.summed + other.summed,
        )


class Within:
    """How much of an interval lies within some disjoint windows: the difference of what lies before its ends."""

    def __init__(self, windows: Sequence[Window]) -> None:
        import numpy as np

        self.windows = windows
        self.edges: Ints = np.array([t for w in windows for t in w], dtype=np.int64)
        lengths = np.array([w.end - w.start for w in windows], dtype=np.int64)
        self.before: Ints = np.concatenate([[0], np.cumsum(lengths)])

    @property
    def wall(self) -> int:
        """The length of all windows."""
        return int(self.before[-1])

    def until(self, at: Ints) -> Ints:
        """How much of the windows lies before each time."""
        import numpy as np

        if len(self.windows) == 1:
            start, end = self.windows[0]
            return np.clip(at, start, end) - start
        passed = np.searchsorted(self.edges, at, side="right")
        inside = passed % 2 == 1
        begun = self.edges[np.maximum(passed - 1, 0)]
        ns: Ints = self.before[passed // 2] + np.where(inside, at - begun, 0)
        return ns

    def windows_touched(self, start: Ints, end: Ints) -> Ints:
        """How many of the windows an interval lies in."""
        import numpy as np

        if len(self.windows) == 1:
            first, last = self.windows[0]
            return np.asarray((start < last) & (end > first), dtype=np.int64)
        number: Ints = np.searchsorted(self.edges[::2], end) - np.searchsorted(self.edges[1::2], start, side="right")
        return number

    def ns(self, start: Ints, end: Ints) -> Ints:
        """ns of [start, end] within the windows, 0 where it ends before it starts."""
        import numpy as np

        covered: Ints = np.maximum(0, self.until(end) - self.until(start))
        return covered


def busy(trace: Trace, within: Within) -> dict[int, Busy]:
    """The times of every lane, by its number."""
    import numpy as np

    work = trace.work

    def union(lane: slice, name: str, classes: Sequence[int]) -> int:
        if classes == (COMMUNICATION,) and not trace.communicates:
            return 0
        ahead, ns = trace.ahead(name, classes), 0
        for own in pieces(lane.start, lane.stop):
            s, e, p = work.s[own], work.e[own], ahead[own]
            if len(classes) < len(ANY):
                mine = work.of(classes, own)
                s, e, p = s[mine], e[mine], p[mine]
            ns += int(within.ns(np.maximum(s, p), e).sum())
        return ns

    lanes = {}
    for lane, own in trace.per_lane():
        kernels = union(own, "kernels", KERNELS)
        lanes[lane.number] = Busy(
            wall=within.wall,
            any=union(own, "any", ANY),
            kernels=kernels,
            computing=union(own, "computing", COMPUTING) if trace.communicates else kernels,
            communication=union(own, "communication", (COMMUNICATION,)),
            copies=union(own, "copies", (COPY,)),
            summed=sum(
                int(within.ns(work.s[of], work.e[of]).sum(dtype=np.float64)) for of in pieces(own.start, own.stop)
            ),
        )
    return lanes
