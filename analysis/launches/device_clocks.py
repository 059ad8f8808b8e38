"""Sampled clocks, power and temperature of a GPU, the causes of reduced clocks, and their effect on times."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.notes import Note
from ..catalogue.thresholds import threshold
from ..store.store import insert_rows, write_table
from ..workload import Workload

if TYPE_CHECKING:
    import duckdb

COLUMNS = {
    "t_ns": "BIGINT", "step": "VARCHAR", "device_uuid": "VARCHAR", "clock_mhz": "DOUBLE", "memory_clock_mhz": "DOUBLE",
    "power_w": "DOUBLE", "temperature_c": "DOUBLE", "busy_pct": "DOUBLE", "held_back": "VARCHAR",
}  # fmt: skip
"""The columns of the table clocks, with their DuckDB types."""
CAUSES = {
    "power": "its power limit",
    "temperature": "heat",
    "current": "its current limit",
    "hardware": "a slowdown requested by the hardware",
    "limit": "a clock that was set",
}
"""The causes that can keep a clock below its maximum, with their text. The column ``held_back`` separates them by
commas."""
FAULTS = frozenset({"temperature", "current", "hardware"})
"""The causes that indicate a problem of cooling or power supply. Reaching the power limit is normal at full load."""
FIRST_STEP = "timing"
"""The timing run, which has no counters and provides the times of the workload."""
_BUSY_PCT = threshold("clocks.busy_pct")
_NOTABLE_SHARE = threshold("clocks.notable_cause")
_LEAST_CLOCK_CHANGE = threshold("clocks.least_change")


@dataclass(frozen=True)
class ClockState:
    """The state of a device over some samples: median clock in MHz, median power in W, maximum temperature in °C.

    ``causes`` contains for each cause the fraction of the samples (0 to 1) in which it reduced the clock.
    """

    n: int
    mhz: float | None
    watts: float | None
    celsius: float | None
    causes: Mapping[str, float]

    @property
    def notable_causes(self) -> list[str]:
        """The significant causes, longest first."""
        return sorted((c for c, share in self.causes.items() if share >= _NOTABLE_SHARE), key=lambda c: -self.causes[c])

    @property
    def causes_text(self) -> str:
        """The causes as text, or an empty string."""
        return " and ".join(f"{CAUSES[c]} in {100 * self.causes[c]:.0f} % of the samples" for c in self.notable_causes)


def summary(rows: Sequence[Mapping[str, Any]]) -> ClockState | None:
    """Summarise samples (rows of the table clocks). Those of an idle device are ignored; None without any others."""
    busy = [row for row in rows if row["busy_pct"] is None or row["busy_pct"] >= _BUSY_PCT]
    if not busy:
        return None
    causes_of_samples = [set(row["held_back"].split(",")) - {""} for row in busy if row["held_back"] is not None]
    causes = {
        c: sum(c in one for one in causes_of_samples) / len(causes_of_samples)
        for c in CAUSES
        if any(c in one for one in causes_of_samples)
    }
    return ClockState(
        n=len(busy),
        mhz=_median(busy, "clock_mhz"),
        watts=_median(busy, "power_w"),
        celsius=max((row["temperature_c"] for row in busy if row["temperature_c"] is not None), default=None),
        causes=causes,
    )


def clock_state_of(workload: Workload) -> ClockState | None:
    """The state during the timing run of a workload, or during all its runs if there was no separate timing run."""
    if not workload.has("clocks"):
        return None
    names = list(COLUMNS)
    sample_rows = workload.rows(f"SELECT {', '.join(names)} FROM {workload.relation('clocks')}")
    rows = [dict(zip(names, row, strict=True)) for row in sample_rows]
    # If there are several devices, the one that was busy most often is used.
    devices: dict[Any, list[dict[str, Any]]] = {}
    for row in [r for r in rows if r["step"] == FIRST_STEP] or rows:
        devices.setdefault(row["device_uuid"], []).append(row)
    states = [state for one in devices.values() if (state := summary(one))]
    return max(states, key=lambda state: state.n, default=None)


def clock_difference_notes(before: Workload, after: Workload, ratio: float | None) -> list[Note]:
    """A sentence about the clocks of two workloads and their ratio of times; empty if the clocks were equal.

    Time is cycles divided by clock, so with equal cycles the ratio of times is that of 1 / clock; the rest is the ratio
    of the cycles. This is valid for parts that depend on the core clock, unlike device memory.
    """
    first, second = clock_state_of(before), clock_state_of(after)
    if first is None or second is None or not first.mhz or not second.mhz:
        return []
    if abs(second.mhz / first.mhz - 1) < _LEAST_CLOCK_CHANGE and first.notable_causes == second.notable_causes:
        return []
    sides = (("baseline", first), ("candidate", second))
    causes = [f"{name} limited by {state.causes_text}" for name, state in sides if state.causes_text]
    in_brackets = f" ({'; '.join(causes)})" if causes else ""
    text = f"According to the sensors, the clock was {first.mhz:.0f} MHz, then {second.mhz:.0f} MHz{in_brackets}."
    if ratio:
        by_clock = first.mhz / second.mhz
        text += (
            f" Of the ratio of times {ratio:.3f}, the clock explains {by_clock:.3f} if the kernel depends "
            f"on it; {ratio / by_clock:.3f} remains."
        )
    return [Note("clocks_differ", text)]


def held_back_notes(rows: Sequence[Mapping[str, Any]]) -> list[Note]:
    """The warning for a workload whose clocks were reduced."""
    state = summary([row for row in rows if row["step"] == FIRST_STEP] or rows)
    if state is None or not state.notable_causes:
        return []
    at = f", with a median of {state.mhz:.0f} MHz" if state.mhz else ""
    return [Note("held_back", f"clocks: The clock of the GPU was limited by {state.causes_text}{at}.")]


def save(con: duckdb.DuckDBPyConnection, folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write samples as the table clocks of a draft; nothing is written without samples."""
    if rows:
        insert_rows(con, "sampled_clocks", COLUMNS, rows)
        write_table(con, "FROM sampled_clocks ORDER BY t_ns", folder / "clocks.parquet")


def parse_samples(text: str) -> list[dict[str, Any]]:
    """Parse the lines of JSON that the supervisor of a run writes; an incomplete line is ignored."""
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.keys() == COLUMNS.keys():
            rows.append(row)
    return rows


def _median(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return statistics.median(values) if values else None
