"""The table accounts: what the time of each kernel is spent on."""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnosis.account import DEVICE, WAVES
from ..diagnosis.findings import Diagnosis
from .declaration import Column, DerivedTable, Row
from .findings import diagnoses, has_rules


def rows(kernels: Sequence[Diagnosis]) -> list[Row]:
    """Return the parts of the device's time and of the lifetime of waves for each diagnosed kernel."""
    return [
        {"kernel": one.kernel, "view": view, "part": part.name, "title": part.title, "share_pct": part.pct}
        for one in kernels
        for view, account in ((DEVICE, one.device_time), (WAVES, one.wave_time))
        for part in account
    ]


TABLE = DerivedTable(
    "accounts",
    "What each kernel's time is spent on: by the device from start to end, by its waves while they live; each "
    "adds up to 100 %.",
    {
        "kernel": Column("VARCHAR", "Readable kernel name"),
        "view": Column("VARCHAR", "device or waves"),
        "part": Column("VARCHAR", "Such as busy, tail, data, barrier or not_counted"),
        "title": Column("VARCHAR", "The same in words"),
        "share_pct": Column("DOUBLE", "Share of the view; NULL if counters contradict one another", "%"),
    },
    rows=rows,
    source=diagnoses,
    exists=has_rules,
    measured=True,
)
