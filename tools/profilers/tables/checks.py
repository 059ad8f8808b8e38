"""Plausibility of an imported workload: faults of collection that make figures wrong, each a named warning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.catalogue.targets import described
from ....analysis.database import sql_name, sql_path
from ....analysis.notes import Note
from ....analysis.store import Manifest
from .merge import Merged, Pass

if TYPE_CHECKING:
    import duckdb

_ALWAYS = {  # counters that count in any kernel
    "GRBM_COUNT", "GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_BUSY_CYCLES", "SQ_CYCLES", "SQ_WAVE_CYCLES", "Wavefronts",
    "cycles", "instructions", "cpu-cycles", "ref-cycles",
    *(
        f"{unit}__{count}.{roll}"
        for unit, counts in {
            "sm": ("cycles_elapsed", "cycles_active", "inst_executed"),
            "smsp": ("cycles_elapsed", "cycles_active", "inst_executed", "warps_launched"),
            "gpc": ("cycles_elapsed",),
        }.items()
        for count in counts
        for roll in ("avg", "max", "sum")
    ),
}  # fmt: skip
_SPREAD, _SPREAD_PCT = 0.10, 5
_MOST = 2.0**64
_ROUNDING = 1e-3
"""ncu computes some metrics as a difference, which may fall short of zero by a little of the greatest value."""
_CLOCK_TOLERANCE = 1.05
_ABSURD_CLOCK = 3
_PLAUSIBLE_MHZ = 10_000
_WAVE, _WARP = 64, 32
_RUNNING = ":running_pct"
_SHARE = re.compile(r".+\.(?:avg|sum)\.pct_of_peak_sustained_elapsed(?:@.+)?|.+_hit_rate\.pct(?:@.+)?")
_WHOLE_PCT = 100.5
_CYCLES = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.avg")
_INSTRUCTIONS = ("smsp__inst_executed.sum", "sm__inst_executed.sum")
_LISTED = 6


class _Tables:
    """Counters (c) joined with dispatches (d), as written."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> None:
        self.con, self.facts, self.merged = con, manifest.facts, merged
        counters, dispatches = (sql_path(folder / f"{name}.parquet") for name in ("counters", "dispatches"))
        self.relation = (
            f"read_parquet({counters}, hive_partitioning = false) c "
            f"JOIN read_parquet({dispatches}, hive_partitioning = false) d USING (dispatch_id)"
        )

    def ask(self, *picks: str) -> list[float]:
        """One row of numbers; NULL counts as 0."""
        row = self.con.execute(f"SELECT {', '.join(picks)} FROM {self.relation}").fetchone() or ()
        return [float(v or 0) for v in row]

    def wrong(self, condition: str) -> tuple[float, float]:
        """In how many dispatches a condition holds, and in how many it can be judged."""
        holds, known = self.ask(f"count(*) FILTER ({condition})", f"count(*) FILTER (({condition}) IS NOT NULL)")
        return holds, known

    def above(self, rate: str, limit: float) -> tuple[float, float, float]:
        """In how many dispatches a rate is above a limit, in how many it is known, and the highest."""
        high, known, highest = self.ask(f"count(*) FILTER ({rate} > {limit!r})", f"count({rate})", f"max({rate})")
        return high, known, highest

    def has(self, *counters: str) -> bool:
        """Whether all of them were collected."""
        return set(counters) <= set(self.merged.counters)

    def first(self, *counters: str) -> str | None:
        """The first of them that was collected."""
        return next((c for c in counters if self.has(c)), None)

    def bounds(self, counter: str) -> tuple[float, float] | None:
        """Least and greatest value of a counter in the pass that holds it under this name; None without any value."""
        for item in self.merged.passes:
            for read, name in item.counters.items():
                if name == counter:
                    return item.bounds.get(read)
        return None


