"""The steps of a program, from repeating ranges, or else from the period of its kernel sequence.

A step begins when its first work starts on the device; the host may run ahead by several steps. A division into steps
is used only if it covers the device's time: layers of a network repeat too, but a forward pass among long pauses is not
described by the time from one of its layers to the next. What repeats but is not certainly a step is a repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.database import sql_literal
from ..base.text import short_time
from ..catalogue.thresholds import count_threshold, threshold
from .busy import ANY
from .rules import rules
from .trace import NONE, OF_PROGRAM, Trace, Window, Work

_LEAST = count_threshold("timeline.least_steps")
_MOST = 200_000
_CANDIDATES = 8
STEPS_COVER = threshold("timeline.steps_cover")
_KERNELS_COVERED = threshold("timeline.kernel_steps_cover")
_NEGLIGIBLE_IDLE = threshold("timeline.negligible_idle")
_ALIKE = 0.5
_LAST_STEPS = 2
"""Steps reach the end of the work if no more than this many of their length follow the start of the last one."""
_TOGETHER = 64
"""How often the repeating kernel may occur in one step."""
_TREND = count_threshold("timeline.trend_steps")
_DRIFT_PCT = threshold("timeline.drift_pct")
_ONWARDS = threshold("timeline.drift_follows")
_SPREAD = threshold("timeline.step_spread")
_EVEN = threshold("timeline.even_steps")
_FEWEST_NAMED = 2
"""Two ranges that are called steps are one complete step; a single one only shows that nothing else is a step."""


@dataclass(frozen=True)
class Steps:
    """The steps on the device: the start of each in ns, and the end of the last complete step."""

    by: Literal["range", "kernels"]
    name: str
    """The repeating range, with numbers replaced by #, or the repeating kernel."""
    starts: Sequence[int]
    warm_up: int
    """The number of leading steps that take longer than the others."""
    named: bool
    """Whether the program, or its framework, calls these ranges steps."""
    covered: float
    """The share of the time between the first and the last device work that the steps after the warm-up take."""
    after_setup: bool
    """Whether what comes before them is a setup: the program names them, or they repeat until the end."""
    usable: bool
    """Whether they stand for the program: they cover the device's time and leave little idle time out."""

    @property
    def certain(self) -> bool:
        """Whether these are the steps of the program, and not a repetition that may be a part of one.

        They have its name or cover nearly all of the device's time, and they take about the same time.
        """
        alike = self.named or (self.by == "range" and self.covered >= _KERNELS_COVERED)
        return self.usable and alike and _spread(self.steady_durations) <= _EVEN

    @property
    def durations(self) -> list[int]:
        """The ns of each complete step; the last start only ends the step before it."""
        return _distances(self.starts)

    @property
    def steady_durations(self) -> list[int]:
        """The ns of each complete step after the warm-up."""
        return self.durations[self.warm_up :]

    @property
    def drift_pct(self) -> float | None:
        """How much longer the last third of the steady steps takes than the first, by medians, in %.

        None if the drift is within the usual variation, or if most steps do not follow its direction.
        """
        steady = self.steady_durations
        third = len(steady) // 3
        if not third or len(steady) < _TREND:
            return None
        drift = 100 * (median(steady[-third:]) / max(median(steady[:third]), 1) - 1)
        on = sum((b > a) == (drift > 0) for a, b in pairwise(steady))
        return drift if abs(drift) >= _DRIFT_PCT and on >= _ONWARDS * (len(steady) - 1) else None

    @property
    def steady(self) -> Window | None:
        """From the first step after the warm-up to the end of the last complete one; None for fewer than two steps, and
        if they do not stand for the program."""
        kept = self.starts[self.warm_up :]
        return Window(kept[0], kept[-1]) if self.usable and len(kept) > 2 else None

    @property
    def count(self) -> int:
        """The number of complete steps in the steady state."""
        return max(0, len(self.starts) - 1 - self.warm_up)

    @property
    def noun(self) -> str:
        """What one of them is called: ``step`` only if that is certain."""
        return "step" if self.certain else "repetition"


def steps(trace: Trace) -> Steps | None:
    """Return the steps that stand for the program; None if nothing repeats that covers the device's time."""
    division = repetitions(trace)
    return division if division and division.usable else None


def repetitions(trace: Trace) -> Steps | None:
    """Return what repeats in a program: its steps, or else a repetition that does not stand for it; None if nothing
    repeats.

    Where ranges are called steps, only they can be steps, however few they are: everything else is a part of them, or
    encloses them. Otherwise ranges of the program come first, then kernels, then operators of a framework, of which a
    step may have many.
    """
    if named := named_range(trace):
        return _best_steps(_by_range(trace, f"{_NAMED} AND level = {named.level}", named=True))
    return _best_steps(chain(_by_range(trace, _OWN), _by_kernels(trace), _by_range(trace, _OPERATORS)))


def _best_steps(candidates: Iterable[Steps]) -> Steps | None:
    """Return the first steps that stand for the program, or else those that cover most of its time."""
    rejected: list[Steps] = []
    for one in candidates:
        if one.usable:
            return one
        rejected.append(one)
    return max(rejected, key=lambda one: one.covered, default=None)


