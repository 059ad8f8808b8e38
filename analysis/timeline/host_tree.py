"""The tree of calls of the host's code: how long threads were at each node, and how long devices waited for it.

The values are those of the node alone, by thread and by step of the program, so that a picture can add up any part of
them. Time before the first and after the last work of the devices is not idle time, as in the table host_lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..workload import Workload
from .busy import Within
from .host_code import Frame, HostCode, ThreadCode, host_code, overlaps
from .host_idle import CODE_CAUSES, charged_gaps
from .steps import steps
from .trace import Trace
from .trace_loading import prepare

if TYPE_CHECKING:
    from .host_idle import Floats
    from .trace import Flags, Ints

_LEAST_SHARE = 0.001
"""Nodes with less than this share of all time and of all idle time are merged into their callers."""
_MOST_STEPS = 20
_BETWEEN = [number for number, cause in enumerate(CODE_CAUSES) if cause not in ("start_up", "shut_down")]


@dataclass(frozen=True)
class Cells:
    """The own values of nodes: each row belongs to one node, thread and step, all of them indexes."""

    node: Ints
    thread: Ints
    step: Ints
    time: Floats
    """How long the thread was at the node, in the unit of the tree."""
    idle_ns: Floats | None
    """Idle time of devices that is charged to the node, by the thread whose calls ended it; None without devices."""


@dataclass(frozen=True)
class HostTree:
    """The tree of calls, with the values of its nodes."""

    frames: Sequence[Frame]
    parent: Ints
    """The caller of each node, which comes before it; -1 for a root."""
    frame: Ints
    threads: Sequence[str]
    steps: Sequence[str]
    """The names of the parts of the time, in order."""
    cells: Cells
    unit: Literal["ns", "samples"] = "ns"

    def inclusive(self, values: Floats) -> Floats:
        """Return the sums of the values of cells by node, together with all nodes below it."""
        sums = np.bincount(self.cells.node, values, len(self.parent)).tolist()
        for node in range(len(sums) - 1, -1, -1):
            if (caller := int(self.parent[node])) >= 0:
                sums[caller] += sums[node]
        return np.array(sums)


@dataclass(frozen=True)
class Parts:
    """The parts into which the time is divided: their edges, and their names."""

    edges: Ints
    names: Sequence[str]


@dataclass(frozen=True)
class ChargedIdle:
    """Idle time that ended with a call of one thread: stack, start of the gap, and ns."""

    thread: tuple[int, int]
    stack: Ints
    gap: Ints
    ns: Floats


def host_tree(workload: Workload) -> HostTree | None:
    """Return the tree of a workload with a timeline; None if no code of the host was recorded.

    Raises BadInput if there is no device work or if its times are unknown.
    """
    trace = prepare(workload)
    code = host_code(trace)
    if code is None:
        return None
    gaps = charged_gaps(trace, code, Within([trace.whole]))
    idle = (ChargedIdle(who, one.stack, one.gap, one.ns[_BETWEEN].sum(axis=0)) for who, one, _ in gaps)
    return tree_of(code, _parts(trace), idle)


def _parts(trace: Trace) -> Parts:
    """Return the steps of the program if they are certain, and the time around them; many steps are joined."""
    division, whole = steps(trace), trace.whole
    if division is None or not division.certain:
        return Parts(np.array(whole), ["all"])
    starts = division.starts
    together = -(-(len(starts) - 1) // _MOST_STEPS)
    first = [*range(0, len(starts) - 1, together), len(starts) - 1]
    joined = ("step" if b == a + 1 else "steps" for a, b in pairwise(first))
    names = [
        f"{noun} {a + 1}" if b == a + 1 else f"{noun} {a + 1} to {b}"
        for noun, (a, b) in zip(joined, pairwise(first), strict=True)
    ]
    edges = [min(whole.start, starts[0]), *(starts[n] for n in first), max(whole.end, starts[-1])]
    return Parts(np.array(edges, dtype=np.int64), ["before the steps", *names, "after the steps"])


def tree_of(code: HostCode, parts: Parts, idle: Iterator[ChargedIdle] | None) -> HostTree:
    """Return the tree of code within the edges of some parts; without ``idle``, no device is known."""
    times = [_times(who, spans, parts) for who, spans in code.threads.items()]
    charged = [_charges(one, parts) for one in idle or ()]
    who = sorted({row.thread for row in (*times, *charged) if row.known.any()})
    numbers = {thread: number for number, thread in enumerate(who)}
    rows = [(row, row.known) for row in (*times, *charged) if row.thread in numbers]
    stack, part, time, waited = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(row, name)[mine] for row, mine in rows)])
        for name in ("stack", "part", "time", "idle")
    )
    thread = np.repeat([numbers[row.thread] for row, _ in rows], [int(mine.sum()) for _, mine in rows]).astype(np.int64)
    nodes = _Nodes.of_stacks(code, np.unique(stack))
    cells = Cells(nodes.leaf[stack], thread, part, time.astype(np.float64), waited.astype(np.float64))
    tree = HostTree(nodes.frames, nodes.parent, nodes.frame, [_name(*one) for one in who], parts.names, cells)
    merged = _merge_small(tree, cells.time, waited)
    return merged if idle is not None else replace(merged, cells=replace(merged.cells, idle_ns=None))


@dataclass(frozen=True)
class _Rows:
    """Values of stacks in one thread, by part of the time."""

    thread: tuple[int, int]
    stack: Ints
    part: Ints
    time: Ints
    idle: Floats

    @property
    def known(self) -> Flags:
        """Return which rows have a value and a stack."""
        known: Flags = (self.stack > 0) & ((self.time > 0) | (self.idle > 0))
        return known


def _times(who: tuple[int, int], spans: ThreadCode, parts: Parts) -> _Rows:
    """Return the time of each span within each part."""
    windows = ThreadCode(parts.edges[:-1], parts.edges[1:], np.arange(len(parts.names)))
    span, part = overlaps(spans.s, spans.e, windows)
    time = np.minimum(spans.e[span], windows.e[part]) - np.maximum(spans.s[span], windows.s[part])
    return _Rows(who, spans.stack[span], part, time, np.zeros(len(span)))


def _charges(one: ChargedIdle, parts: Parts) -> _Rows:
    """Return idle time by the part in which its gap begins."""
    part = np.clip(np.searchsorted(parts.edges, one.gap, side="right") - 1, 0, len(parts.names) - 1)
    return _Rows(one.thread, one.stack, part, np.zeros(len(part), dtype=np.int64), one.ns)


def _name(pid: int, thread: int) -> str:
    """Return the name of a thread."""
    if pid == thread:
        return f"main thread {pid}" if pid >= 0 else "threads without a number"
    return f"thread {thread} of process {pid}"


@dataclass(frozen=True)
class _Nodes:
    """The nodes of some stacks, and the node of the innermost frame of each stack."""

    frames: Sequence[Frame]
    parent: Ints
    frame: Ints
    leaf: Ints

    @classmethod
    def of_stacks(cls, code: HostCode, used: Ints) -> _Nodes:
        frames: dict[Frame, int] = {}
        nodes: dict[tuple[int, int], int] = {}
        leaf = np.full(len(code.stacks), -1, dtype=np.int64)
        for number in used.tolist():
            node = -1
            for frame in code.stacks[number]:
                node = nodes.setdefault((node, frames.setdefault(frame, len(frames))), len(nodes))
            leaf[number] = node
        parent, frame_of = np.array(list(nodes), dtype=np.int64).reshape(-1, 2).T
        return cls(list(frames), parent, frame_of, leaf)


def _merge_small(tree: HostTree, time: Floats, idle: Floats) -> HostTree:
    """Return the tree without nodes that matter neither for the time nor for the idle time of its cells; their callers
    get the values. Equal cells become one."""
    cells, kept = tree.cells, tree.parent < 0
    for values in (time, idle):
        sums = tree.inclusive(values)
        kept |= (sums > 0) & (sums >= _LEAST_SHARE * sums[tree.parent < 0].sum())
    target = (np.cumsum(kept) - 1).tolist()
    for node in np.flatnonzero(~kept).tolist():
        target[node] = target[int(tree.parent[node])]
    new = np.array([*target, -1])
    used, frame = np.unique(tree.frame[kept], return_inverse=True)
    shape = len(new), len(tree.threads) + 1, len(tree.steps) + 1
    keys, row = np.unique(np.ravel_multi_index((new[cells.node], cells.thread, cells.step), shape), return_inverse=True)
    node, thread, step = np.array(np.unravel_index(keys, shape), dtype=np.int64)
    return replace(
        tree,
        frames=[tree.frames[number] for number in used],
        parent=new[tree.parent[kept]],
        frame=frame,
        cells=Cells(node, thread, step, *(np.bincount(row, values, len(keys)).astype("f8") for values in (time, idle))),
    )
