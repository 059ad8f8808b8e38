"""The lines of a kernel that lost or gained cost between two versions, with the interval of the difference.

The cost is samples, or the cycles of the waves in thread traces, which have no interval.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from ..workload import Workload
from .code import SourceLine, read
from .kernels import has_code, sampled_kernels
from .ranking import FEW, Interval, Ranking, Spot, Unit, place, rank, wilson

Verdict = Literal["lost", "gained", "same", "unknown"]
How = Literal["text", "line", "instruction"]
_REGISTERS = re.compile(r"\b(?:U?[RP]\d+|[vas]\d+|[vas]\[\d+:\d+\]|0x[0-9a-f]+|-?\d+(?:\.\d+)?)\b")
MOST_LINES = 200_000
"""The maximum number of source lines of a workload that are read for matching."""


class LineChange(NamedTuple):
    """A place: its shares in percent (0 if a version has no cost there), and their difference in points.

    Cycles of a trace have no interval, so whether a difference is more than chance is unknown.
    """

    place: str
    before_pct: float
    after_pct: float
    difference: float
    interval: Interval | None
    verdict: Verdict


@dataclass(frozen=True)
class LineChanges:
    """The places of a kernel in two versions, largest difference first; ``how`` states how they were matched."""

    how: How
    totals: tuple[int, int]
    """The cost of each version, in ``unit``."""
    lines: list[LineChange]
    unit: Unit = "samples"
    hidden_pct: tuple[float, float] | None = None
    """The part of the cycles of each version that other waves covered; None if one does not know its waves."""

    @property
    def few(self) -> bool:
        """Whether a version has too few samples to be reliable."""
        return self.unit == "samples" and min(self.totals) < FEW


def changes(before: Workload, kernel: str, after: Workload, candidate: str) -> LineChanges | None:
    """The changes of the lines of a kernel; None unless it was sampled, or traced, in both versions.

    If both profiles contain the source, lines are matched by their text, because line numbers change with every edit.
    Otherwise they are matched by file and number. Without line information, instructions are matched by their text
    without registers, and by their loop.
    """
    sides: list[Ranking] = []
    for workload, name in ((before, kernel), (after, candidate)):
        if not has_code(workload) or name not in {one.kernel for one in sampled_kernels(workload)}:
            return None
        sides.append(rank(read(workload, name), "line"))
    first, second = sides
    if first.unit != second.unit or first.unit == "executions" or not (first.total and second.total):
        return None
    texts = [_texts(workload, side) for workload, side in zip((before, after), sides, strict=True)]
    how: How = "instruction"
    if first.by == second.by == "line":
        how = "text" if all(texts) else "line"
    else:
        sides = [rank(side.code, "instruction") for side in sides]
    costs = [_costs(side, how, text) for side, text in zip(sides, texts, strict=True)]
    totals = [side.total for side in sides]
    names = {key: name for side in reversed(costs) for key, (name, _) in side.items()}
    rows = [
        _change(names[key], [side[key][1] if key in side else 0.0 for side in costs], totals, first.unit)
        for key in dict.fromkeys([*costs[0], *costs[1]])
    ]
    rows.sort(key=lambda row: -abs(row.difference))
    covered = [100 * side.hidden / side.total for side in sides if side.hidden is not None]
    hidden = (covered[0], covered[1]) if len(covered) == 2 else None
    return LineChanges(how, (round(totals[0]), round(totals[1])), rows, first.unit, hidden)


def _costs(side: Ranking, how: How, texts: Mapping[SourceLine, str]) -> dict[Hashable, tuple[str, float]]:
    """Key of a place -> its name and its cost; places with the same key are added up."""
    names: dict[Hashable, str] = {}
    costs: dict[Hashable, float] = defaultdict(float)
    instructions = {one.key: one for one in side.code.instructions}
    for spot in side.spots:
        key = _key(side, spot, how, texts)
        names.setdefault(key, place(instructions[spot.main]))
        costs[key] += spot.cost
    return {key: (names[key], cost) for key, cost in costs.items()}


def _key(side: Ranking, spot: Spot, how: How, texts: Mapping[SourceLine, str]) -> Hashable:
    if how == "instruction" or spot.line.file is None:
        return _REGISTERS.sub("#", spot.main.text), side.loop_of(spot)
    file = PurePosixPath(spot.line.file).name
    return file, (texts.get(spot.line) or spot.line.number) if how == "text" else spot.line.number


def _texts(workload: Workload, side: Ranking) -> dict[SourceLine, str]:
    """The text of the lines with samples, if the profile contains it."""
    if not workload.has("source_lines"):
        return {}
    wanted = {spot.line for spot in side.spots}
    rows = workload.rows(
        f'SELECT source_file, source_line, "text" FROM {workload.relation("source_lines")} LIMIT {MOST_LINES}'
    )
    return {
        SourceLine(f, n): " ".join(text.split()) for f, n, text in rows if SourceLine(f, n) in wanted and text.strip()
    }


def _change(name: str, costs: list[float], totals: list[float], unit: Unit) -> LineChange:
    """The difference of two proportions with its interval by R. G. Newcombe (1998, method 10), from those by Wilson."""
    before, after = (100 * cost / total for cost, total in zip(costs, totals, strict=True))
    if unit != "samples":
        return LineChange(name, before, after, after - before, None, "unknown")
    (low_1, high_1), (low_2, high_2) = (
        wilson(cost, total) or Interval(0.0, 100.0) for cost, total in zip(costs, totals, strict=True)
    )
    difference = after - before
    low = difference - math.hypot(after - low_2, high_1 - before)
    high = difference + math.hypot(high_2 - after, before - low_1)
    verdict: Verdict = "lost" if high < 0 else "gained" if low > 0 else "same"
    return LineChange(name, before, after, difference, Interval(low, high), verdict)
