"""The busy times of devices: unions of intervals over streams and engines, so that overlap is counted once.

An operation adds to the union of its lane only the part after the end of all earlier operations, ``[max(s, p), e]``,
where p is the latest end of the operations that started before it (gaps and islands).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from ..base.digits import digits
from ..catalogue.thresholds import threshold
from .trace import COMMUNICATION, COMPUTE, COPY, FILL, Ints, Trace, Window, covered_before, islands, pieces

_KNOWN_PCT = threshold("timeline.roofs_known_pct")

KERNELS, COMPUTING, MEMORY = (COMPUTE, COMMUNICATION), (COMPUTE,), (COPY, FILL)
"""The sets of classes for which unions are computed: all kernels, those that do not communicate, and memory operations,
which are copies and fills."""
ANY = KERNELS + MEMORY


@dataclass(frozen=True)
class Busy:
    """The times of one lane within the windows in ns; ``any`` is the union of kernels, copies and fills."""

    wall: int
    any: int = 0
    kernels: int = 0
    """The union of kernels."""
    computing: int = 0
    """The union of kernels that do not communicate."""
    communication: int = 0
    """The union of kernels that communicate."""
    copies: int = 0
    """The union of copies."""
    fills: int = 0
    """The union of fills (memsets), which are no computation."""
    memory: int = 0
    """The union of copies and fills."""
    summed: int = 0
    """The sum of all operations, which exceeds their union if streams overlap."""

    @property
    def idle(self) -> int:
        """The time in which nothing runs."""
        return self.wall - self.any

    @property
    def exposed_copies(self) -> int:
        """The time in which copies or fills run but no kernel."""
        return self.any - self.kernels

    @property
    def exposed_communication(self) -> int:
        """The time in which communication runs but nothing computes."""
        return self.kernels - self.computing

    @property
    def overlapped_copies(self) -> int:
        """The time in which copies or fills run at the same time as a kernel."""
        return self.memory - self.exposed_copies

    def __add__(self, other: Busy) -> Busy:
        return Busy(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def merge_windows(windows: Iterable[tuple[int, int]]) -> list[Window]:
    """Return intervals in order, with those that overlap or touch merged."""
    start, end = islands(*np.array([*windows], dtype=np.int64).T)
    return [*map(Window, start.tolist(), end.tolist())]


class Within:
    """Computes how much of an interval is within disjoint windows, from the window time before each of its ends."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = windows
        self.edges: Ints = np.array([t for w in windows for t in w], dtype=np.int64)

    @property
    def wall(self) -> int:
        """The total length of the windows in ns."""
        return sum(w.ns for w in self.windows)

    def until(self, at: Ints) -> Ints:
        """Return the window time before each time, in ns."""
        if len(self.windows) == 1:
            start, end = self.windows[0]
            return np.clip(at, start, end) - start
        return covered_before(at, self.edges[::2], self.edges[1::2])

    def windows_touched(self, start: Ints, end: Ints) -> Ints:
        """Return the number of windows that each interval overlaps."""
        if len(self.windows) == 1:
            first, last = self.windows[0]
            return np.asarray((start < last) & (end > first), dtype=np.int64)
        number: Ints = np.searchsorted(self.edges[::2], end) - np.searchsorted(self.edges[1::2], start, side="right")
        return number

    def ns(self, start: Ints, end: Ints) -> Ints:
        """Return the ns of [start, end] within the windows; 0 if the end is before the start."""
        covered: Ints = np.maximum(0, self.until(end) - self.until(start))
        return covered


_UNIONS = {
    "any": ANY,
    "kernels": KERNELS,
    "computing": COMPUTING,
    "communication": (COMMUNICATION,),
    "copies": (COPY,),
    "fills": (FILL,),
    "memory": MEMORY,
}
"""The unions of ``Busy`` in its order -> their classes."""


