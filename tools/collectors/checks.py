"""Plausibility of an imported workload: faults of collection that make figures wrong, each a named warning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.store import Manifest, sql_name, sql_path
from .keys import Pass
from .merge import Merged

if TYPE_CHECKING:
    import duckdb

_CLOCK_TOLERANCE = 1.05
_ABSURD = 3
_SPREAD = 0.10
_MOST = 2.0**64
_WAVE = 64
_ALWAYS = {"GRBM_COUNT", "GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_BUSY_CYCLES", "SQ_CYCLES", "SQ_WAVE_CYCLES", "Wavefronts"}


def doubts(con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> list[str]:
    """What looks wrong in the tables written to ``folder``; each sentence starts with the name of its check."""
    found = [text for item in merged.passes for text in (*_all_zero(item), *_out_of_range(item))]
    found += _known_defects(manifest)
    if merged.dispatches and merged.counters:
        tables = _Tables(con, folder, manifest, merged)
        for check in (_waves, _clock, _accumulated, _spread):
            found += check(tables)
    return found


class _Tables:
    """The written tables, as the checks query them."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> None:
        self.con, self.manifest, self.merged = con, manifest, merged
        counters, dispatches = (sql_path(folder / f"{name}.parquet") for name in ("counters", "dispatches"))
        self.relation = (
            f"read_parquet({counters}, hive_partitioning = false) c "
            f"JOIN read_parquet({dispatches}, hive_partitioning = false) d USING (dispatch_id)"
        )

    def ask(self, picks: str) -> list[float]:
        """One row of numbers; NULL counts as 0."""
        row = self.con.execute(f"SELECT {picks} FROM {self.relation}").fetchone() or ()
        return [float(v or 0) for v in row]

    def has(self, counter: str) -> bool:
        return counter in self.merged.counters


def _all_zero(item: Pass) -> Iterator[str]:
    """Every counter of a pass zero in every dispatch, also one that counts in any kernel: the collection failed."""
    bounds = [item.staged.bounds[c] for c in item.counters if c in item.staged.bounds]
    if all(b == (0, 0) for b in bounds) and _ALWAYS & item.counters.keys() & item.staged.bounds.keys():
        yield (
            f"all_zero: Every counter of pass {item.staged.name} is zero in every dispatch: "
            "its collection failed, so these zeros mean nothing."
        )


def _out_of_range(item: Pass) -> Iterator[str]:
    negative = [c for c in item.counters if item.staged.bounds.get(c, (0, 0))[0] < 0]
    if negative:
        yield (
            f"negative: {_names(negative)} of pass {item.staged.name} are below zero, which no counter can be: "
            "the values are kept as read, figures from them are wrong."
        )
    huge = [c for c in item.counters if item.staged.bounds.get(c, (0, 0))[1] > _MOST]
    if huge:
        yield (
            f"overflow: {_names(huge)} of pass {item.staged.name} exceed 2^64, which no counter can hold: "
            "the values are kept as read, figures from them are wrong."
        )


def _waves(tables: _Tables) -> Iterator[str]:
    """SQ_WAVES against the launch: whole work-groups of whole waves."""
    if not tables.has("SQ_WAVES"):
        return
    wave = int(tables.manifest.facts.get("wave_size", _WAVE))
    groups = "ceil(d.grid / nullif(d.workgroup_size, 0))"
    wrong = f'abs("SQ_WAVES" - {groups} * ceil(d.workgroup_size / {wave})) > 0.5'
    bad, known = tables.ask(f"count(*) FILTER ({wrong}), count(*) FILTER ({wrong} IS NOT NULL)")
    if bad:
        yield (
            f"waves_vs_grid: In {bad:.0f} of {known:.0f} dispatches SQ_WAVES is not the number of waves "
            f"launched (work-groups x ceil(work-group / {wave})): counters and dispatches may not belong together."
        )


def _clock(tables: _Tables) -> Iterator[str]:
    """Cycles per time against the maximum clock."""
    clock = tables.manifest.facts.get("max_sclk")
    if clock is None or not tables.has("GRBM_GUI_ACTIVE"):
        return
    xcds = tables.manifest.facts.get("num_xcd", 1)
    rate = f'1000 * "GRBM_GUI_ACTIVE" / {xcds!r} / c.duration_ns'
    above = f"{rate} > {clock * _CLOCK_TOLERANCE!r}"
    bad, known, highest = tables.ask(f"count(*) FILTER ({above}), count({rate}), max({rate})")
    if bad:
        cause = (
            "these times are not of the same run, or wrong: do not trust rates"
            if highest > _ABSURD * clock
            else "its cycles include the start and end of short kernels, so percentages per cycle are too low"
        )
        yield (
            f"clock: In {bad:.0f} of {known:.0f} dispatches GRBM_GUI_ACTIVE means more than the maximum clock of "
            f"{clock:.0f} MHz (up to {highest:.0f} MHz): {cause}."
        )


def _accumulated(tables: _Tables) -> Iterator[str]:
    """Time integrals of level counters that are zero although waves ran."""
    names = [c for c in tables.merged.counters if c.endswith("_ACCUM") and "WAVES" in c]
    for name in names if tables.has("SQ_WAVES") else []:
        waves, integral = tables.ask(f'sum("SQ_WAVES"), sum({sql_name(name)})')
        if waves and not integral:
            yield (
                f"accumulate_zero: {name} is zero although waves ran: this profiler did not collect it, "
                "so occupancy and latencies from it mean nothing."
            )


def _spread(tables: _Tables) -> Iterator[str]:
    """How far the duration of one dispatch differs between replays."""
    times = ["c.duration_ns", *(f"c.{sql_name(f'duration_ns@{p.staged.name}')}" for p in tables.merged.passes[1:])]
    if len(times) < 2:
        return
    listed = ", ".join(times)
    (spread,) = tables.ask(f"median((greatest({listed}) - least({listed})) / c.duration_ns)")
    if spread > _SPREAD:
        yield (
            f"replay_spread: The duration of a dispatch differs between the {len(times)} replays "
            f"by {100 * spread:.0f} % in the median: a ratio of figures of two replays is as uncertain."
        )


def _known_defects(manifest: Manifest) -> Iterator[str]:
    """Versions of AMD's tools that are known to write wrong values."""
    release = tuple(int(n) for n in re.findall(r"\d+", (manifest.tool_version or "").split("-")[0])[:3])
    if manifest.arch == "gfx942" and (6, 3, 0) <= release < (6, 4, 2):
        yield (
            "gfx942_timestamps: ROCm 6.3.0 to 6.4.1 wrote wrong GPU timestamps on MI300: "
            "durations and rates may be wrong."
        )
    if manifest.arch == "gfx950" and (not release or release < (7, 1)):
        yield (
            "gfx950_registers: Profilers up to ROCm 7.0 report half of the vector registers on gfx950 and none "
            "of the accumulation registers: occupancy computed from them is too high."
        )


def _names(counters: list[str]) -> str:
    return ", ".join(counters[:6]) + (f" and {len(counters) - 6} more" if len(counters) > 6 else "")
