"""Which code of the host the devices wait for: idle time, charged to the stacks of the thread that ends it.

A gap before device work belongs to the thread whose call requested that work, and to what that thread did since the
last work that it requested before the gap, because launches are asynchronous: code before the gap used up the lead that
the host had.

    device   ==== work ====|            gap             |==== work ====
    host     [launch]..a...|...b...[ wait ]..c..[launch ]
                      `--- code that is charged ---'

* Time in calls that block (allocation, copies, waits) within the gap is charged to the code that makes them; the causes
  are those of ``idle``. A wait before the gap costs nothing, because the device was busy.
* The rest of the gap, up to the end of the launching call, is spread over the code in proportion to its time.
* Latency of the device is not charged to any code. Neither is a gap whose thread was not recorded, nor the part of one
  before the first code, as the process did not exist or was not recorded yet: they are counted as unexplained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .busy import Within
from .host_code import HostCode, ThreadCode, overlaps
from .host_waits import Charges, Via, Waits
from .idle import CAUSES, DRAINING, Some, attributed_gaps
from .trace import BLOCKING, NONE, Blocks, Ints, Trace, thread_rows

Floats = NDArray[np.float64]

CODE_CAUSES = ("host", "launch", *BLOCKING, "start_up", "shut_down")
"""The causes of idle time that code of the host explains."""
_RUNNING = ("host", "launch", "start_up", "shut_down")
"""Causes that are spread over the time in which the thread runs; the others belong to calls that block."""
_OTHERS: tuple[Via, ...] = ("wait", "gil")
_HARMLESS = tuple(BLOCKING.index(name) for name in ("synchronisation", "copies"))
"""Classes of calls that wait for the device: before a gap, the device works meanwhile."""


@dataclass(frozen=True)
class CodeIdle:
    """Idle time by stack and cause, in ns over all lanes."""

    by_stack: Mapping[int, Floats]
    """Stack -> ns by cause, as in ``CODE_CAUSES``; stack 0 is unexplained."""
    held: Mapping[Via, Mapping[int, float]]
    """The part of it, by stack, that another thread waits for, or for whose lock (GIL) it waits."""
    busy: Mapping[int, float]
    """Stack -> ns that threads spent in it within the windows, without waits for the device."""
    waits: Mapping[int, tuple[int, float]]
    """Stack -> the number of calls that wait for the device, and their time in ns."""


def code_idle(trace: Trace, code: HostCode, within: Within) -> CodeIdle:
    """Return the idle time within the windows by the stack that it is charged to."""
    sums: dict[int, Floats] = defaultdict(lambda: np.zeros(len(CODE_CAUSES)))
    others: dict[Via, dict[int, Floats]] = {via: defaultdict(lambda: np.zeros(len(CODE_CAUSES))) for via in _OTHERS}
    for _, charges, via in charged_gaps(trace, code, within):
        _add(sums, charges)
        if via != "self":
            _add(others[via], charges)
    held = {via: {stack: float(ns.sum()) for stack, ns in own.items()} for via, own in others.items()}
    return CodeIdle(dict(sums), held, _busy(trace, code, within), _waits(trace, code, within))


def charged_gaps(trace: Trace, code: HostCode, within: Within) -> Iterator[tuple[tuple[int, int], Charges, Via]]:
    """Yield the idle time within the windows by the thread whose call ended it: what each of its pieces is charged to,
    stack 0 if that is not known, and why."""
    rows = [CAUSES.index(cause) for cause in CODE_CAUSES]
    waits = Waits(code)
    for some, parts in attributed_gaps(trace, within):
        own = parts[rows].astype(np.float64)
        for cause, after in DRAINING.items():  # the code that waited is charged with what follows
            own[CODE_CAUSES.index(cause)] += parts[CAUSES.index(after)]
        own = own[:, kept] if (kept := own.sum(axis=0) > 0).any() else own[:, :0]
        for who, mine in thread_rows(some.pid[kept], some.thread[kept]):
            recorded, index = code.code_of(*who), np.flatnonzero(kept)[mine]
            if recorded is None:
                start, end = some.start[index], some.end[index]
                yield who, Charges(np.zeros_like(start), start, end, own[:, mine], start), "self"
                continue
            charge = _Charge(recorded, trace.blocks.get(who), trace.requests.get(who))
            before, charges = charge.divide(some, index, own[:, mine])
            explained, others_before = waits.charge_first_process(who, before)
            yield from ((who, one, "self") for one in (before[~explained], *others_before))
            yield from ((who, one, via) for one, via in waits.follow(who, charges))


def _add(sums: dict[int, Floats], charges: Charges) -> None:
    """Add charges to the sums by stack."""
    stacks, where = np.unique(charges.stack, return_inverse=True)
    rows = [np.bincount(where, row, len(stacks)) for row in charges.ns]
    for stack, *values in zip(stacks, *rows, strict=True):
        sums[int(stack)] += np.array(values)


def _waits(trace: Trace, code: HostCode, within: Within) -> dict[int, tuple[int, float]]:
    """Return the calls within the windows that wait for the device, by the stack of the span in their middle."""
    counts, times = np.zeros(len(code.stacks), dtype=np.int64), np.zeros(len(code.stacks))
    for who, blocks in trace.blocks.items():
        ns = within.ns(blocks.s, blocks.e)
        mine = np.flatnonzero(np.isin(blocks.cls, _HARMLESS) & (ns > 0))
        stacks = code.stacks_at(*who, blocks.s[mine])
        counts += np.bincount(stacks, minlength=len(code.stacks))
        times += np.bincount(stacks, ns[mine], len(code.stacks))
    return {int(stack): (int(counts[stack]), float(times[stack])) for stack in np.flatnonzero(counts)}


def _busy(trace: Trace, code: HostCode, within: Within) -> dict[int, float]:
    """Return the ns of each stack within the windows, without the time in calls that wait for the device."""
    times = np.zeros(len(code.stacks))
    for who, spans in code.threads.items():
        ns = within.ns(spans.s, spans.e).astype(np.float64)
        blocks = trace.blocks.get(who)
        if blocks is not None and len(spans.s):
            a, b = (np.searchsorted(blocks.s, at, side="right") - 1 for at in (spans.s, spans.e))
            for number in set(_HARMLESS) & set(blocks.classes):
                waited = blocks.until(number, spans.e, b) - blocks.until(number, spans.s, a)
                ns -= np.minimum(waited, ns)
        times += np.bincount(spans.stack, ns, len(code.stacks))
    return {int(stack): float(times[stack]) for stack in np.flatnonzero(times)}


@dataclass(frozen=True)
class _Charge:
    """The code of a thread, its blocking calls, and the ends of the calls with which it requested device work."""

    code: ThreadCode
    blocks: Blocks | None
    requests: Ints | None

    def divide(self, some: Some, index: Ints, ns: Floats) -> tuple[Charges, Charges]:
        """Divide the ns of each cause (rows, as in ``CODE_CAUSES``) in some gaps of the thread.

        Returns what no code covers, for each gap with the time before the thread began, and what is charged to pieces
        of code.
        """
        g0, g1 = some.start[index], some.end[index]
        until = np.where(some.called[index] == NONE, g1, np.clip(some.called[index], g0, g1))
        since = self._since(g0)
        earlier = np.clip((self.code.s[0] if len(self.code.s) else until) - since, 0, until - since)
        running_ns = sum(ns[CODE_CAUSES.index(cause)] for cause in _RUNNING)
        existing = 1.0 - np.minimum(earlier / np.maximum(running_ns, 1), 1)
        piece = self._pieces(since, until)
        inside, ahead = self._blocking_time(piece, g0)
        length = np.maximum(piece.end - piece.start - ahead.sum(axis=0), 0).astype(np.float64)
        running = np.maximum(length - inside.sum(axis=0), 0)
        charged = np.zeros((len(CODE_CAUSES), len(piece.gap)))
        lost = np.zeros_like(ns)
        for row, cause in enumerate(CODE_CAUSES):
            weight = running if cause in _RUNNING else inside[BLOCKING.index(cause)].astype(np.float64)
            unweighted = np.bincount(piece.gap, weight, len(index)) == 0
            weight = np.where(unweighted[piece.gap], length, weight)
            totals = np.bincount(piece.gap, weight, len(index))
            share = np.divide(weight, totals[piece.gap], out=np.zeros_like(weight), where=totals[piece.gap] > 0)
            known = np.where(totals > 0, existing if cause in _RUNNING else 1.0, 0.0)
            charged[row] = (ns[row] * known)[piece.gap] * share
            lost[row] = ns[row] * (1.0 - known)
        # A thread that has requested work before existed already, whatever is known of its code.
        missing = np.where(since == g0, earlier, 0)
        before = Charges(np.zeros(len(index), dtype=np.int64), since, since + missing, lost, g0)
        return before, Charges(self.code.stack[piece.span], piece.start, piece.end, charged, g0[piece.gap])

    def _since(self, g0: Ints) -> Ints:
        """Return for each gap the end of the last call before it that requested work; its start if there is none."""
        if self.requests is None:
            return g0
        last = np.searchsorted(self.requests, g0, side="right") - 1
        return np.where(last >= 0, self.requests[np.maximum(last, 0)], g0)

    def _pieces(self, since: Ints, until: Ints) -> _Pieces:
        """Return the parts of the spans that overlap the intervals."""
        code = self.code
        gap, span = overlaps(since, until, code)
        return _Pieces(gap, span, np.maximum(code.s[span], since[gap]), np.minimum(code.e[span], until[gap]))

    def _blocking_time(self, piece: _Pieces, g0: Ints) -> tuple[Ints, Ints]:
        """Return how much of each piece calls of each class (rows, as in ``BLOCKING``) block: within the gap, and
        before it if that is harmless."""
        inside, before = np.zeros((2, len(BLOCKING), len(piece.gap)), dtype=np.int64)
        if self.blocks is None or not len(piece.gap):
            return inside, before
        middle = np.clip(g0[piece.gap], piece.start, piece.end)
        a, m, b = (np.searchsorted(self.blocks.s, at, side="right") - 1 for at in (piece.start, middle, piece.end))
        for code in self.blocks.classes:
            at_start, at_middle, at_end = (
                self.blocks.until(code, at, k) for at, k in ((piece.start, a), (middle, m), (piece.end, b))
            )
            inside[code] = at_end - at_middle
            if code in _HARMLESS:
                before[code] = at_middle - at_start
        return inside, before


@dataclass(frozen=True)
class _Pieces:
    """Parts of spans: the gap and the span that each belongs to, and its start and end."""

    gap: Ints
    span: Ints
    start: Ints
    end: Ints
