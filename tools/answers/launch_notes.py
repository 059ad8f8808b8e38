"""What tools say, and what they suggest, where launches of a kernel differ or only some of them were counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...analysis.launches import configuration_spread, coverage, named_dispatches
from ...analysis.workload import Selection, Workload
from ..base.results import NextCall


@dataclass(frozen=True)
class About:
    """Notes and calls to add to an answer."""

    notes: list[str] = field(default_factory=list)
    next: list[NextCall] = field(default_factory=list)


def about(workload: Workload, tool: str, selection: Selection, shown: Iterable[str]) -> About:
    """What to know of the selected launches and of the kernels ``shown``, each with a figure over all of its launches.

    ``tool`` is what to call again, with the configurations apart.
    """
    spreads = configuration_spread.configuration_spreads(workload, shown)
    notes = [
        *named_dispatches.notes(workload, selection),
        *configuration_spread.spread_notes(spreads),
        *coverage.notes(workload, selection),
    ]
    calls = [
        NextCall(
            tool=tool,
            arguments={"workload": workload.id, "kernel": f"#{one.number}", "by": "launch"},
            why=f"its {one.configurations} launch configurations apart",
        )
        for one in spreads[:1]
    ]
    return About([note.text for note in notes], calls)
