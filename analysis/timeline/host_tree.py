"""The tree of calls of the host's code: how long threads were at each node, and how long devices waited for it.

The values are those of the node alone, by thread and by step of the program, so that a picture can add up any part of
them. Time before the first and after the last work of the devices is not idle time, as in the table host_lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from ..workload import Workload
from .busy import Within
from .host_code import Frame, HostCode, Stack, ThreadCode, host_code, overlaps, recorded_stacks
from .host_idle import CODE_CAUSES, charged_gaps
from .host_waits import Charges
from .steps import steps
from .trace import Floats, Ints, Trace
from .trace_loading import device_trace

ThreadNumber = tuple[int | None, int | None]
"""Process and thread; None if the recording does not state them."""
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

    def own_sums(self, values: Floats) -> Floats:
        """Return the sums of the values of cells by frame: those of libraries count for the innermost frame of the
        program's own code that calls them, if any."""
        frames: list[int] = []
        owned: list[bool] = []
        for parent, number in zip(self.parent.tolist(), self.frame.tolist(), strict=True):
            own, below = self.frames[number].own, parent >= 0 and owned[parent]
            frames.append(frames[parent] if below and not own else number)
            owned.append(own or below)
        return np.bincount(np.array(frames)[self.cells.node], values, len(self.frames)).astype("f8")

    def inclusive(self, values: Floats) -> Floats:
        """Return the sums of the values of cells by node, together with all nodes below it."""
        return add_callees(self.parent.tolist(), np.bincount(self.cells.node, values, len(self.parent)).tolist())


def add_callees(parents: Sequence[int], sums: list[float]) -> Floats:
    """Return the values of nodes, which come after their callers, together with those of all nodes below them."""
    for node in range(len(sums) - 1, -1, -1):
        if parents[node] >= 0:
            sums[parents[node]] += sums[node]
    return np.array(sums)


def host_tree(workload: Workload) -> HostTree | None:
    """Return the tree of a workload; None if no code of the host was recorded.

    Raises BadInput if there is neither device work with known times nor a sample of the host.
    """
    trace = device_trace(workload)
    code = host_code(trace) if trace else None
    if trace and code and code.threads:
        gaps = charged_gaps(trace, code, Within([trace.whole]))
        tree = tree_of(code, *_parts(trace), ((who, charges) for who, charges, _ in gaps))
    elif workload.has("host_samples"):
        tree = _sampled_tree(workload)
    else:
        return None
    return tree if len(tree.parent) else None


def _sampled_tree(workload: Workload) -> HostTree:
    """Return the tree of samples that have no device work on their clock, or no times at all."""
    rows = workload.rows(
        "SELECT pid, thread, stack, sum(time_ns)::DOUBLE, coalesce(sum(samples), 0)::DOUBLE "
        f"FROM {workload.relation('host_samples')} GROUP BY ALL ORDER BY pid, thread, stack"
    )
    timed = all(row[3] is not None for row in rows)
    threads = {who: number for number, who in enumerate(dict.fromkeys(row[:2] for row in rows))}
    values = [(threads[pid, thread], stack, 0, ns if timed else count, 0) for pid, thread, stack, ns, count in rows]
    tree = _tree(recorded_stacks(workload), np.array(values, dtype="f8").reshape(-1, 5).T, [*threads], ["all"])
    return replace(tree, unit="ns" if timed else "samples", cells=replace(tree.cells, idle_ns=None))


