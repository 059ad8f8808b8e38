"""Profiles in which not every launch holds every counter: how one launch stands for others.

Groups of counters took turns between launches, or only a few launches of each configuration were counted.

Launches of one kernel with one launch configuration are taken to do the same work. A figure of such a configuration
is the mean over those of its launches that hold all of its inputs; where none does, it is made of the means of its
inputs, each over the launches that hold that one. Every configuration counts as often as it was launched, so that sums
over several are what a complete profile would give. Nothing is filled in the store: NULL stays not collected.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base.database import sql_name
from ..workload import Selection, Workload

_JOINED_COLUMNS = ("cfg", "launches", "tier")
OF_GROUP, ELSEWHERE, MEANS = 0, 1, 2
"""Whose row it is, the better one first: a launch of the group's own, one of its configuration that another group
made, or the means of all of them."""


def is_multiplexed(workload: Workload) -> bool:
    """Whether launches of a workload stand for others: they hold counters in turn, or only some are counted."""
    some = workload.manifest.multiplexed is not None or workload.manifest.sampled
    return some and workload.has("dispatches")


def join(workload: Workload, selection: Selection, groups: str | None = None) -> str:
    """SQL that adds to rows ``w`` of counters what tells their configuration apart, and how often that was launched.

    ``groups`` is SQL for the parts of the program (``part``) of every launch, which can be of several. A row is
    repeated for every part that launches its configuration then, as one that was counted stands for those launches too.
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
    """The relation ``rows``, which has the columns of ``join``, and per configuration one more row of their means.

    ``columns`` are those that may be averaged, ``keys`` further ones that tell rows apart, such as the channel.
    """
    key_columns = ", ".join(["kernel", "cfg", "launches", *keys])
    means = ", ".join(f"avg({name}) AS {name}" for name in map(sql_name, dict.fromkeys(columns)))
    return (
        f"WITH held AS ({rows}) SELECT * FROM held UNION ALL BY NAME "
        f"SELECT {key_columns}, {means}, {MEANS} AS tier FROM held GROUP BY {key_columns}"
    )


def carried_columns() -> str:
    """The columns that a query hands on up to ``choose_cells_sql``."""
    return "".join(f", {name}" for name in _JOINED_COLUMNS)


def choose_cells_sql(cells: str) -> str:
    """SQL for the cells that count, with their weight ``w``: launches that hold all inputs, else the row of means."""
    same = "OVER (PARTITION BY i, ch, cfg)"
    return (
        f"SELECT *, launches / greatest(count(v) {same}, 1) AS w FROM (SELECT * FROM (SELECT *, "
        f"coalesce(min(tier) FILTER (v IS NOT NULL) {same}, {MEANS}) AS best FROM {cells}) WHERE tier = best)"
    )
