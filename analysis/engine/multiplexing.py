"""Profiles in which not every launch has every counter, so that one launch represents others.

This happens if groups of counters take turns between launches, or if only some launches of each configuration are
counted.

Launches of one kernel with the same launch configuration are assumed to do the same work. A figure of a configuration
is the mean over its launches that have all inputs; if none has all, it is computed from the means of the inputs, each
over the launches that have it. Every configuration is weighted by the number of its launches, so that sums over several
configurations are those of a complete profile. Nothing is filled into the store: NULL remains "not collected".
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base.database import sql_name
from ..workload import Selection, Workload

_JOINED_COLUMNS = ("cfg", "launches", "tier")
OF_GROUP, ELSEWHERE, MEANS = 0, 1, 2
"""The origin of a row, the best first: a launch of the group itself, a launch of the same configuration in another
group, or the means of all of them."""


def is_multiplexed(workload: Workload) -> bool:
    """Whether launches of a workload represent others: their counters take turns, or only some launches were
    counted."""
    some = workload.manifest.multiplexed is not None or workload.manifest.sampled
    return some and workload.has("dispatches")


def join(workload: Workload, selection: Selection, groups: str | None = None) -> str:
    """SQL that adds to rows ``w`` of counters a key of their configuration, and the number of its launches.

    ``groups`` is SQL for the parts of the program (``part``) of every launch, which can have several. In that case a
    row is repeated for every part that launches its configuration, because a counted launch represents those launches
    too.
    """
    own = (
        "SELECT d.dispatch_id, concat_ws('/', d.kernel, d.device_id, d.launch) AS cfg, "
        f"count(*) OVER (PARTITION BY cfg) AS launches, {OF_GROUP} AS tier FROM {workload.relation('dispatches')} d "
        f"WHERE {selection.condition('d')}"
    )
    if groups is not None:
        own = (
            f"WITH every AS ({own}), "
            f"o AS (SELECT dispatch_id, cfg, part FROM every JOIN ({groups}) USING (dispatch_id)), "
            "n AS (SELECT cfg, part, count(*) AS launches FROM o GROUP BY ALL) "
            "SELECT every.dispatch_id, concat_ws('/', cfg, n.part) AS cfg, n.part, n.launches, "
            f"CASE WHEN o.part IS NULL THEN {ELSEWHERE} ELSE {OF_GROUP} END AS tier FROM every JOIN n USING (cfg) "
            "LEFT JOIN o USING (dispatch_id, cfg, part)"
        )
    return f" JOIN ({own}) l USING (dispatch_id)"


def with_means(rows: str, columns: Iterable[str], keys: Iterable[str] = ()) -> str:
    """The relation ``rows``, which has the columns of ``join``, plus one row of means per configuration.

    ``columns`` are the columns to average, ``keys`` additional key columns, such as the channel.
    """
    key_columns = ", ".join(["kernel", "cfg", "launches", *keys])
    means = ", ".join(f"avg({name}) AS {name}" for name in map(sql_name, dict.fromkeys(columns)))
    return (
        f"WITH held AS ({rows}) SELECT * FROM held UNION ALL BY NAME "
        f"SELECT {key_columns}, {means}, {MEANS} AS tier FROM held GROUP BY {key_columns}"
    )


def carried_columns() -> str:
    """The columns that a query passes through to ``choose_cells_sql``."""
    return "".join(f", {name}" for name in _JOINED_COLUMNS)


def choose_cells_sql(cells: str) -> str:
    """SQL for the cells to use, with their weight ``w``: launches with all inputs, or else the row of means."""
    same = "OVER (PARTITION BY i, ch, cfg)"
    return (
        f"SELECT *, launches / greatest(count(v) {same}, 1) AS w FROM (SELECT * FROM (SELECT *, "
        f"coalesce(min(tier) FILTER (v IS NOT NULL) {same}, {MEANS}) AS best FROM {cells}) WHERE tier = best)"
    )