def busy(trace: Trace, within: Within) -> dict[int, Busy]:
    """Return the times of every lane by its number."""
    work, lanes = trace.work, {}
    present = set(np.flatnonzero(np.bincount(work.cls)).tolist())

    def union(lane: slice, name: str, classes: Sequence[int]) -> int:
        ahead, ns = trace.ahead(name, classes), 0
        for own in pieces(lane.start, lane.stop):
            s, e, p = work.s[own], work.e[own], ahead[own]
            if len(classes) < len(ANY):
                mine = work.of(classes, own)
                s, e, p = s[mine], e[mine], p[mine]
            ns += int(within.ns(np.maximum(s, p), e).sum())
        return ns

    for lane, own in trace.per_lane():
        # Unions whose classes do not differ in this trace are equal, and computed once.
        names = {name: tuple(each for each in classes if each in present) for name, classes in _UNIONS.items()}
        known: dict[tuple[int, ...], int] = {(): 0}
        for name, occurring in names.items():
            if occurring not in known:
                known[occurring] = union(own, name, _UNIONS[name])
        summed = (within.ns(work.s[of], work.e[of]).sum(dtype=np.float64) for of in pieces(own.start, own.stop))
        unions = [known[occurring] for occurring in names.values()]
        lanes[lane.number] = Busy(*[within.wall, *unions, sum(map(int, summed))])
    return lanes


@dataclass(frozen=True)
class ProgramCeiling:
    """The distance of a program to its ceiling: the critical path of its device work with every kernel at its roof.

    The critical path is the longest chain of operations of one device of which each began after the one before it had
    ended. Copies, communication and kernels without a known roof keep their measured times; idle time is not part of
    the path, because no work of the device requires it. The status is partial if too little of the kernels' time has a
    known roof, suspect if the times are doubted, and unknown without any roof.
    """

    status: Literal["ok", "partial", "suspect", "unknown"]
    known_pct: Annotated[float, digits(".3g")]
    """The share of the kernels' time for which a roof is known."""
    pct: Annotated[float | None, digits(".3g")] = None
    """The critical path divided by the wall time, in %: at 100 % only other or less work makes the program faster."""
    path_ns: Annotated[float | None, digits(".3g")] = None
    wall_ns: int | None = None
    reason: str | None = None


def program_ceiling(trace: Trace, window: Window, roofs: Mapping[str, float], *, doubted: bool) -> ProgramCeiling:
    """Return the distance of a program to its ceiling within a window.

    ``roofs`` maps names of kernels to the least time of their work, as a share of the measured time.
    """
    wall = window.ns
    numbers = [int(n) for n in np.unique(trace.work.kernel) if n >= 0]
    shares = np.full(max(numbers, default=-1) + 2, np.nan)
    for number, name in trace.kernel_names(numbers).items():
        shares[number] = roofs.get(name, np.nan)
    share = shares[trace.work.kernel]
    start, end = (np.clip(at, *window) for at in (trace.work.s, trace.work.e))
    lengths = (end - start).astype(np.float64)
    kernels = trace.work.of((COMPUTE,))
    in_all = float(lengths[kernels].sum())
    known_pct = 100 * float(lengths[kernels & ~np.isnan(share)].sum()) / in_all if in_all else 0.0
    if not known_pct:
        return ProgramCeiling("unknown", 0.0, wall_ns=wall, reason="because the roof of no kernel is known")
    lengths *= np.where(kernels, np.nan_to_num(share, nan=1.0), 1.0)
    path = max(_longest_chain(start[own], end[own], lengths[own]) for _, own in trace.per_lane())
    status: Literal["ok", "partial", "suspect"] = "ok" if known_pct >= _KNOWN_PCT else "partial"
    return ProgramCeiling("suspect" if doubted else status, known_pct, 100 * path / max(wall, 1), path, wall)


def _longest_chain(start: Ints, end: Ints, lengths: NDArray[np.float64]) -> float:
    """Return the length of the longest chain of operations, which are in the order of their starts, in ns.

    Each operation begins where the longest chain of those that ended before it ends, and takes the given length.
    """
    ends, e, length = np.argsort(end, kind="stable").tolist(), end.tolist(), lengths.tolist()
    finished, done, longest = 0, [0.0] * len(e), 0.0
    for i, begin in enumerate(start.tolist()):
        while finished < i and e[ends[finished]] <= begin:
            longest = max(longest, done[ends[finished]])
            finished += 1
        done[i] = longest + length[i]
    return max(done)
