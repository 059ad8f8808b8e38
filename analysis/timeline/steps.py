"""Detection of the steps of a program from repeating ranges, or else from the period of its kernel sequence.

A step begins when its first work starts on the device; the host may run ahead by several steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Literal

from ..base.database import sql_literal
from ..catalogue.thresholds import count_threshold, threshold
from .rules import rules
from .trace import NONE, Trace, Window

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEAST = count_threshold("timeline.least_steps")
_MOST = 200_000
_CANDIDATES = 8
_COVERED = threshold("timeline.steps_cover")
_ALIKE = 0.5
_TOGETHER = 64
"""How often the repeating kernel may occur in one step."""
_TREND = count_threshold("timeline.trend_steps")
_DRIFT_PCT = threshold("timeline.drift_pct")
_ONWARDS = threshold("timeline.drift_follows")
_SPREAD = threshold("timeline.step_spread")


@dataclass(frozen=True)
class Steps:
    """The steps on the device: the start of each in ns, and the end of the last complete step."""

    by: Literal["range", "kernels"]
    name: str
    """The repeating range, with numbers replaced by #, or the repeating kernel."""
    starts: Sequence[int]
    warm_up: int
    """The number of leading steps that take longer than the others."""

    @property
    def durations(self) -> list[int]:
        """The ns of each complete step; the last start only ends the step before it."""
        return [b - a for a, b in pairwise(self.starts)]

    @property
    def drift_pct(self) -> float | None:
        """How much longer the last third of the steady steps takes than the first, by medians, in %.

        None if the drift is within the usual variation, or if most steps do not follow its direction.
        """
        steady = self.durations[self.warm_up :]
        third = len(steady) // 3
        if not third or len(steady) < _TREND:
            return None
        drift = 100 * (median(steady[-third:]) / max(median(steady[:third]), 1) - 1)
        on = sum((b > a) == (drift > 0) for a, b in pairwise(steady))
        return drift if abs(drift) >= _DRIFT_PCT and on >= _ONWARDS * (len(steady) - 1) else None

    @property
    def steady(self) -> Window | None:
        """From the first step after the warm-up to the end of the last complete one; None for fewer than two steps."""
        kept = self.starts[self.warm_up :]
        return Window(kept[0], kept[-1]) if len(kept) > 2 else None

    @property
    def count(self) -> int:
        """The number of complete steps in the steady state."""
        return max(0, len(self.starts) - 1 - self.warm_up)


def steps(trace: Trace) -> Steps | None:
    """Find the steps of a program; None if nothing repeats.

    Ranges of the user come first, then kernels, then operators of a framework, of which a step may have many.
    """
    return _by_range(trace, plainly=False) or _by_kernels(trace) or _by_range(trace, plainly=True)


def _by_range(trace: Trace, plainly: bool) -> Steps | None:
    """Find steps by the outermost range that repeats evenly; ``plainly`` selects ranges of a framework, else others."""
    if not trace.ranges or not trace.calls:
        return None
    rows = trace.rows(
        "SELECT regexp_replace(name, '[0-9]+', '#', 'g') AS plain, pid, thread, count(*) AS n, min(depth) AS depth "
        f"FROM {trace.ranges} GROUP BY plain, pid, thread HAVING n BETWEEN {_LEAST} AND {_MOST} "
        f"AND min(source = 'torch' OR source IS NULL) = {plainly} "
        f"ORDER BY depth NULLS LAST, sum(end_ns - start_ns) DESC, min(start_ns) LIMIT {_CANDIDATES}"
    )
    for plain, pid, thread, *_ in rows:
        own = f"{_same('pid', pid)} AND {_same('thread', thread)}"
        began = trace.rows(
            f"SELECT start_ns FROM {trace.ranges} WHERE {own} AND regexp_replace(name, '[0-9]+', '#', 'g') = "
            f"{sql_literal(plain)} ORDER BY start_ns"
        )
        starts = _first_work(trace, [int(s) for (s,) in began], pid)
        if _even(starts) and _covered_share(trace, starts) * len(starts) / (len(starts) - 1) >= _COVERED:
            return _make_steps("range", str(plain), starts)
    return None


def _same(column: str, value: int | None) -> str:
    return f"{column} IS NULL" if value is None else f"{column} = {value}"