def _parts(trace: Trace) -> tuple[Ints, Sequence[str]]:
    """Return the edges and the names of the steps if they are certain, and of the time around them; many are joined."""
    division, whole = steps(trace), trace.whole
    if division is None or not division.certain:
        return np.array(whole), ["all"]
    starts = division.starts
    together = -(-(len(starts) - 1) // _MOST_STEPS)
    first = [*range(0, len(starts) - 1, together), len(starts) - 1]
    names = [f"step {a + 1}" if b == a + 1 else f"steps {a + 1} to {b}" for a, b in pairwise(first)]
    edges = [whole.start, *(starts[n] for n in first), whole.end]
    return np.array(edges, dtype=np.int64), ["before the steps", *names, "after the steps"]


def tree_of(
    code: HostCode, edges: Ints, names: Sequence[str], idle: Iterable[tuple[tuple[int, int], Charges]] | None
) -> HostTree:
    """Return the tree of code within parts of the time; without ``idle``, no device is known.

    Idle time belongs to the part in which its gap begins.
    """
    threads: dict[tuple[int, int], int] = {}
    rows = [np.zeros((5, 0))]

    def add(who: tuple[int, int], stack: Ints, part: Ints, time: Ints | int, idle_ns: Floats | int) -> None:
        columns = threads.setdefault(who, len(threads)), stack, part, time, idle_ns
        rows.append(np.stack(np.broadcast_arrays(*columns)))

    windows = ThreadCode(edges[:-1], edges[1:], np.arange(len(names)))
    for who, spans in code.threads.items():
        span, part, start, end = overlaps(spans.s, spans.e, windows)
        add(who, spans.stack[span], part, end - start, 0)
    for who, one in idle or ():
        part = np.clip(np.searchsorted(edges, one.gap, side="right") - 1, 0, len(names) - 1)
        add(who, one.stack, part, 0, one.ns[_BETWEEN].sum(axis=0))
    tree = _tree(code.stacks, np.concatenate(rows, axis=1), [*threads], names)
    return tree if idle is not None else replace(tree, cells=replace(tree.cells, idle_ns=None))


def _tree(stacks: Sequence[Stack], rows: Floats, threads: Sequence[ThreadNumber], names: Sequence[str]) -> HostTree:
    """Return the tree of ``rows``: thread as its index, stack, part, time, and idle time of devices."""
    known = np.array(list(map(bool, stacks)))
    every = rows[:, known[rows[1].astype(np.int64)] & (rows[3:].sum(axis=0) > 0)]
    number, stack, part = every[:3].astype(np.int64)
    used, thread = np.unique(number, return_inverse=True)
    frames, parent, frame, leaf = _nodes(stacks, np.unique(stack))
    cells = Cells(leaf[stack], thread, part, every[3], every[4])
    tree = HostTree(frames, parent, frame, [_name(*threads[number]) for number in used], names, cells)
    return _merge_small(tree, every[3], every[4])


def _name(pid: int | None, thread: int | None) -> str:
    """Return the name of a thread."""
    if thread is None:
        return "all threads" if pid is None else f"process {pid}"
    whose = "" if pid is None else f" of process {pid}"
    return f"main thread {pid}" if pid == thread else f"thread {thread}{whose}"


def _nodes(stacks: Sequence[Stack], used: Ints) -> tuple[Sequence[Frame], Ints, Ints, Ints]:
    """Return the frames of the used stacks, parent and frame of each node, and the innermost node of each stack."""
    frames: dict[Frame, int] = {}
    nodes: dict[tuple[int, int], int] = {}
    leaf = np.full(len(stacks), -1, dtype=np.int64)
    for number in used.tolist():
        node = -1
        for frame in stacks[number]:
            node = nodes.setdefault((node, frames.setdefault(frame, len(frames))), len(nodes))
        leaf[number] = node
    parent, frame_of = np.array(list(nodes), dtype=np.int64).reshape(-1, 2).T
    return list(frames), parent, frame_of, leaf


def _merge_small(tree: HostTree, time: Floats, idle: Floats) -> HostTree:
    """Return the tree without nodes that matter neither for the time nor for the idle time of its cells; their callers
    get the values. Equal cells become one."""
    cells, kept = tree.cells, tree.parent < 0
    for values in (time, idle):
        sums = tree.inclusive(values)
        kept |= (sums > 0) & (sums >= _LEAST_SHARE * sums[tree.parent < 0].sum())
    target = (np.cumsum(kept) - 1).tolist()
    for node in np.flatnonzero(~kept).tolist():
        target[node] = target[tree.parent[node]]
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
