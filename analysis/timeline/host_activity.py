"""The activity of the host during gaps of the device: the enclosing range and the longest operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from .busy import merge_windows
from .idle import Gap
from .trace import Trace

_OPERATIONS = 3
_FRAMEWORK = ("torch", "python", "")
_FEW = 40
_LEAST = 0.01
"""Operations that cover less than this share of the gaps are ignored."""
_CALLED = -1
"""Replaces the depth for host calls, whose enclosing range is unknown."""


@dataclass(frozen=True)
class Doing:
    """The innermost user range around most of the gap time, and operations (name and ns) within the gaps."""

    range: str | None
    operations: Sequence[tuple[str, int]]

    @property
    def text(self) -> str | None:
        """The operations with their times; None if there are none."""
        return ", ".join(f"{name} {ns / 1e6:.3g} ms" for name, ns in self.operations) or None


NOTHING = Doing(None, [])


def doing(trace: Trace, groups: Sequence[Sequence[Gap]]) -> list[Doing]:
    """Return the host activity for each group of gaps; of nested operations, the innermost one is reported.

    Some profilers record a name both as a call and as a range; it counts once, as a call.
    """
    listed = [(number, gap) for number, group in enumerate(groups) for gap in group]
    if not listed:
        return [NOTHING] * len(groups)
    values = ", ".join(f"({n}, {g.start}, {g.end}, {-1 if g.pid is None else g.pid})" for n, g in listed)
    sources = []
    for spans in _conditions(merge_windows((gap.start, gap.end) for _, gap in listed)):
        sources.append(
            f"SELECT name, name AS path, {_CALLED} AS depth, '' AS source, start_ns, end_ns, pid, 0 AS place "
            f"FROM {trace.events} WHERE kind IN ('api', 'sync', 'alloc') AND name IS NOT NULL AND ({spans})"
        )
        if trace.ranges:
            sources.append(
                "SELECT name, coalesce(path, name), coalesce(depth, 0), coalesce(source, ''), start_ns, end_ns, pid, 1 "
                f"FROM {trace.ranges} WHERE ({spans})"
            )
    rows = trace.rows(
        f"WITH g(n, g0, g1, gp) AS (VALUES {values}), h AS ({' UNION ALL '.join(sources)}) "
        "SELECT n, name, arg_min(path, place), max(depth), arg_min(source, place), max(in_one) AS ns FROM ("
        "SELECT n, name, place, any_value(path) AS path, max(depth) AS depth, any_value(source) AS source, "
        "sum(least(end_ns, g1) - greatest(start_ns, g0))::BIGINT AS in_one "
        "FROM h JOIN g ON start_ns < g1 AND end_ns > g0 AND (gp = -1 OR coalesce(pid, gp) IN (gp, -1)) "
        "GROUP BY n, name, place) GROUP BY n, name ORDER BY n, ns DESC, name"
    )
    by_gap = {n: [row[1:] for row in of] for n, of in groupby(rows, key=itemgetter(0))}
    return [_host_doing(by_gap.get(n, []), sum(gap.ns for gap in group)) for n, group in enumerate(groups)]


def _host_doing(operations: Sequence[tuple[str, str, int, str, int]], total: int) -> Doing:
    """Return what operations say (name, path, depth, source and ns), of which the longest ones come first."""
    own = [
        (depth, ns, path) for _, path, depth, source, ns in operations if source not in _FRAMEWORK and 2 * ns >= total
    ]
    others = [(name, depth, ns) for name, _, depth, source, ns in operations if source in _FRAMEWORK][:50]
    others = [each for each in others if each[2] >= _LEAST * total]
    # Skip operators that enclose another one with about the same time, because the inner one is more specific.
    innermost = [
        (name, ns)
        for name, depth, ns in others
        if depth == _CALLED or not any(below > depth and inner >= 0.8 * ns for _, below, inner in others)
    ]
    return Doing(max(own, key=itemgetter(0, 1))[2] if own else None, innermost[:_OPERATIONS])


def _conditions(spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return mutually exclusive SQL conditions for events that overlap the disjoint spans.

    A few spans get one condition each: files are ordered by time, so DuckDB can skip the parts without a span.
    """
    touching = [f"(start_ns < {end} AND end_ns > {start})" for start, end in spans]
    if len(spans) > _FEW:
        return [" OR ".join(touching)]
    before = [f" AND start_ns >= {end}" for _, end in spans]
    return [own + behind for own, behind in zip(touching, ["", *before], strict=False)]
