"""Launches of another run of the same program, and which launch of a workload each of them repeats."""

from __future__ import annotations

_ALIKE = ("kernel", "grid", "workgroup_size")


def pair_repeated_launches(theirs: str, ours: str) -> str:
    """SQL: the rows of ``theirs`` and beside each ``repeats``, the id of the launch among ``ours`` that it repeats.

    Both are SELECTs with an id, in the order of launching, and _ALIKE. The n-th launch of a kernel and size repeats
    the n-th, further ones the first; NULL where there is none of that kernel and size.
    """
    alike = ", ".join(_ALIKE)
    nth = f"row_number() OVER (PARTITION BY {alike} ORDER BY id) AS nth"
    known = f"SELECT id, {alike}, {nth} FROM ({ours})"
    same = " AND ".join(f"{{0}}.{c} IS NOT DISTINCT FROM t.{c}" for c in _ALIKE)
    return (
        f"SELECT t.* EXCLUDE (nth), coalesce(k.id, f.id) AS repeats FROM (SELECT *, {nth} FROM ({theirs})) t "
        f"LEFT JOIN ({known}) k ON k.nth = t.nth AND {same.format('k')} "
        f"LEFT JOIN ({known}) f ON f.nth = 1 AND {same.format('f')}"
    )
