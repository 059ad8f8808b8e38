"""The coverage of counters: the launches that were counted, and the share of all launches that they represent.

A launch was counted if it has a value of any counter. If only some were counted, each represents the launches of its
configuration (engine/multiplexing.py); configurations without counted launches are not part of the figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.database import sql_literal, sql_name
from ..base.notes import Note, Reason
from ..base.text import first_few
from ..catalogue.thresholds import threshold
from ..workload import Selection, Workload

NOT_COUNTED = Reason("not_counted", "none of its launches was counted")
_WHOLE_PCT = threshold("launches.everything_pct")


@dataclass(frozen=True)
class Coverage:
    """The launches and configurations of a selection, the counted ones, and the percentage that these represent."""

    launches: int
    counted: int
    configurations: int
    counted_configurations: int
    launches_pct: float
    time_pct: float | None
    """None if no launch has a time."""

    @property
    def text(self) -> str:
        """A sentence about the coverage."""
        counted = f"{self.counted} of {self.launches} launches were counted"
        if self.counted_configurations == self.configurations:
            return f"{counted}, some of every launch configuration; each represents the launches of its configuration."
        time = f" and {_share(self.time_pct)} of the time" if self.time_pct is not None else ""
        return (
            f"{counted}, of {self.counted_configurations} of {self.configurations} launch configurations; they "
            f"represent {_share(self.launches_pct)} of the launches{time}. Figures from counters are valid for these."
        )


def _share(pct: float) -> str:
    return f"{pct:.3g} %" if pct < _WHOLE_PCT else "nearly all"


def coverage(workload: Workload, selection: Selection) -> Coverage | None:
    """The coverage of the selected launches; None if the profile was not taken with a sample of the launches."""
    if not workload.manifest.sampled or not workload.has("dispatches") or not workload.has("counters"):
        return None
    ((launches, counted, configurations, counted_configurations, share, time),) = workload.rows(
        "SELECT sum(n)::BIGINT, sum(counted)::BIGINT, count(*), count(*) FILTER (counted > 0), "
        "100 * coalesce(sum(n) FILTER (counted > 0), 0) / sum(n), "
        "100 * coalesce(sum(spent) FILTER (counted > 0), 0) / nullif(sum(spent), 0) FROM ("
        "SELECT count(*) AS n, count(*) FILTER (seen.dispatch_id IS NOT NULL) AS counted, sum(d.duration_ns) AS spent "
        f"FROM {workload.relation('dispatches')} d "
        f"LEFT JOIN ({_counted_launches_sql(workload)}) seen USING (dispatch_id) "
        f"WHERE {selection.condition('d')} GROUP BY d.kernel, d.launch)"
    )
    return Coverage(launches, counted, configurations, counted_configurations, share, time) if launches else None


def counted_launches(workload: Workload) -> dict[str, int]:
    """Kernel -> its launches that were counted; of a workload opened by launch, of each configuration."""
    rows = workload.rows(
        f"SELECT d.kernel, count(*) FROM {workload.relation('dispatches')} d "
        f"JOIN ({_counted_launches_sql(workload)}) USING (dispatch_id) GROUP BY d.kernel"
    )
    return {str(kernel): int(n) for kernel, n in rows}


def uncounted_kernels(workload: Workload, kernels: Iterable[str]) -> set[str]:
    """Those of some kernels of which no launch was counted, in a profile that counted others.

    Empty, at no cost, for a profile whose every pass holds every launch.
    """
    names = set(kernels)
    if not names or not _is_partly_counted(workload):
        return set()
    listed = ", ".join(map(sql_literal, sorted(names)))
    rows = workload.rows(
        f"SELECT DISTINCT kernel FROM {workload.relation('counters')} "
        f"WHERE kernel IN ({listed}) AND {_holds_a_counter_sql(workload)}"
    )
    return names - {str(kernel) for (kernel,) in rows}


def notes(workload: Workload, selection: Selection) -> list[Note]:
    """Notes on the coverage of a selection, and on how to count the missing kernels."""
    sentences = []
    if (selected := coverage(workload, selection)) and selected.counted < selected.launches:
        sentences.append(Note("coverage", selected.text))
    sentences += _partly_counted_notes(workload, selection)
    if not_counted := uncounted_kernels(workload, selection.kernels):
        ranked = [f"#{workload.kernels[name].number}" for name in selection.kernels if name in not_counted]
        text = f"Not counted: {first_few(ranked, _MOST_NAMED)}; profile with kernel= to count them."
        sentences.append(Note("not_counted", text))
    return sentences


def _partly_counted_notes(workload: Workload, selection: Selection) -> list[Note]:
    """A note on kernels with uncounted configurations, whose figures cover only a part."""
    if not workload.manifest.sampled or workload.by == "launch" or len(selection.kernels) == 1:
        return []
    rows = workload.rows(
        "SELECT kernel, 100 * coalesce(sum(spent) FILTER (counted), 0) / sum(spent) AS share FROM (SELECT d.kernel, "
        "sum(d.duration_ns) AS spent, bool_or(seen.dispatch_id IS NOT NULL) AS counted "
        f"FROM {workload.relation('dispatches')} d "
        f"LEFT JOIN ({_counted_launches_sql(workload)}) seen USING (dispatch_id) "
        f"WHERE {selection.condition('d')} GROUP BY d.kernel, d.launch) GROUP BY kernel "
        f"HAVING share > 0 AND share < {_MOST_PCT} ORDER BY sum(spent) DESC"
    )
    if not rows:
        return []
    kernels = first_few([f"#{workload.kernels[k].number} ({_share(share)})" for k, share in rows], _MOST_NAMED)
    text = f"Counted in part, with the share of their time: {kernels}; by='launch' shows each configuration."
    return [Note("partly_counted", text)]


_MOST_PCT = threshold("launches.covered_pct")
_MOST_NAMED = 4
"""The maximum number of kernels in a sentence."""


def _is_partly_counted(workload: Workload) -> bool:
    """Whether a pass with counters lacks launches of the workload."""
    if not workload.has("counters") or not workload.manifest.counters or not workload.has("dispatches"):
        return False
    if workload.manifest.sampled:
        return True
    return workload.has("passes") and bool(
        workload.rows(
            f"SELECT 1 FROM {workload.relation('passes')} WHERE counters != '' "
            f"AND matched < {workload.manifest.dispatches} LIMIT 1"
        )
    )


def _counted_launches_sql(workload: Workload) -> str:
    """SQL for the launches with a value of any counter."""
    return f"SELECT dispatch_id FROM {workload.relation('counters')} WHERE {_holds_a_counter_sql(workload)}"


def _holds_a_counter_sql(workload: Workload) -> str:
    """The SQL condition that a launch has a counter; in a sampled profile, one that the timing run does not have."""
    collected = workload.manifest.counters
    if workload.manifest.sampled and workload.passes:
        every = next(iter(workload.passes.values()))
        collected = [name for name in collected if name not in every] or collected
    return f"coalesce({', '.join(map(sql_name, collected))}) IS NOT NULL" if collected else "false"
