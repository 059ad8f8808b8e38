"""What the threads of the host ran: for each thread, spans of time with the stack that it had.

The spans come from a sampler beside the program (table ``host_samples``), or from the Python calls that torch.profiler
records (ranges of the source ``python``), whose lines are the first ones of their functions.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ..workload import Workload
from .trace import Flags, Ints, Trace, Work, thread_rows

_PYTHON_CALL = re.compile(r"(.*)\((\d{1,9})\): (.*)", re.DOTALL)
"""The name of a Python function in a trace of torch.profiler."""
_PACKAGE = re.compile(r"(?:^|/)(?:site|dist)-packages/([^/]+)|^(torch|numpy|transformers)/")
_STANDARD = re.compile(r"(?:^|/)lib/python3\.\d+/|^<")
_THREAD_START = re.compile(r"(^|/)threading\.py$")
_MOST_CALLS = 3_000_000


class Frame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str | None
    line: int | None
    module: str | None
    """The library that it belongs to, if known."""
    own: bool
    """Whether it is the program's own code."""
    text: str | None = None
    """The source line, if it is known."""
    until: int | None = None
    """The line of the next call, for code that ran between two calls of one function."""

    @property
    def key(self) -> tuple[str, str | None]:
        """The name of the function and its file, which identify it."""
        return self.function, self.file


Stack = tuple[Frame, ...]
"""Frames, the outermost first."""


@dataclass(frozen=True)
class ThreadCode:
    """The code of one thread: disjoint spans in order, from ``s`` to ``e``, each with the number of its stack."""

    s: Ints
    e: Ints
    stack: Ints

    def __getitem__(self, mine: Ints | Flags | slice) -> ThreadCode:
        """Return some of the spans."""
        return ThreadCode(self.s[mine], self.e[mine], self.stack[mine])

    def numbers_at(self, times: Ints) -> Ints:
        """Return the number of the stack at each time; 0 where there is none."""
        if not len(self.s):
            return np.zeros_like(times)
        at = np.maximum(np.searchsorted(self.s, times, side="right") - 1, 0)
        return np.where((self.s[at] <= times) & (times < self.e[at]), self.stack[at], 0)


@dataclass(frozen=True)
class HostCode:
    """The code of all threads that were recorded."""

    stacks: Sequence[Stack] = ((),)
    """The stacks by their number; number 0 is empty, for code that is not known."""
    threads: Mapping[tuple[int, int], ThreadCode] = field(default_factory=dict)
    """The spans by process and thread."""
    calls: Mapping[tuple[int, int], ThreadCode] = field(default_factory=dict)
    """The calls whose stacks were recorded as they were made, by process and thread."""
    helpers: Mapping[tuple[int, int], ThreadCode] = field(default_factory=dict)
    """For threads that work for the first one of their process: their spans, with its code where they have none."""
    wakers: Mapping[tuple[int, int], ThreadCode] = field(default_factory=dict)
    """The waits of threads that the program's own code of another thread ended, with the stack of that thread."""
    gradients: Mapping[tuple[int, int], ThreadCode] = field(default_factory=dict)
    """The operators that compute gradients, with the code that called the operator of the forward pass."""

    def code_of(self, pid: int, thread: int) -> ThreadCode | None:
        """Return the code that a thread works for; None if nothing of its process was recorded.

        A thread works for the first one of its process where it has no code, and before its own code begins.
        """
        key = pid, thread
        number = min((who for who in self.threads if who[0] == pid), key=lambda who: who[1] != pid, default=None)
        first, own = self.threads[number] if number else None, self.helpers.get(key) or self.threads.get(key)
        return _join_threads(first, own) if first and own and number != key else own or first

    def stacks_at(self, pid: int, thread: int, times: Ints) -> Ints:
        """Return the stack of a thread at the start of calls: as recorded there, or else as sampled around it."""
        spans = self.code_of(pid, thread)
        numbers = spans.numbers_at(times) if spans else np.zeros_like(times)
        if sites := self.calls.get((pid, thread)):
            at = np.minimum(np.searchsorted(sites.s, times), len(sites.s) - 1)
            numbers = np.where((sites.s[at] == times) & self._has_sources[sites.stack[at]], sites.stack[at], numbers)
        return numbers

    def requesting_stacks(self, work: Work, own: Ints) -> tuple[Ints, Ints]:
        """Return the stack that requested each piece of device work with the indexes ``own``, and if it computes
        gradients, that of the forward pass; 0 where they are not known."""
        stacks, forward = np.zeros((2, len(own)), dtype=np.int64)
        for who, mine in thread_rows(work.pid[own], work.thread[own]):
            asked = work.a0[own[mine]]
            stacks[mine] = self.stacks_at(*who, asked)
            if spans := self.gradients.get(who):
                forward[mine] = spans.numbers_at(asked)
        return stacks, forward

    def inner_stacks(self, function: Frame) -> frozenset[int]:
        """Return the numbers of the stacks of a function and of all that it calls."""
        within = (any(frame.key == function.key for frame in stack) for stack in self.stacks)
        return frozenset(number for number, inside in enumerate(within) if inside)

    @cached_property
    def _has_sources(self) -> Flags:
        """For each stack, whether the source file of any frame is known: not where native code has no symbols."""
        return np.array([any(frame.file for frame in stack) for stack in self.stacks])


