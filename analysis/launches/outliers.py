"""Single launches that took much longer than similar ones and therefore distort a kernel's total and mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.database import sql_literal
from ..base.notes import Note
from ..base.text import count_text, short_time
from ..catalogue.thresholds import count_threshold, threshold
from ..workload import Workload

_LEAST_RATIO = threshold("launches.configuration_ratio")


@dataclass(frozen=True)
class ConfigurationSpread:
    """The number of a kernel, and the mean time in ns of a launch of its shortest and its longest configuration."""

    number: str
    configurations: int
    shortest_ns: float
    longest_ns: float


def configuration_spreads(workload: Workload, kernels: Iterable[str]) -> list[ConfigurationSpread]:
    """The kernels whose configurations differ much, longest total time first; none if configurations are separate."""
    if workload.by == "launch" or not workload.has("dispatches"):
        return []
    several = [name for name in kernels if workload.kernels[name].configurations > 1]
    if not several:
        return []
    rows = workload.rows(
        "SELECT kernel, min(mean), max(mean) FROM (SELECT kernel, avg(duration_ns) AS mean "
        f"FROM {workload.relation('dispatches')} WHERE duration_ns > 0 "
        f"AND kernel IN ({', '.join(map(sql_literal, several))}) GROUP BY kernel, launch) GROUP BY kernel"
    )
    times = {name: (low, high) for name, low, high in rows if high >= _LEAST_RATIO * low}
    known = workload.kernels
    return [ConfigurationSpread(known[n].number, known[n].configurations, *times[n]) for n in several if n in times]


def spread_notes(spreads: list[ConfigurationSpread]) -> list[Note]:
    """One sentence about the first of them and the number of others."""
    if not spreads:
        return []
    first = spreads[0]
    others = count_text(len(spreads) - 1, "other kernel is", "other kernels are")
    more = f"; {others} similar" if len(spreads) > 1 else ""
    text = (
        f"#{first.number} has {first.configurations} launch configurations, from {short_time(first.shortest_ns)} to "
        f"{short_time(first.longest_ns)} a launch{more}; by='launch' or kernel='#{first.number}.1' separates them."
    )
    return [Note("configurations", text)]


_OUTLIER_RATIO = threshold("launches.outlier_ratio")
_FEWEST = count_threshold("launches.fewest_for_outliers")
_MOST_SHARE = threshold("launches.most_outliers")
_OF_KERNEL = threshold("launches.outlier_share_of_kernel")
_OF_ALL = threshold("launches.outlier_share_of_all")
_MOST_NOTES = 2


@dataclass(frozen=True)
class Outlier:
    """The longest outlying launch of a kernel."""

    number: str
    """The number that selects the kernel."""
    dispatch_id: int
    place: int
    """The position among the launches of the kernel, from 1."""
    launches: int
    outlying: int
    longest_ns: float
    median_ns: float


def outliers(workload: Workload, kernels: Iterable[str]) -> list[Outlier]:
    """The outlying launches of some kernels, largest excess over the median first."""
    names = list(kernels)
    if not names or not workload.has("dispatches"):
        return []
    table = workload.relation("dispatches")
    rows = workload.rows(
        "WITH d AS (SELECT kernel, launch, dispatch_id, duration_ns, count(*) OVER (PARTITION BY kernel) AS launches, "
        "sum(duration_ns) OVER (PARTITION BY kernel) AS spent, "
        "row_number() OVER (PARTITION BY kernel ORDER BY dispatch_id) AS place "
        f"FROM {table} WHERE kernel IN ({', '.join(map(sql_literal, names))})), "
        "m AS (SELECT kernel, launch, median(duration_ns) AS mid, count(*) AS n FROM d GROUP BY ALL "
        f"HAVING n >= {_FEWEST} AND mid > 0 AND max(duration_ns) >= {_OUTLIER_RATIO} * mid) "
        "SELECT kernel, arg_max(dispatch_id, duration_ns), arg_max(place, duration_ns), any_value(launches), "
        "count(*) AS many, max(duration_ns), any_value(mid), sum(duration_ns - mid) AS excess "
        f"FROM d JOIN m USING (kernel, launch) WHERE duration_ns >= {_OUTLIER_RATIO} * mid GROUP BY kernel, launch "
        f"HAVING many <= greatest(1, {_MOST_SHARE} * any_value(n)) AND excess >= {_OF_KERNEL} * any_value(spent) "
        f"AND excess >= {_OF_ALL} * (SELECT sum(duration_ns) FROM {table}) ORDER BY excess DESC, kernel"
    )
    return [Outlier(workload.kernels[kernel].number, *figures) for kernel, *figures, _ in rows]


def notes(workload: Workload, kernels: Iterable[str]) -> list[Note]:
    """A sentence for each of the launches with the largest effect."""
    return [Note("outlier", _text(one)) for one in outliers(workload, kernels)[:_MOST_NOTES]]


def _text(one: Outlier) -> str:
    times = f"{one.longest_ns / one.median_ns:.1f} x the median of {short_time(one.median_ns)}"
    which = f"launch {one.place} of {one.launches} (dispatch {one.dispatch_id})"
    more = f"; {one.outlying - 1} more took over {_OUTLIER_RATIO:g} x the median" if one.outlying > 1 else ""
    return f"#{one.number}: {which} took {short_time(one.longest_ns)}, {times}{more}. Total and mean include it."
