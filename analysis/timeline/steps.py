"""Steps of a program, found by themselves: repeating ranges, else the period of the sequence of its kernels.

Steps are cut where their first work starts on the device, not on the host, which may run ahead by several steps.
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
"""Times that a step may have its kernel."""
_TREND = count_threshold("timeline.trend_steps")
_DRIFT_PCT = threshold("timeline.drift_pct")
_ONWARDS = threshold("timeline.drift_follows")
_SPREAD = threshold("timeline.step_spread")


@dataclass(frozen=True)
class Steps:
    """Steps as the device does them: their starts in ns, and of the last one that is whole, its end."""

    by: Literal["range", "kernels"]
    name: str
    """The range, numbers in it as #, or the kernel that comes back."""
    starts: Sequence[int]
    warm_up: int
    """Leading steps that took longer than the others."""

    @property
    def durations(self) -> list[int]:
        """ns of each whole step; the last start only ends the one before it."""
        return [b - a for a, b in pairwise(self.starts)]

    @property
    def drift_pct(self) -> float | None:
        """How much longer the last third of the steady steps takes than the first, medians, %; None where the steps
        do not mostly follow one another in that direction, or it is less than they differ anyway."""
        steady = self.durations[self.warm_up :]
        third = len(steady) // 3
        if not third or len(steady) < _TREND:
            return None
        drift = 100 * (median(steady[-third:]) / max(median(steady[:third]), 1) - 1)
        on = sum((b > a) == (drift > 0) for a, b in pairwise(steady))
        return drift if abs(drift) >= _DRIFT_PCT and on >= _ONWARDS * (len(steady) - 1) else None

    @property
    def steady(self) -> Window | None:
        """From the first step behind the warm-up to the end of the last whole one; None where fewer than two are."""
        kept = self.starts[self.warm_up :]
        return Window(kept[0], kept[-1]) if len(kept) > 2 else None

    @property
    def count(self) -> int:
        """Whole steps in the steady state."""
        return max(0, len(self.starts) - 1 - self.warm_up)


def steps(trace: Trace) -> Steps | None:
    """The steps of a program, by ranges of the user, else by its kernels, else by operators of a framework, of which a
    step may have many; None where nothing repeats."""
    return _by_range(trace, plainly=False) or _by_kernels(trace) or _by_range(trace, plainly=True)


def _by_range(trace: Trace, plainly: bool) -> Steps | None:
    """Steps by the outermost range that repeats evenly, of those that a framework sets plainly or of others."""
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
    """The share of the device's span that lies between the first and the last start, or of its work where that is more:
    a program that sets itself up for long has short steps."""
    work = trace.work
    lengths = work.e - work.s
    within = (work.s >= starts[0]) & (work.s < starts[-1])
    done = float(lengths[within].sum(dtype="f8") / max(lengths.sum(dtype="f8"), 1.0))
    return max((starts[-1] - starts[0]) / max(int(work.e.max() - work.s.min()), 1), done)


def _first_work(trace: Trace, began: Sequence[int], pid: int | None) -> list[int]:
    """When the device started what was first asked for after each time, in order."""
    import numpy as np

    work = trace.work
    mine = np.flatnonzero((work.a0 != NONE) & ((work.pid == pid) if pid is not None else True))
    order = mine[np.argsort(work.a0[mine], kind="stable")]
    at = np.searchsorted(work.a0[order], np.array(began, dtype=np.int64))
    return [int(s) for s in np.unique(work.s[order[at[at < len(order)]]])]


def _by_kernels(trace: Trace) -> Steps | None:
    """Steps by a kernel of the busiest lane that comes back after the same number of others each time, once or more
    often a step."""
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
    """Of a sequence of kernels the rarest that mostly comes back after as many others; of several the first."""
    import numpy as np

    order = np.argsort(kernels, kind="stable")
    of = kernels[order]
    back = of[1:] == of[:-1]
    # Distances by kernel: how often there is each, the most frequent one of a kernel first.
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
    """Every so many of the starts that steps last alike: a step may have the kernel several times."""
    for together in range(1, min(_TOGETHER, len(starts) // _LEAST) + 1):
        grouped = starts[::together]
        durations = sorted(b - a for a, b in pairwise(grouped))
        n = len(durations)
        if n >= _LEAST and durations[(9 * n - 1) // 10] - durations[n // 10] <= _SPREAD * durations[n // 2]:
            return grouped
    return starts


def _even(starts: Sequence[int]) -> bool:
    """Whether at least half of the distances are within a half of their median."""
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