def doubts(con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> list[Note]:
    """What looks wrong in the tables written to ``folder``; each sentence starts with the name of its check."""
    checks = [check for p in merged.passes for check in (partial(_all_zero, p), partial(_out_of_range, p, manifest))]
    if manifest.vendor == "amd":
        checks.append(partial(_known_defects, manifest))
    if merged.dispatches and merged.counters:
        tables = _Tables(con, folder, manifest, merged)
        checks += [partial(check, tables) for check in (*_CHECKS.get(manifest.vendor or "", ()), _replay_spread)]
    return [Note(code, f"{code}: {text}") for check in checks for code, text in check()]


_Doubts = Iterator[tuple[str, str]]
"""Name of a check, and a sentence on what it found."""


def _all_zero(item: Pass) -> _Doubts:
    """Every counter of a pass zero in every dispatch, also one that counts in any kernel: the collection failed.

    What a profiler states about launches and times without counting is not looked at.
    """
    counted = {c for c in item.counters if c in item.bounds and not _stated(c)}
    if _ALWAYS & counted and all(item.bounds[c] == (0, 0) for c in counted):
        yield (
            "all_zero",
            f"Every counter of pass {item.name} is zero in every dispatch: "
            "its collection failed, so these zeros mean nothing.",
        )


def _stated(counter: str) -> bool:
    """Whether a column of ncu or perf is a property of the launch, a time or a quality, and no hardware count."""
    software = ("launch__", "gpu__time_", "profiler__", "derived__", "numa__")
    plain = ("_time", "-clock", _RUNNING, ":error_pct", "-faults", "-switches", "-migrations")
    return counter.startswith(software) or counter.endswith(plain) or ".peak_sustained" in counter


def _out_of_range(item: Pass, manifest: Manifest) -> _Doubts:
    slack = _ROUNDING if manifest.vendor == "nvidia" else 0.0
    bounds = {c: item.bounds.get(c, (0.0, 0.0)) for c in item.counters}
    kept = "the values are kept as read, figures from them are wrong."
    if negative := [c for c, (low, high) in bounds.items() if low < -slack * abs(high)]:
        yield "negative", f"{_some(negative)} of pass {item.name} are below zero, which no counter can be: {kept}"
    if huge := [c for c, (_, high) in bounds.items() if high > _MOST]:
        yield "overflow", f"{_some(huge)} of pass {item.name} exceed 2^64, which no counter can hold: {kept}"


def _replay_spread(tables: _Tables) -> _Doubts:
    """How far the duration of one dispatch differs between replays."""
    times = ["c.duration_ns", *(f"c.{sql_name(f'duration_ns@{p.name}')}" for p in tables.merged.passes[1:])]
    if len(times) < 2:
        return
    all_times = ", ".join(times)
    (spread,) = tables.ask(f"median((greatest({all_times}) - least({all_times})) / c.duration_ns)")
    if spread > _SPREAD:
        yield (
            "replay_spread",
            f"The duration of a dispatch differs between the {len(times)} replays "
            f"by {100 * spread:.0f} % in the median: a ratio of figures of two replays is as uncertain.",
        )


def _known_defects(manifest: Manifest) -> _Doubts:
    """Versions of AMD's tools that are known to write wrong values."""
    release = tuple(int(n) for n in re.findall(r"\d+", (manifest.tool_version or "").split("-")[0])[:3])
    target = described(manifest.arch)
    for defect in target.defect if target else []:
        if defect.concerns(release):
            yield defect.code, defect.text


def _waves(tables: _Tables) -> _Doubts:
    """SQ_WAVES against the launch: whole work-groups of whole waves."""
    if not tables.has("SQ_WAVES"):
        return
    wave = int(tables.facts.get("wave_size", _WAVE))
    bad, known = tables.wrong(f'abs("SQ_WAVES" - {_expected(wave)}) > 0.5')
    if bad:
        yield (
            "waves_vs_grid",
            f"In {bad:.0f} of {known:.0f} dispatches SQ_WAVES is not the number of waves "
            f"launched (work-groups x ceil(work-group / {wave})): counters and dispatches may not belong together.",
        )


def _warps(tables: _Tables) -> _Doubts:
    """Warps launched against the launch: whole blocks of whole warps."""
    name = tables.first("smsp__warps_launched.sum", "sm__warps_launched.sum")
    if name is None:
        return
    bad, known = tables.wrong(f"abs({sql_name(name)} - {_expected(_WARP)}) > 0.5")
    if bad:
        yield (
            "waves_vs_grid",
            f"In {bad:.0f} of {known:.0f} launches {name} is not the number of warps of the "
            f"grid (blocks x ceil(block / {_WARP})): another program ran on the GPU, or the kernel launched others.",
        )


def _expected(wave: int) -> str:
    """SQL for the waves of a launch."""
    return f"ceil(d.grid / nullif(d.workgroup_size, 0)) * ceil(d.workgroup_size / {wave})"


def _amd_clock(tables: _Tables) -> _Doubts:
    """Cycles per time against the maximum clock."""
    clock = tables.facts.get("max_sclk")
    if clock is None or not tables.has("GRBM_GUI_ACTIVE"):
        return
    rate = f'1000 * "GRBM_GUI_ACTIVE" / {tables.facts.get("num_xcd", 1)!r} / c.duration_ns'
    bad, known, highest = tables.above(rate, clock * _CLOCK_TOLERANCE)
    if bad:
        cause = (
            "these times are not of the same run, or wrong: do not trust rates"
            if highest > _ABSURD_CLOCK * clock
            else "its cycles include the start and end of short kernels, so percentages per cycle are too low"
        )
        yield (
            "clock",
            f"In {bad:.0f} of {known:.0f} dispatches GRBM_GUI_ACTIVE means more than the maximum clock of "
            f"{clock:.0f} MHz (up to {highest:.0f} MHz): {cause}.",
        )


def _nvidia_clock(tables: _Tables) -> _Doubts:
    """Cycles per time against the maximum clock."""
    clock, name = tables.facts.get("max_sclk"), tables.first(*_CYCLES)
    if clock is None or name is None:
        return
    bad, known, highest = tables.above(f"1000 * {sql_name(name)} / c.duration_ns", clock * _CLOCK_TOLERANCE)
    if bad:
        yield (
            "clock",
            f"In {bad:.0f} of {known:.0f} launches {name} means more than the maximum clock of "
            f"{clock:.0f} MHz (up to {highest:.0f} MHz): cycles and time come from replays that took "
            "different times, so rates of short kernels are uncertain.",
        )


def _cpu_clock(tables: _Tables) -> _Doubts:
    """Cycles per time on the processor against any clock that exists."""
    cycles, time = tables.first("cycles", "cpu-cycles"), tables.first("task-clock", "cpu-clock")
    if cycles is None or time is None:
        return
    bad, known, highest = tables.above(f"1000 * {sql_name(cycles)} / nullif({sql_name(time)}, 0)", _PLAUSIBLE_MHZ)
    if bad:
        yield (
            "clock",
            f"In {bad:.0f} of {known:.0f} runs cycles per time on the processor mean {highest:.0f} MHz, which "
            "no processor runs at: the two were not counted over the same tasks or time.",
        )


def _accumulated(tables: _Tables) -> _Doubts:
    """Time integrals of level counters that are zero although waves ran."""
    names = [c for c in tables.merged.counters if c.endswith("_ACCUM") and "WAVES" in c]
    for name in names if tables.has("SQ_WAVES") else []:
        launched, integral = tables.ask('sum("SQ_WAVES")', f"sum({sql_name(name)})")
        if launched and not integral:
            yield (
                "accumulate_zero",
                f"{name} is zero although waves ran: this profiler did not collect it, "
                "so occupancy and latencies from it mean nothing.",
            )


def _no_instructions(tables: _Tables) -> _Doubts:
    """Launches in which no instruction was counted."""
    name = tables.first(*_INSTRUCTIONS)
    if name is None:
        return
    bad, known = tables.wrong(f"{sql_name(name)} = 0")
    if bad:
        yield (
            "no_instructions",
            f"In {bad:.0f} of {known:.0f} launches {name} is zero, which no kernel can be: "
            "the counters of these launches mean nothing.",
        )


def _above_whole(tables: _Tables) -> _Doubts:
    """Shares of a whole above the whole."""
    shares = {c: bounds for c in tables.merged.counters if _SHARE.fullmatch(c) and (bounds := tables.bounds(c))}
    if high := [c for c, bounds in shares.items() if bounds[1] > _WHOLE_PCT]:
        top = max(bounds[1] for bounds in shares.values())
        yield (
            "above_100",
            f"{_some(high)} exceed 100 % (up to {top:.0f} %): numerator and denominator were counted in "
            "different replays, which differ where a kernel is short or its caches are warm; take them as suspect.",
        )


def _ncu_replays(tables: _Tables) -> _Doubts:
    """How far the duration of one launch differs between the replays of ncu."""
    low, high = "gpu__time_duration.min", "gpu__time_duration.max"
    if not tables.has(low, high):
        return
    (spread,) = tables.ask(f'median(("{high}" - "{low}") / nullif("{low}", 0))')
    if spread > _SPREAD:
        yield (
            "replay_spread",
            f"Longest and shortest duration of a launch differ by {100 * spread:.0f} % in the median: "
            "a ratio of figures of two replays is as uncertain.",
        )


def _multiplexed(tables: _Tables) -> _Doubts:
    """Events that shared a hardware counter, so that their counts are estimates."""
    shared = [c for c in tables.merged.counters if c.endswith(_RUNNING)]
    if not shared:
        return
    (least,) = tables.ask(f"least({', '.join(f'min({sql_name(c)})' for c in shared)})")
    yield (
        "multiplexed",
        f"{_some([c.removesuffix(_RUNNING) for c in shared])} were counted only part of the time "
        f"(down to {least:.0f} %) and scaled up: ratios of them are estimates; ask for fewer events in one run.",
    )


def _run_spread(tables: _Tables) -> _Doubts:
    """How uncertain the mean of repeated runs is."""
    name = "duration_time:error_pct"
    if not tables.has(name):
        return
    (error,) = tables.ask(f"max({sql_name(name)})")
    if error > _SPREAD_PCT:
        yield (
            "run_spread",
            f"The elapsed time of repeated runs is uncertain by {error:.0f} % (standard error): "
            "smaller differences between two such means tell nothing.",
        )


_CHECKS = {  # vendor -> checks of its tables
    "amd": (_waves, _amd_clock, _accumulated),
    "nvidia": (_warps, _no_instructions, _nvidia_clock, _above_whole, _ncu_replays),
    "cpu": (_multiplexed, _cpu_clock, _run_spread),
}


def _some(counters: list[str]) -> str:
    """Some of many names."""
    more = f" and {len(counters) - _LISTED} more" if len(counters) > _LISTED else ""
    return ", ".join(counters[:_LISTED]) + more
