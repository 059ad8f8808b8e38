"""Notes on the dispatch ids that a caller named: those that are not there, and which launch a few of them are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .dispatch_ids import Range
from .notes import Note
from .workload import Selection, Workload

_FEW = 3
"""Ids whose place among all launches is told, and gaps that are named."""


def notes(workload: Workload, selection: Selection) -> list[Note]:
    """Notes about the ids of a selection; none where all launches were asked for."""
    if selection.ranges is None:
        return []
    table, named = workload.relation("dispatches"), Selection([], True, selection.ranges)
    ids = f"SELECT DISTINCT dispatch_id AS id FROM {table} d WHERE {named.condition('d')}"
    found: list[Range] = [
        (low, high)
        for low, high in workload.rows(
            f"SELECT min(id), max(id) FROM (SELECT id, id - row_number() OVER (ORDER BY id) AS island FROM ({ids})) "
            "GROUP BY island ORDER BY 1"
        )
    ]
    ((first, last, launches, other),) = workload.rows(
        "SELECT min(dispatch_id), max(dispatch_id), count(*), "
        f"count(*) FILTER ({named.condition('d')} AND NOT ({selection.condition('d')})) FROM {table} d"
    )
    made = []
    if gaps := list(_gaps(selection.ranges, found)):
        more = f" and {len(gaps) - _FEW} more" if len(gaps) > _FEW else ""
        listed = f"{_listed(gaps[:_FEW])}{more}"
        made.append(Note("no_dispatch", f"No dispatch {listed}: ids go from {first} to {last}."))
    if other:
        made.append(Note("other_kernels", f"Left out: {other} of the dispatches named, which are of other kernels."))
    if first == 0 and sum(high - low + 1 for low, high in found) <= min(_FEW, launches - 1):
        chosen = [i for low, high in found for i in range(low, high + 1)]
        places = [workload.rows(f"SELECT count(*) FROM {table} WHERE dispatch_id <= {i}")[0][0] for i in chosen]
        which = " and ".join(f"dispatch {i} is launch {n}" for i, n in zip(chosen, places, strict=True))
        made.append(Note("first_id", f"Ids begin at 0: {which} of {launches}."))
    return made


def _gaps(named: Sequence[Range], found: Sequence[Range]) -> Iterator[Range]:
    """What of ``named`` is not ``found``; both are sorted and separate."""
    rest = iter(found)
    here = next(rest, None)
    for low, high in named:
        while here and here[0] <= high:
            if low < here[0]:
                yield low, here[0] - 1
            low = here[1] + 1
            here = next(rest, None)
        if low <= high:
            yield low, high


def _listed(ids: Sequence[Range]) -> str:
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ids)
