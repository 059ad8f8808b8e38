"""The table loads: how much of what it sustains each unit of the device is used by each kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnosis.findings import Diagnosis
from .declaration import Column, DerivedTable, Row
from .findings import diagnoses, has_rules

_SAME = ("unit", "label", "pct", "cycles_pct", "work_pct", "status")


def rows(kernels: Sequence[Diagnosis]) -> list[Row]:
    """Return the load of every unit for each diagnosed kernel."""
    return [
        {
            "kernel": one.kernel,
            "reason": load.reason and load.reason.text,
            **{name: getattr(load, name) for name in _SAME},
        }
        for one in kernels
        for load in one.units
    ]


TABLE = DerivedTable(
    "loads",
    "How much of what it sustains each unit is used by each kernel.",
    {
        "kernel": Column("VARCHAR", "Readable kernel name"),
        "unit": Column("VARCHAR", "Such as hbm or valu"),
        "label": Column("VARCHAR", "Its name in words"),
        "pct": Column("DOUBLE", "The larger of the next two; NULL if neither is known", "%"),
        "cycles_pct": Column("DOUBLE", "By the unit's own counters", "%"),
        "work_pct": Column("DOUBLE", "Least time of the counted work at the ceiling", "%"),
        "status": Column("VARCHAR", "ok, suspect, impossible or not_collected"),
        "reason": Column("VARCHAR", "Why the status is not ok"),
    },
    rows=rows,
    source=diagnoses,
    exists=has_rules,
    measured=True,
)