def _level() -> str:
    """SQL: the position of the pattern for steps that the name of a range matches, or NULL."""
    cases = (f"WHEN regexp_matches(name, {sql_literal(p)}) THEN {n}" for n, p in enumerate(rules().steps["names"]))
    return f"CASE {' '.join(cases)} END"


_NAMED = "coalesce(source, '') != 'python' AND level IS NOT NULL"
_OWN = f"{OF_PROGRAM} AND NOT part"
_OPERATORS = "coalesce(source, 'torch') = 'torch' AND NOT part"
"""SQL: ranges that are called steps, those that the program itself named, and operators of a framework, without ranges
that are parts of a step by their names."""


def _ranges(trace: Trace) -> str:
    """SQL for the ranges with the level of their names as steps, and whether a step contains such ranges."""
    plain = "regexp_replace(name, '[0-9]+', '#', 'g')"
    part = f"regexp_matches(name, {sql_literal('|'.join(f'({pattern})' for pattern in rules().steps['parts']))})"
    return f"(SELECT *, {plain} AS plain, {_level()} AS level, {part} AS part FROM {trace.ranges})"


class NamedRange(NamedTuple):
    """A range that is called a step: its name, its ns on the host, and the position of the pattern that says so."""

    name: str
    ns: int
    level: int

    @property
    def time(self) -> str:
        """Its time on the host, in words."""
        return short_time(self.ns)


def named_range(trace: Trace) -> NamedRange | None:
    """Return the first range that is called a step, by the first pattern that any name matches; None without any."""
    if not trace.ranges:
        return None
    rows = trace.rows(
        f"SELECT name, end_ns - start_ns, level FROM {_ranges(trace)} WHERE {_NAMED} ORDER BY level, start_ns LIMIT 1"
    )
    return NamedRange(*rows[0]) if rows else None


def _by_range(trace: Trace, sources: str, *, named: bool = False) -> Iterator[Steps]:
    """Find steps by the ranges that repeat, the outermost first; ``sources`` is an SQL condition on the ranges.

    Ranges that are called steps (``named``) may be few and differ in length; others have to repeat evenly.
    """
    if not trace.ranges:
        return
    least = _FEWEST_NAMED if named else _LEAST
    rows = trace.rows(
        f"SELECT plain, pid, list(start_ns ORDER BY start_ns) FROM {_ranges(trace)} WHERE {sources} "
        f"GROUP BY plain, pid, thread HAVING count(*) BETWEEN {least} AND {_MOST} "
        f"ORDER BY min(depth) NULLS LAST, sum(end_ns - start_ns) DESC, min(start_ns) LIMIT {_CANDIDATES}"
    )
    for plain, pid, began in rows:
        starts = _first_work(trace, began, pid)
        if len(starts) < least or not (named or _even(starts)):
            continue
        setup = sources != _OPERATORS
        usable = _covered_share(trace, starts, setup) >= STEPS_COVER and not _leaves_idle_out(trace, starts, setup)
        name = str(plain).replace("##", "#")  # ProfilerStep#12
        yield _make_steps(trace, "range", name, starts, named=named, after_setup=named, usable=usable)


def _covered_share(trace: Trace, starts: Sequence[int], setup: bool) -> float:
    """Return the share of the device's time span between the first start and the end of the last step.

    The last step is taken to be as long as the others. With ``setup``, the share of the device's work counts if it is
    larger, because a program with short steps may have a long setup.
    """
    work = trace.work
    last = len(starts) / (len(starts) - 1)
    share = last * (starts[-1] - starts[0]) / max(trace.work_span.ns, 1)
    if not setup:
        return share
    lengths = work.e - work.s
    within = (work.s >= starts[0]) & (work.s < starts[-1])
    return max(share, last * float(lengths[within].sum(dtype="f8") / max(lengths.sum(dtype="f8"), 1.0)))


def _follow_setup(trace: Trace, starts: Sequence[int]) -> bool:
    """Whether only a setup comes before the steps: they reach the end of the device's work and contain most of it.

    Layers of the only forward pass of a trace look the same, so the verdict on such steps is not certain.
    """
    work, step = trace.work, (starts[-1] - starts[0]) / (len(starts) - 1)
    if trace.work_span.end - starts[-1] > _LAST_STEPS * step or _leaves_idle_out(trace, starts, setup=True):
        return False
    lengths, inside = work.e - work.s, work.s >= starts[0]
    return bool(lengths[inside].sum(dtype="f8") >= _ALIKE * lengths.sum(dtype="f8"))


def _ends_alike(work: Work, own: slice, starts: Sequence[int]) -> bool:
    """Whether the work of a lane after the last start consists of the kernels of the step before it.

    The layers of a forward pass are followed by other kernels, such as those of a classifier.
    """
    before, last = np.searchsorted(work.s[own], starts[-2:])
    kernels = work.kernel[own]
    return bool(np.isin(kernels[last:], kernels[before:last]).all())