def _covered_share(trace: Trace, starts: Sequence[int]) -> float:
    """Return the share of the device's time span between the first and the last start, or of its work if larger.

    The share of the work is larger if a program with short steps has a long setup.
    """
    work = trace.work
    lengths = work.e - work.s
    within = (work.s >= starts[0]) & (work.s < starts[-1])
    done = float(lengths[within].sum(dtype="f8") / max(lengths.sum(dtype="f8"), 1.0))
    return max((starts[-1] - starts[0]) / max(int(work.e.max() - work.s.min()), 1), done)


def _first_work(trace: Trace, began: Sequence[int], pid: int | None) -> list[int]:
    """Return, in order, when the device started the first work that was requested after each time in ``began``."""
    import numpy as np

    work = trace.work
    mine = np.flatnonzero((work.a0 != NONE) & ((work.pid == pid) if pid is not None else True))
    order = mine[np.argsort(work.a0[mine], kind="stable")]
    at = np.searchsorted(work.a0[order], np.array(began, dtype=np.int64))
    return [int(s) for s in np.unique(work.s[order[at[at < len(order)]]])]


def _by_kernels(trace: Trace) -> Steps | None:
    """Find steps by a kernel of the busiest lane that repeats after a constant number of other kernels.

    It may occur several times per step.
    """
    import numpy as np

    lane = max(trace.lanes, key=lambda each: each.work)
    own = slice(lane.first, lane.last)
    sequence = trace.work.kernel[own][: rules().limits.sequence]
    again = _again(sequence[sequence >= 0])
    if again is None:
        return None
    starts_found = np.flatnonzero(trace.work.kernel[own] == again)[:_MOST]
    return _make_steps(
        "kernels", trace.kernel_names([again])[again], _group_starts([int(s) for s in trace.work.s[own][starts_found]])
    )


def _again(kernels: NDArray[np.int32]) -> int | None:
    """Return the rarest kernel of a sequence that mostly repeats at a constant distance; of several, the first."""
    import numpy as np

    order = np.argsort(kernels, kind="stable")
    of = kernels[order]
    back = of[1:] == of[:-1]
    # Count the distances of each kernel and select its most frequent one.
    keys = of[1:][back] * np.int64(len(of)) + np.diff(order)[back]
    pairs, often = np.unique(keys, return_counts=True)
    of, period = np.divmod(pairs, max(len(of), 1))
    most = np.lexsort((period, -often, of))
    most = most[np.diff(of[most], prepend=-1) != 0]
    of, period, often = of[most], period[most], often[most]
    known, first, times = (
        column.astype(np.int64) for column in np.unique(kernels, return_index=True, return_counts=True)
    )
    mine = np.searchsorted(known, of)
    first, times = first[mine], times[mine]
    good = (times >= _LEAST) & (often >= _ALIKE * (times - 1)) & (times * period >= _ALIKE * len(kernels))
    best = np.lexsort((first, times, ~good))[:1]
    return int(of[best[0]]) if len(best) and good[best[0]] else None


def _group_starts(starts: list[int]) -> list[int]:
    """Return every n-th start, with the smallest n for which steps have similar durations, or else all starts."""
    for together in range(1, min(_TOGETHER, len(starts) // _LEAST) + 1):
        grouped = starts[::together]
        durations = sorted(b - a for a, b in pairwise(grouped))
        n = len(durations)
        if n >= _LEAST and durations[(9 * n - 1) // 10] - durations[n // 10] <= _SPREAD * durations[n // 2]:
            return grouped
    return starts


def _even(starts: Sequence[int]) -> bool:
    """Whether at least half of the distances differ from their median by no more than half of it."""
    if len(starts) < _LEAST:
        return False
    durations = [b - a for a, b in pairwise(starts)]
    middle = median(durations)
    return sum(abs(d - middle) <= 0.5 * middle for d in durations) >= _ALIKE * len(durations)


def _make_steps(by: Literal["range", "kernels"], name: str, starts: Sequence[int]) -> Steps:
    durations = [b - a for a, b in pairwise(starts)]
    slow = rules().limits.warm_up * median(durations)
    warm_up = 0
    while warm_up < len(durations) // 2 and durations[warm_up] > slow:
        warm_up += 1
    return Steps(by, name, list(starts), warm_up)
