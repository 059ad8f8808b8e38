"""The contents of a picture of the host's stacks: boxes of functions under their callers, and lines with most time.

A run of library frames is one box, which is named after the innermost package.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..base.text import count_text, short_time
from ..timeline.host_findings import name
from ..timeline.host_tree import HostTree, add_callees
from ..timeline.trace import Floats, Ints

_ROWS, _LINES, _LEAST_SHARE = 24, 10, 0.001


class StackBox(NamedTuple):
    """A function or a library: its row and its place in shares of the width, and its file if it is own code."""

    row: int
    left: float
    width: float
    name: str
    file: str | None


@dataclass(frozen=True)
class Icicle:
    """Boxes that are as wide as their share of what the title says."""

    title: str
    boxes: Sequence[StackBox]


@dataclass(frozen=True)
class HostPicture:
    """The contents of the picture; the table has a head."""

    title: str
    icicles: Sequence[Icicle]
    table: Sequence[Sequence[str]]


def of_tree(tree: HostTree, title: str) -> tuple[HostPicture, list[str]]:
    """Return the picture of a tree, and its facts in words.

    Its time is that of the threads that launch work for devices, if they are known: others mostly wait.
    """
    cells, time = tree.cells, tree.cells.time
    idle = np.zeros_like(time) if cells.idle_ns is None else cells.idle_ns
    launching = np.unique(cells.thread[idle > 0] if idle.any() else cells.thread)
    whose = f"{len(launching)} of {count_text(len(tree.threads), 'thread')}"
    if len(launching) == 1:
        whose = tree.threads[launching[0]]
    mine = np.where(np.isin(cells.thread, launching), time, 0)
    amount: Callable[[float], str] = short_time if tree.unit == "ns" else lambda value: f"{value:.0f} {tree.unit}"
    views = [(f"All time of {whose}", mine, time, amount)]
    if idle.any():
        views.append(("While a GPU is idle", idle, idle, short_time))
    folded = _fold(tree)
    icicles = [
        Icicle(f"{what}: {show(float(ns.sum()))}", list(_boxes(tree, folded, ns))) for what, ns, _, show in views
    ]
    sums = [tree.own_sums(every) for _, _, every, _ in views]
    top = [frame for frame in np.argsort(-sums[-1], kind="stable")[:_LINES] if sums[-1][frame] > 0]
    heads = ["time of all threads", "GPU idle"][: len(views)]
    facts, table = [icicle.title + "." for icicle in icicles], [["Line, with the libraries that it calls", *heads]]
    for frame in top:
        shown = [show(float(values[frame])) for values, (*_, show) in zip(sums, views, strict=True)]
        table.append([name(tree.frames[frame]), *shown])
        facts.append(f"{table[-1][0]}: {', '.join(map(' '.join, zip(heads, shown, strict=True)))}.")
    return HostPicture(title, icicles, table), facts


class _Folded(NamedTuple):
    """The tree with one box for a run of library frames."""

    boxes: Sequence[tuple[int, int | str]]
    """The caller of each box, -1 without one, and the frame or the package that it shows."""
    of_node: Ints


def _fold(tree: HostTree) -> _Folded:
    numbers: dict[tuple[int, int | str], int] = {}
    of_node: list[int] = []
    above: list[int] = []
    """The box of the program's own code that each node is in; -1 without one."""
    for parent, number in zip(tree.parent.tolist(), tree.frame.tolist(), strict=True):
        frame, outer = tree.frames[number], above[parent] if parent >= 0 else -1
        caller = of_node[parent] if frame.own and parent >= 0 else outer
        what = number if frame.own else frame.module or "library"
        of_node.append(numbers.setdefault((caller, what), len(numbers)))
        above.append(of_node[-1] if frame.own else outer)
    return _Folded(list(numbers), np.array(of_node))


def _boxes(tree: HostTree, folded: _Folded, values: Floats) -> Iterator[StackBox]:
    """Yield the boxes that are wide enough to be seen, the widest first."""
    callers = [caller for caller, _ in folded.boxes]
    sums = add_callees(callers, np.bincount(folded.of_node[tree.cells.node], values, len(callers)).tolist())
    widths = (sums / (values.sum() or 1)).tolist()
    filled: dict[int, float] = defaultdict(float)
    places: dict[int, tuple[int, float]] = {-1: (-1, 0.0)}
    for box in sorted(range(len(widths)), key=lambda box: -widths[box]):
        caller, what = folded.boxes[box]
        if widths[box] < _LEAST_SHARE or caller not in places or places[caller][0] + 1 >= _ROWS:
            continue
        row, left = places[box] = places[caller][0] + 1, places[caller][1] + filled[caller]
        filled[caller] += widths[box]
        if isinstance(what, str):
            yield StackBox(row, left, widths[box], what, None)
        else:
            frame = tree.frames[what]
            words = f"{frame.function}:{frame.line or ''}"
            yield StackBox(row, left, widths[box], words.rstrip(":"), frame.file or "")
