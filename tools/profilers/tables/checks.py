"""Plausibility of an imported workload: faults of collection that make figures wrong, each a named warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.database import sql_name
from ....analysis.store import Manifest
from . import checks_amd, checks_cpu, checks_nvidia
from .checked import Tables, listed
from .merge import Merged, Pass

if TYPE_CHECKING:
    import duckdb

_OF_VENDOR = {"amd": checks_amd, "nvidia": checks_nvidia, "cpu": checks_cpu}
_ALWAYS = checks_amd.ALWAYS | checks_nvidia.ALWAYS | checks_cpu.ALWAYS
_SPREAD = 0.10
_MOST = 2.0**64
_ROUNDING = 1e-3
"""ncu computes some metrics as a difference, which may fall short of zero by a little of the greatest value."""


def doubts(con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> list[str]:
    """What looks wrong in the tables written to ``folder``; each sentence starts with the name of its check."""
    found = [text for item in merged.passes for text in (*_all_zero(item), *_out_of_range(item, manifest))]
    if manifest.vendor == "amd":
        found += checks_amd.known_defects(manifest)
    if merged.dispatches and merged.counters:
        tables = Tables(con, folder, manifest, merged)
        vendor = _OF_VENDOR.get(manifest.vendor or "")
        for check in (*(vendor.CHECKS if vendor else ()), _spread):
            found += check(tables)
    return found


def _all_zero(item: Pass) -> Iterator[str]:
    """Every counter of a pass zero in every dispatch, also one that counts in any kernel: the collection failed.

    What a profiler states about launches and times without counting is not looked at.
    """
    counted = {c for c in item.counters if c in item.staged.bounds and not _stated(c)}
    if _ALWAYS & counted and all(item.staged.bounds[c] == (0, 0) for c in counted):
        yield (
            f"all_zero: Every counter of pass {item.staged.name} is zero in every dispatch: "
            "its collection failed, so these zeros mean nothing."
        )


def _stated(counter: str) -> bool:
    """Whether a column of ncu or perf is a property of the launch, a time or a quality, and no hardware count."""
    software = ("launch__", "gpu__time_", "profiler__", "derived__", "numa__")
    plain = ("_time", "-clock", ":running_pct", ":error_pct", "-faults", "-switches", "-migrations")
    return counter.startswith(software) or counter.endswith(plain) or ".peak_sustained" in counter


def _out_of_range(item: Pass, manifest: Manifest) -> Iterator[str]:
    slack = _ROUNDING if manifest.vendor == "nvidia" else 0.0
    bounds = {c: item.staged.bounds.get(c, (0.0, 0.0)) for c in item.counters}
    if negative := [c for c, (low, high) in bounds.items() if low < -slack * abs(high)]:
        yield (
            f"negative: {listed(negative)} of pass {item.staged.name} are below zero, which no counter can be: "
            "the values are kept as read, figures from them are wrong."
        )
    if huge := [c for c, (_, high) in bounds.items() if high > _MOST]:
        yield (
            f"overflow: {listed(huge)} of pass {item.staged.name} exceed 2^64, which no counter can hold: "
            "the values are kept as read, figures from them are wrong."
        )


def _spread(tables: Tables) -> Iterator[str]:
    """How far the duration of one dispatch differs between replays."""
    times = ["c.duration_ns", *(f"c.{sql_name(f'duration_ns@{p.staged.name}')}" for p in tables.merged.passes[1:])]
    if len(times) < 2:
        return
    all_times = ", ".join(times)
    (spread,) = tables.ask(f"median((greatest({all_times}) - least({all_times})) / c.duration_ns)")
    if spread > _SPREAD:
        yield (
            f"replay_spread: The duration of a dispatch differs between the {len(times)} replays "
            f"by {100 * spread:.0f} % in the median: a ratio of figures of two replays is as uncertain."
        )
