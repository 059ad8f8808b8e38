"""Notes and suggested calls for kernels whose launches differ or of which only some launches were counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...analysis.base.notes import Note
from ...analysis.base.text import first_few
from ...analysis.launches import coverage, outliers
from ...analysis.store.dispatch_ids import Range
from ...analysis.workload import Selection, Workload
from ..base.results import NextCall
from .next_calls import next_call

_FEW = 3
"""Maximum number of ranges of launches that are listed, and of gaps."""


def named_dispatch_notes(workload: Workload, selection: Selection) -> list[Note]:
    """Return notes about the dispatch ids of a selection, and on its launches, which are counted within its kernels.

    Profilers number launches from 0 or from 1, so the note states both numbers. None if the selection names no ids.
    """
    if selection.ranges is None:
        return []
    table = workload.relation("dispatches")
    ids = (
        f"SELECT DISTINCT dispatch_id AS id FROM {table} d WHERE {Selection([], True, selection.ranges).condition('d')}"
    )
    present: list[Range] = [
        (low, high)
        for low, high in workload.rows(
            f"SELECT min(id), max(id) FROM (SELECT id, id - row_number() OVER (ORDER BY id) AS island FROM ({ids})) "
            "GROUP BY island ORDER BY 1"
        )
    ]
    sentences = []
    ((first, last),) = workload.rows(f"SELECT min(dispatch_id), max(dispatch_id) FROM {table}")
    if gaps := list(_gaps(selection.ranges, present)):
        missing = first_few([str(low) if low == high else f"{low}-{high}" for low, high in gaps], _FEW)
        sentences.append(Note("no_dispatch", f"No dispatch {missing}: ids go from {first} to {last}."))
    numbered = (
        f"SELECT dispatch_id AS id, row_number() OVER (ORDER BY dispatch_id) AS n, "
        f"{selection.condition('d')} AS used FROM {table} d WHERE {replace(selection, ranges=None).condition('d')}"
    )
    islands = f"SELECT *, n - row_number() OVER (PARTITION BY used ORDER BY n) AS island FROM ({numbered})"
    parts: dict[bool, list[str]] = {True: [], False: []}
    for used, low, high, low_id, high_id in workload.rows(
        f"SELECT used, min(n), max(n), min(id), max(id) FROM ({islands}) GROUP BY used, island ORDER BY 2"
    ):
        parts[used].append(f"{low} (id {low_id})" if low == high else f"{low}-{high} (ids {low_id}-{high_id})")
    left_out = f"; left out: {first_few(parts[False], _FEW)}" if parts[False] else ""
    sentences.append(Note("launches", f"Launches used, counted from 1: {first_few(parts[True], _FEW)}{left_out}."))
    return sentences


def _gaps(wanted: Sequence[Range], present: Sequence[Range]) -> Iterator[Range]:
    """Yield the parts of ``wanted`` that are not in ``present``; the ranges of both are sorted and disjoint."""
    remaining = iter(present)
    current = next(remaining, None)
    for low, high in wanted:
        while current and current[0] <= high:
            if low < current[0]:
                yield low, current[0] - 1
            low = current[1] + 1
            current = next(remaining, None)
        if low <= high:
            yield low, high


@dataclass(frozen=True)
class About:
    """Notes and suggested calls to add to an answer."""

    notes: list[str] = field(default_factory=list)
    next: list[NextCall] = field(default_factory=list)


def about(workload: Workload, tool: str, selection: Selection, shown: Iterable[str]) -> About:
    """Return what to know about the selected launches and about the kernels ``shown``.

    Each of these kernels has one figure over all of its launches. ``tool`` is the tool to call again for separate
    launch configurations.
    """
    spreads = outliers.configuration_spreads(workload, shown)
    notes = [
        *named_dispatch_notes(workload, selection),
        *outliers.spread_notes(spreads),
        *coverage.notes(workload, selection),
    ]
    calls = [
        next_call(
            tool,
            f"its {one.configurations} launch configurations separately",
            workload=workload.id,
            kernel=f"#{one.number}",
            by="launch",
        )
        for one in spreads[:1]
    ]
    return About([note.text for note in notes], calls)
