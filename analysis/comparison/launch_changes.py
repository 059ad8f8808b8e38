"""How two versions of a kernel were launched: sizes, registers, LDS, clusters, carve-out that differ, and clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base.database import sql_literal
from ..base.text import count_text
from ..store.launch_configurations import COLUMNS
from ..workload import Workload
from .matching import Pair
from .work import Side, target_quantities

_UNITS = {
    "grid": "work-items", "workgroup_size": "work-items", "vgpr": "registers", "agpr": "registers",
    "sgpr": "registers", "lds_bytes": "B", "scratch_bytes": "B", "cluster": "work-groups",
}  # fmt: skip
_MOST_LISTED = 3
"""Values of one kernel that are told one by one."""
Values = dict[str, list[int]]
"""Column of dispatches -> its values over the launches of a kernel, ascending."""


class Difference(NamedTuple):
    """One quantity of the launches before and after: a number, or a text of several."""

    quantity: str
    before: int | str
    after: int | str
    unit: str | None


def launch_values(workload: Workload, names: Sequence[str]) -> dict[str, Values]:
    """How each of these kernels was launched; a column that the profile does not state has no values."""
    picks = ", ".join(f"coalesce(list_sort(list(DISTINCT {c}) FILTER ({c} IS NOT NULL)), [])" for c in COLUMNS)
    rows = workload.rows(
        f"SELECT kernel, count(DISTINCT launch), {picks} FROM {workload.relation('dispatches')} "
        f"WHERE kernel IN ({', '.join(map(sql_literal, names)) or 'NULL'}) GROUP BY kernel"
    )
    return {str(kernel): dict(zip(COLUMNS, values, strict=True)) | _count(n) for kernel, n, *values in rows}


def _count(configurations: int) -> Values:
    return {"configurations": [configurations]}


def differences(pair: Pair, before: dict[str, Values], after: dict[str, Values]) -> list[Difference]:
    """What differs between the launches of two kernels that both profiles state; nothing for groups of kernels."""
    if len(pair.before) != 1 or len(pair.after) != 1:
        return []
    one, other = before.get(pair.before[0], {}), after.get(pair.after[0], {})
    return [
        Difference(name, _values_text(one[name]), _values_text(other[name]), _UNITS.get(name))
        for name in one
        if one[name] and other.get(name) and one[name] != other[name]
    ]


def settings(target: str, before: Side, after: Side) -> list[Difference]:
    """What counters tell of the set-up of both sides' launches, where it differs; nothing for groups of kernels."""
    if len(before.kernels) != 1 or len(after.kernels) != 1:
        return []
    named = [name for name, role in target_quantities(target).roles.items() if role == "setting"]
    amounts = [(name, before.amount(name), after.amount(name)) for name in named]
    return [Difference(n, round(a), round(b), "B") for n, a, b in amounts if a is not None and b is not None and a != b]


def clocks(before: Side, after: Side) -> list[Difference]:
    """The mean clock of both sides, whether it differs or not: a part of any change of time."""
    rates = before.ratio("clock"), after.ratio("clock")
    if rates[0] is None or rates[1] is None:
        return []
    return [Difference("clock", round(1000 * rates[0]), round(1000 * rates[1]), "MHz")]


def _values_text(values: list[Any]) -> int | str:
    """One value as it is, a few as a list, more as their range."""
    if len(values) == 1:
        return int(values[0])
    if len(values) <= _MOST_LISTED:
        return ", ".join(map(str, values))
    return f"{values[0]} to {values[-1]} ({count_text(len(values), 'value')})"