def _leaves_idle_out(trace: Trace, starts: Sequence[int], setup: bool) -> bool:
    """Whether steps leave out more idle time of the devices than they contain, not counting what comes before them if
    it is ``setup``. A small share of the span is never too much."""
    work, ahead = trace.work, trace.ahead("any", ANY)
    before = np.where(ahead == NONE, work.s, ahead)
    first, end = (starts[0] if setup else trace.work_span.start), trace.work_span.end
    all_idle, inside = (
        float(np.maximum(0, np.minimum(work.s, last) - np.maximum(before, first)).sum(dtype="f8"))
        for last in (end, starts[-1])
    )
    if not setup:
        inside -= float(np.maximum(0, np.minimum(work.s, starts[0]) - before).sum(dtype="f8"))
    last_step = inside / (len(starts) - 1)
    left_out = all_idle - inside - last_step
    return left_out > max(inside, _NEGLIGIBLE_IDLE * (end - first) * len(trace.lanes))


def _first_work(trace: Trace, began: Sequence[int], pid: int | None) -> list[int]:
    """Return, in order, when the device started the first work that was requested after each time in ``began``.

    Where no request is known, it is the first work that started after that time.
    """
    work = trace.work
    own = np.full(len(work.s), True) if pid is None else work.pid == pid
    known = own & (work.a0 != NONE)
    asked, chosen = (work.a0, known) if known.any() else (work.s, own if own.any() else ~own)
    mine = np.flatnonzero(chosen)
    order = mine[np.argsort(asked[mine], kind="stable")]
    at = np.searchsorted(asked[order], np.array(began, dtype=np.int64))
    starts: list[int] = np.unique(work.s[order[at[at < len(order)]]]).tolist()
    return starts


def _by_kernels(trace: Trace) -> Iterator[Steps]:
    """Find steps by a kernel of the busiest lane that repeats after a constant number of other kernels.

    It may occur several times per step. A replay of a graph counts as its first kernel, because a step has at least one
    replay.
    """
    lane = max(trace.lanes, key=lambda each: each.work)
    own = slice(lane.first, lane.last)
    kernel, outer = trace.work.kernel[own], ~trace.work.node[own]
    sequence = kernel[outer][: rules().limits.sequence]
    again = _again(sequence[sequence >= 0])
    if again is None:
        return
    repeated = np.flatnonzero((kernel == again) & outer)[:_MOST]
    starts = _group_starts(trace.work.s[own][repeated].tolist())
    whole = _covered_share(trace, starts, False) >= _KERNELS_COVERED and not _leaves_idle_out(trace, starts, False)
    after_setup = _follow_setup(trace, starts) and _ends_alike(trace.work, own, starts)
    name = trace.kernel_names([again])[again]
    yield _make_steps(trace, "kernels", name, starts, after_setup=after_setup, usable=whole or after_setup)


def _again(kernels: NDArray[np.int32]) -> int | None:
    """Return the rarest kernel of a sequence that mostly repeats at a constant distance; of several, the first."""
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
    known, first, times = np.unique(kernels, return_index=True, return_counts=True)
    mine = np.searchsorted(known, of)
    first, times = first[mine], times[mine]
    good = (times >= _LEAST) & (often >= _ALIKE * (times - 1)) & (times * period >= _ALIKE * len(kernels))
    best = np.lexsort((first, times, ~good))[:1]
    return int(of[best[0]]) if len(best) and good[best[0]] else None


def _group_starts(starts: list[int]) -> list[int]:
    """Return every n-th start, with the smallest n for which steps have similar durations, or else all starts."""
    for together in range(1, min(_TOGETHER, len(starts) // _LEAST) + 1):
        grouped = starts[::together]
        durations = sorted(_distances(grouped))
        n = len(durations)
        if n >= _LEAST and durations[(9 * n - 1) // 10] - durations[n // 10] <= _SPREAD * durations[n // 2]:
            return grouped
    return starts


def _distances(starts: Sequence[int]) -> list[int]:
    return [b - a for a, b in pairwise(starts)]


def _even(starts: Sequence[int]) -> bool:
    """Whether at least half of the distances differ from their median by no more than half of it."""
    if len(starts) < _LEAST:
        return False
    durations = _distances(starts)
    middle = median(durations)
    return sum(abs(d - middle) <= 0.5 * middle for d in durations) >= _ALIKE * len(durations)


def _spread(durations: Sequence[int]) -> float:
    """Return how many times as long as the shortest step the longest one takes; of ten or more, without the shortest
    and the longest tenth."""
    ordered = sorted(durations)
    outer = len(ordered) // 10
    return ordered[-1 - outer] / max(ordered[outer], 1) if ordered else 1.0


def _make_steps(
    trace: Trace,
    by: Literal["range", "kernels"],
    name: str,
    starts: Sequence[int],
    *,
    named: bool = False,
    after_setup: bool,
    usable: bool,
) -> Steps:
    durations = _distances(starts)
    slow, half = rules().limits.warm_up * median(durations), len(durations) // 2
    warm_up = next((n for n, duration in enumerate(durations[:half]) if duration <= slow), half)
    covered = (starts[-1] - starts[warm_up]) / max(trace.work_span.ns, 1)
    return Steps(by, name, list(starts), warm_up, named, covered, after_setup, usable)
