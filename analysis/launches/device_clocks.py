"""Clocks, power and heat of a GPU while programs ran: what was sampled, what held it back, and what that explains."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.notes import Note
from ..catalogue.thresholds import threshold
from ..store.store import write_table
from ..workload import Workload

if TYPE_CHECKING:
    import duckdb

COLUMNS = {
    "t_ns": "BIGINT", "step": "VARCHAR", "device_uuid": "VARCHAR", "clock_mhz": "DOUBLE", "memory_clock_mhz": "DOUBLE",
    "power_w": "DOUBLE", "temperature_c": "DOUBLE", "busy_pct": "DOUBLE", "held_back": "VARCHAR",
}  # fmt: skip
"""Of the table clocks, with their types in DuckDB."""
CAUSES = {
    "power": "its power limit",
    "temperature": "heat",
    "current": "its current limit",
    "hardware": "a slowdown that the hardware asked for",
    "limit": "a clock that was set",
}
"""What can hold a clock below its maximum, in the words of an answer. ``held_back`` joins them by a comma."""
FAULTS = frozenset({"temperature", "current", "hardware"})
"""Those that tell of the cooling or the supply. At its power limit a card works as it is meant to at full load."""
FIRST_STEP = "timing"
"""The run without counters, whose times are the workload's."""
_BUSY_PCT = threshold("clocks.busy_pct")
_NOTABLE_SHARE = threshold("clocks.notable_cause")
_LEAST_CLOCK_CHANGE = threshold("clocks.least_change")


@dataclass(frozen=True)
class ClockState:
    """What a device did over some samples: median clock in MHz, median power in W, highest temperature in °C.

    ``causes`` has for each cause the share of the samples (0 to 1) in which it held the clock back.
    """

    n: int
    mhz: float | None
    watts: float | None
    celsius: float | None
    causes: Mapping[str, float]

    @property
    def notable_causes(self) -> list[str]:
        """The causes that matter, the longest first."""
        return sorted((c for c, share in self.causes.items() if share >= _NOTABLE_SHARE), key=lambda c: -self.causes[c])

    @property
    def causes_text(self) -> str:
        """What held it back in words, or an empty string."""
        return " and ".join(f"{CAUSES[c]} in {100 * self.causes[c]:.0f} % of the samples" for c in self.notable_causes)


@dataclass(frozen=True)
class Split:
    """A ratio of times (candidate / baseline) as the product of what the clock explains and the rest."""

    clock: float
    rest: float


def summary(rows: Sequence[Mapping[str, Any]]) -> ClockState | None:
    """Samples (rows of the table clocks) as one state. Those of an idle device do not count; None without any left."""
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
    """The state while the times of a workload were taken; of all its runs where there was none for times alone."""
    if not workload.has("clocks"):
        return None
    names = list(COLUMNS)
    sample_rows = workload.rows(f"SELECT {', '.join(names)} FROM {workload.relation('clocks')}")
    rows = [dict(zip(names, row, strict=True)) for row in sample_rows]
    # A workload of several devices: the one that was busy most often.
    devices: dict[Any, list[dict[str, Any]]] = {}
    for row in [r for r in rows if r["step"] == FIRST_STEP] or rows:
        devices.setdefault(row["device_uuid"], []).append(row)
    states = [state for one in devices.values() if (state := summary(one))]
    return max(states, key=lambda state: state.n, default=None)


def split(before: ClockState, after: ClockState, ratio: float) -> Split | None:
    """The part of a ratio of times (candidate / baseline) that the clocks explain.

    Time is cycles over clock, so at equal cycles times are as 1 / clock; the rest is the ratio of the cycles. It holds
    as far as a kernel follows the core clock, which device memory does not. None where a clock is not known.
    """
    if not before.mhz or not after.mhz:
        return None
    factor = before.mhz / after.mhz
    return Split(factor, ratio / factor)


def clock_difference_notes(before: Workload, after: Workload, ratio: float | None) -> list[Note]:
    """What two workloads' clocks say about a ratio of their times; nothing where they ran alike."""
    first, second = clock_state_of(before), clock_state_of(after)
    if first is None or second is None or not first.mhz or not second.mhz:
        return []
    if abs(second.mhz / first.mhz - 1) < _LEAST_CLOCK_CHANGE and first.notable_causes == second.notable_causes:
        return []
    sides = (("baseline", first), ("candidate", second))
    causes = [f"{name} held back by {state.causes_text}" for name, state in sides if state.causes_text]
    in_brackets = f" ({'; '.join(causes)})" if causes else ""
    text = f"By the sensors the clock was {first.mhz:.0f} MHz, then {second.mhz:.0f} MHz{in_brackets}."
    parts = split(first, second, ratio) if ratio else None
    if parts:
        text += (
            f" Of the ratio of times {ratio:.3f} the clock explains {parts.clock:.3f}, as far as the kernel follows "
            f"it; {parts.rest:.3f} is left."
        )
    return [Note("clocks_differ", text)]


def held_back_notes(rows: Sequence[Mapping[str, Any]]) -> list[Note]:
    """What is to be kept with a workload whose runs were held back."""
    state = summary([row for row in rows if row["step"] == FIRST_STEP] or rows)
    if state is None or not state.notable_causes:
        return []
    at = f", at {state.mhz:.0f} MHz in the middle" if state.mhz else ""
    return [Note("held_back", f"clocks: The GPU was held back by {state.causes_text}{at}.")]


def save(con: duckdb.DuckDBPyConnection, folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write samples as the table clocks of a draft; nothing where there are none."""
    if not rows:
        return
    typed = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    con.execute(f"CREATE TEMP TABLE sampled_clocks ({typed})")
    con.executemany(
        f"INSERT INTO sampled_clocks VALUES ({', '.join('?' for _ in COLUMNS)})",
        [[row[name] for name in COLUMNS] for row in rows],
    )
    write_table(con, "FROM sampled_clocks ORDER BY t_ns", folder / "clocks.parquet")


def parse_samples(text: str) -> list[dict[str, Any]]:
    """Rows out of lines of JSON, as the supervisor of a run leaves them; a line that was cut off is passed over."""
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
