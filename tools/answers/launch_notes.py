"""Notes and suggested calls for kernels whose launches differ or of which only some launches were counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...analysis.base.notes import Note
from ...analysis.launches import coverage, outliers
from ...analysis.store.dispatch_ids import Range
from ...analysis.workload import Selection, Workload
from ..base.results import NextCall
from .next_calls import next_call

_FEW = 3
"""Maximum number of ids whose position among all launches is stated, and of gaps that are listed."""


def named_dispatch_notes(workload: Workload, selection: Selection) -> list[Note]:
    """Return notes about the dispatch ids of a selection; none if the selection names no ids."""
    if selection.ranges is None:
        return []
    table, named_selection = workload.relation("dispatches"), Selection([], True, selection.ranges)
    ids = f"SELECT DISTINCT dispatch_id AS id FROM {table} d WHERE {named_selection.condition('d')}"
    present: list[Range] = [
        (low, high)
        for low, high in workload.rows(
            f"SELECT min(id), max(id) FROM (SELECT id, id - row_number() OVER (ORDER BY id) AS island FROM ({ids})) "
            "GROUP BY island ORDER BY 1"
        )
    ]
    ((first, last, launches, other),) = workload.rows(
        "SELECT min(dispatch_id), max(dispatch_id), count(*), "
        f"count(*) FILTER ({named_selection.condition('d')} AND NOT ({selection.condition('d')})) FROM {table} d"
    )
    sentences = []
    if gaps := list(_gaps(selection.ranges, present)):
        more = f" and {len(gaps) - _FEW} more" if len(gaps) > _FEW else ""
        missing = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in gaps[:_FEW])
        sentences.append(Note("no_dispatch", f"No dispatch {missing}{more}: ids go from {first} to {last}."))
    if other:
        sentences.append(
            Note("other_kernels", f"Skipped {other} of the dispatches named, which belong to other kernels.")
        )
    if first == 0 and sum(high - low + 1 for low, high in present) <= min(_FEW, launches - 1):
        ids_present = [i for low, high in present for i in range(low, high + 1)]
        places = [workload.rows(f"SELECT count(*) FROM {table} WHERE dispatch_id <= {i}")[0][0] for i in ids_present]
        which = " and ".join(f"dispatch {i} is launch {n}" for i, n in zip(ids_present, places, strict=True))
        sentences.append(Note("first_id", f"Dispatch ids start at 0: {which} of {launches}."))
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