def overlaps(since: Ints, until: Ints, code: ThreadCode) -> tuple[Ints, Ints, Ints, Ints]:
    """Return each part of a span that is within an interval, in the order of the intervals: the indexes of the interval
    and the span, and its start and end."""
    first = np.searchsorted(code.e, since, side="right")
    count = np.maximum(np.searchsorted(code.s, until, side="left") - first, 0)
    interval = np.repeat(np.arange(len(since)), count)
    begin = np.concatenate([[0], np.cumsum(count)[:-1]])
    span = np.arange(len(interval)) - begin[interval] + first[interval]
    return interval, span, np.maximum(code.s[span], since[interval]), np.minimum(code.e[span], until[interval])


def host_code(trace: Trace) -> HostCode | None:
    """Return the code of the host; None if nothing recorded it."""
    code = _read_code(trace) if trace.workload.has("host_stacks") else None
    if trace.ranges and (code is None or not code.threads):
        code = _of_torch(trace) or code
    return replace(code, gradients=_gradients(trace, code)) if code and trace.ranges else code


def recorded_stacks(workload: Workload) -> list[Stack]:
    """Return the stacks of a workload by their numbers in host_stacks; number 0 is empty."""
    stacks: dict[int, list[Frame]] = defaultdict(list)
    frames = workload.rows(
        "SELECT stack, function, file, line, module, own, text "
        f"FROM {workload.relation('host_stacks')} ORDER BY stack, depth"
    )
    for number, *frame in frames:
        stacks[number].append(Frame(*frame))
    return [tuple(stacks[number]) for number in range(max(stacks, default=0) + 1)]


def _gradients(trace: Trace, code: HostCode) -> dict[tuple[int, int], ThreadCode]:
    """Return the operators of each thread that compute gradients, with the code that called the forward pass."""
    names = ("pid", "thread", "start_ns", "end_ns", "forward_thread", "forward_ns")
    pid, thread, start, end, caller, called = _columns(trace, names, f"{trace.ranges} WHERE forward_ns IS NOT NULL")
    stack = np.zeros(len(pid), dtype=np.int64)
    for who, mine in thread_rows(pid, caller):
        stack[mine] = code.stacks_at(*who, called[mine])
    code_by_call = ThreadCode(start, end, stack)
    return {who: code_by_call[mine] for who, mine in thread_rows(pid, thread)}


