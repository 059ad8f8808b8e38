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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .busy import Within
from .host_code import HostCode, ThreadCode, overlaps
from .host_waits import Charges, Via, Waits
from .idle import CAUSES, DRAINING, Some, attributed_gaps
from .trace import BLOCKING, NO_BLOCKS, NONE, Floats, Ints, Trace, thread_rows

CODE_CAUSES = ("host", "launch", *BLOCKING, "start_up", "shut_down")
"""The causes of idle time that code of the host explains."""
_RUNNING = ("host", "launch", "start_up", "shut_down")
"""Causes that are spread over the time in which the thread runs; the others belong to calls that block."""
_OTHERS: tuple[Via, ...] = ("wait", "gil")
_HARMLESS = tuple(BLOCKING.index(name) for name in ("synchronisation", "copies"))
"""Classes of calls that wait for the device: before a gap, the device works meanwhile."""


@dataclass(frozen=True)
class CodeIdle:
    """Idle time by stack and cause, in ns over all lanes; the arrays are indexed by the number of a stack."""

    stacks: Sequence[int]
    """The stacks with anything charged to them, any time or any wait."""
    ns: Floats
    """The time by cause (rows, as in ``CODE_CAUSES``); stack 0 is unexplained."""
    held: Mapping[Via, Floats]
    """The part of it that another thread waits for, or for whose lock (GIL) it waits."""
    busy: Floats
    """The ns that threads spent in a stack within the windows, without waits for the device."""
    waits: Ints
    """The number of calls that wait for the device."""
    waited: Floats
    """Their time in ns."""


def code_idle(trace: Trace, code: HostCode, within: Within) -> CodeIdle:
    """Return the idle time within the windows by the stack that it is charged to."""
    count = len(code.stacks)
    sums, charged = np.zeros((len(CODE_CAUSES), count)), np.zeros(count, dtype=bool)
    held = {via: np.zeros(count) for via in _OTHERS}
    for _, charges, via in charged_gaps(trace, code, within):
        ns = np.array([np.bincount(charges.stack, row, count) for row in charges.ns])
        charged[charges.stack] = True
        sums += ns
        if via != "self":
            held[via] += ns.sum(axis=0)
    busy, (waits, waited) = _busy(trace, code, within), _waits(trace, code, within)
    return CodeIdle(np.flatnonzero(charged | (busy != 0) | (waits > 0)).tolist(), sums, held, busy, waits, waited)


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
            before, charges = _divide(trace, who, recorded, some, index, own[:, mine])
            yield from ((who, one, "self") for one in waits.charge_first_process(who, before))
            yield from ((who, one, via) for one, via in waits.follow(who, charges))


def _waits(trace: Trace, code: HostCode, within: Within) -> tuple[Ints, Floats]:
    """Return the number and the time of the calls within the windows that wait for the device, by their stack."""
    counts, times = np.zeros(len(code.stacks), dtype=np.int64), np.zeros(len(code.stacks))
    for who, blocks in trace.blocks.items():
        ns = within.ns(blocks.s, blocks.e)
        mine = np.flatnonzero(np.isin(blocks.cls, _HARMLESS) & (ns > 0))
        stacks = code.stacks_at(*who, blocks.s[mine])
        counts += np.bincount(stacks, minlength=len(code.stacks))
        times += np.bincount(stacks, ns[mine], len(code.stacks))
    return counts, times


def _busy(trace: Trace, code: HostCode, within: Within) -> Floats:
    """Return the ns of each stack within the windows, without the time in calls that wait for the device."""
    times = np.zeros(len(code.stacks))
    for who, spans in code.threads.items():
        ns, blocks = within.ns(spans.s, spans.e).astype(np.float64), trace.blocks.get(who, NO_BLOCKS)
        for number in _HARMLESS:
            ns -= np.minimum(blocks.ns(number, spans.s, spans.e), ns)
        times += np.bincount(spans.stack, ns, len(code.stacks))
    return times


def _divide(
    trace: Trace, who: tuple[int, int], code: ThreadCode, some: Some, index: Ints, ns: Floats
) -> tuple[Charges, Charges]:
    """Divide the ns of each cause (rows, as in ``CODE_CAUSES``) in some gaps of a thread.

    Returns what no code covers, for each gap with the time before the thread began, and what is charged to pieces
    of code.
    """
    g0, g1 = some.start[index], some.end[index]
    until = np.where(some.called[index] == NONE, g1, np.clip(some.called[index], g0, g1))
    # The end of the last call before the gap that requested work; the start of the gap if there is none.
    requests = np.append(NONE, trace.requests.get(who, g0[:0]))
    last = requests[np.searchsorted(requests, g0, side="right") - 1]
    since = np.where(last == NONE, g0, last)
    earlier = np.clip((code.s[0] if len(code.s) else until) - since, 0, until - since)
    running_ns = sum(ns[CODE_CAUSES.index(cause)] for cause in _RUNNING)
    existing = 1.0 - np.minimum(earlier / np.maximum(running_ns, 1), 1)
    gap, span, start, end = overlaps(since, until, code)
    # Calls of any class block within the gap; before it, the device works while they wait for it.
    middle, blocks = np.clip(g0[gap], start, end), trace.blocks.get(who, NO_BLOCKS)
    inside = np.array([blocks.ns(number, middle, end) for number in range(len(BLOCKING))])
    ahead = sum(blocks.ns(number, start, middle) for number in _HARMLESS)
    length = np.maximum(end - start - ahead, 0).astype(np.float64)
    running = np.maximum(length - inside.sum(axis=0), 0)
    charged, lost = np.zeros((len(CODE_CAUSES), len(gap))), np.zeros_like(ns)
    for row, cause in enumerate(CODE_CAUSES):
        weight = running if cause in _RUNNING else inside[BLOCKING.index(cause)].astype(np.float64)
        unweighted = np.bincount(gap, weight, len(index)) == 0
        weight = np.where(unweighted[gap], length, weight)
        totals = np.bincount(gap, weight, len(index))
        known = np.where(totals > 0, existing if cause in _RUNNING else 1.0, 0.0)
        charged[row] = (ns[row] * known)[gap] * (weight / np.where(totals > 0, totals, 1)[gap])
        lost[row] = ns[row] * (1.0 - known)
    # A thread that has requested work before existed already, whatever is known of its code.
    missing = np.where(since == g0, earlier, 0)
    before = Charges(np.zeros_like(g0), since, since + missing, lost, g0)
    return before, Charges(code.stack[span], start, end, charged, g0[gap])