def _read_code(trace: Trace) -> HostCode:
    """Return the sampled code, and where a thread was not sampled, the code around its recorded calls."""
    workload = trace.workload
    known = recorded_stacks(workload)
    threads, wakers = {}, {}
    if workload.has("host_samples"):
        samples = workload.relation("host_samples")
        source = f"{samples} WHERE end_ns > start_ns"
        threads = {who: _spans(rows.s, rows.e, rows.stack) for who, rows in _thread_stacks(trace, source)}
        own = ", ".join(str(n) for n, stack in enumerate(known) if any(frame.own for frame in stack)) or "NULL"
        woken = f"(SELECT * REPLACE (waker AS stack) FROM {samples}) WHERE end_ns > start_ns AND stack IN ({own})"
        wakers = dict(_thread_stacks(trace, woken))
    combined = _CombinedStacks(known)
    helpers = combined.separate_helpers(threads)
    sampled = {pid for pid, _ in threads}
    calls = {}
    for who, rows in _thread_stacks(trace, f"{trace.events} WHERE stack IS NOT NULL"):
        calls[who] = rows
        # In a process with Python code, threads without any work for those that have some.
        if who[0] not in sampled:
            threads[who] = combined.native_code(rows.s, rows.e, rows.stack)
    return HostCode(combined.stacks, threads, calls, helpers, wakers)


def _columns(trace: Trace, names: Sequence[str], source: str) -> list[Ints]:
    """Return columns of the rows of ``source`` whose process and thread are known, in the order of the first three."""
    rows = trace.workload.cursor.execute(
        f"SELECT {', '.join(names)} FROM {source} AND pid IS NOT NULL AND thread IS NOT NULL ORDER BY 1, 2, 3"
    ).fetchnumpy()
    return [np.ma.getdata(rows[name]).astype(np.int64) for name in names]


def _thread_stacks(trace: Trace, source: str) -> Iterator[tuple[tuple[int, int], ThreadCode]]:
    """Yield process and thread with start, end and stack of the rows of ``source``, ordered by start."""
    pid, thread, *columns = _columns(trace, ("pid", "thread", "start_ns", "end_ns", "stack"), source)
    for who, mine in thread_rows(pid, thread):
        yield who, ThreadCode(*columns)[mine]


def _spans(start: Ints, end: Ints, stack: Ints) -> ThreadCode:
    """Return spans, each of which ends at the latest where the next one starts."""
    return ThreadCode(start, np.minimum(end, np.append(start[1:], end[-1:])), stack)


class _CombinedStacks:
    """Stacks that were recorded, and those that are made of two of them."""

    def __init__(self, stacks: Sequence[Stack]) -> None:
        self.stacks = list(stacks)
        self._known = {stack: number for number, stack in enumerate(stacks)}

    def separate_helpers(self, threads: dict[tuple[int, int], ThreadCode]) -> dict[tuple[int, int], ThreadCode]:
        """Return the spans of threads that work for the first one, their frames under those of the first: also those in
        which only the first one has code. In ``threads`` they become the spans with frames of their own.

        Threads of automatic differentiation in PyTorch work for the first one, which waits for them meanwhile.
        """
        helpers = {}
        for who, spans in threads.items():
            first = threads.get((who[0], who[0]))
            if who[0] == who[1] or first is None or self._begins_in_python(spans):
                continue
            edges = np.unique(np.concatenate([spans.s, spans.e, first.s, first.e]))
            outer, inner = (code.numbers_at(edges[:-1]) for code in (first, spans))
            numbers = [self._number(self.stacks[a] + self.stacks[b]) for a, b in zip(outer, inner, strict=True)]
            helpers[who] = ThreadCode(edges[:-1], edges[1:], np.array(numbers, dtype=np.int64))
            threads[who] = helpers[who][inner > 0]
        return helpers

    def _begins_in_python(self, spans: ThreadCode) -> bool:
        """Whether a thread was started by Python code, and not by a library that calls back."""
        roots = [self.stacks[number][0] for number in spans.stack if self.stacks[number]]
        return any(_THREAD_START.search(root.file or "") or root.function == "<module>" for root in roots)

    def native_code(self, start: Ints, end: Ints, stack: Ints) -> ThreadCode:
        """Return the spans of a thread that was not sampled: in a call its stack, and between two calls what both
        stacks share."""
        pairs, which = np.unique(np.stack([stack[:-1], stack[1:]]), axis=1, return_inverse=True)
        shared = np.array([self._common_stack(int(a), int(b)) for a, b in pairs.T], dtype=np.int64)
        between = np.append(shared[which.ravel()], 0)
        starts = np.stack([start, np.maximum(start, end)], axis=1).ravel()
        numbers = np.stack([stack, between], axis=1).ravel()[:-1]
        return _spans(starts[:-1], np.append(starts[1:-1], starts[-1]), numbers)

    def _common_stack(self, before: int, after: int) -> int:
        """Return the number of the stack between two calls: the functions that both are in.

        The code that ran lies between the innermost one's lines of the first and of the second call.
        """
        a, b = self.stacks[before], self.stacks[after]
        same = [x.key == y.key for x, y in zip(a, b, strict=False)]
        stack = a[: same.index(False) if False in same else len(same)]
        if not stack or (first := stack[-1]).line == (last := b[len(stack) - 1]).line:
            return before if before == after else self._number(stack)
        text = f"{first.text} ... {last.text}" if first.text and last.text else None
        return self._number((*stack[:-1], first._replace(text=text, until=last.line)))

    def _number(self, stack: Stack) -> int:
        """Return the number of a stack, which is added if it is new."""
        if stack not in self._known:
            self._known[stack] = len(self.stacks)
            self.stacks.append(stack)
        return self._known[stack]


def _join_threads(first: ThreadCode, then: ThreadCode) -> ThreadCode:
    """Return the spans of one thread until those of another one begin, and then these."""
    if not len(then.s):
        return first
    before, begin = first[: np.searchsorted(first.s, then.s[0])], then.s[0]
    ends = np.append(np.minimum(before.e, begin), then.e)
    return ThreadCode(np.append(before.s, then.s), ends, np.append(before.stack, then.stack))


def _of_torch(trace: Trace) -> HostCode | None:
    """Return the Python calls of a trace of torch.profiler as spans of their innermost call."""
    calls = trace.rows(
        "SELECT coalesce(pid, -1), coalesce(thread, -1), start_ns, end_ns, name "
        f"FROM {trace.ranges} WHERE source = 'python' ORDER BY 1, 2, 3, 4 DESC LIMIT {_MOST_CALLS}"
    )
    if not calls:
        return None
    numbers: dict[Stack, int] = {(): 0}
    threads = {}
    for who, own in groupby(calls, key=itemgetter(0, 1)):
        spans: list[tuple[int, int, int]] = []
        opened: list[tuple[int, Stack]] = []
        """The end of each open call, and the frames down to it."""
        at = 0
        for *_, start, end, name in (*own, (math.inf, 0, "")):
            while opened:
                until = min(opened[-1][0], start)
                if until > at:
                    spans.append((at, until, numbers.setdefault(opened[-1][1], len(numbers))))
                at = max(at, until)
                if opened[-1][0] > start:
                    break
                opened.pop()
            at = max(at, start)
            limit, outer = opened[-1] if opened else (end, ())
            opened.append((min(end, limit), (*outer, _torch_frame(name))))
        if spans:
            threads[who] = _spans(*np.array(spans, dtype=np.int64).T)
    combined = _CombinedStacks(list(numbers))
    helpers = combined.separate_helpers(threads)
    return HostCode(combined.stacks, threads, helpers=helpers)


@lru_cache(100_000)
def _torch_frame(name: str) -> Frame:
    """Return the frame of a name such as ``torch/nn/modules/linear.py(130): forward``."""
    call = _PYTHON_CALL.fullmatch(name)
    if not call:
        return Frame(name, None, None, "python", False)
    package = _PACKAGE.search(call[1])
    module = next((part for part in package.groups() if part), None) if package else None
    module = "python" if module is None and _STANDARD.search(call[1]) else module
    return Frame(call[3], call[1], int(call[2]), module, module is None)
