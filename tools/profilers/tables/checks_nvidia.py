"""What looks wrong in profiles of NVIDIA GPUs: warps, instructions, clocks, shares of a peak, replays."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .checked import CLOCK_TOLERANCE, Tables, listed

ALWAYS = {
    f"{unit}__{count}.{roll}"
    for unit, counts in {
        "sm": ("cycles_elapsed", "cycles_active", "inst_executed"),
        "smsp": ("cycles_elapsed", "cycles_active", "inst_executed", "warps_launched"),
        "gpc": ("cycles_elapsed",),
    }.items()
    for count in counts
    for roll in ("avg", "max", "sum")
}
"""Counters that count in any kernel."""
_WARP = 32
_SHARE = re.compile(r".+\.(?:avg|sum)\.pct_of_peak_sustained_elapsed(?:@.+)?|.+_hit_rate\.pct(?:@.+)?")
_WHOLE = 100.5
_SPREAD = 0.10
_CYCLES = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.avg")
_INSTRUCTIONS = ("smsp__inst_executed.sum", "sm__inst_executed.sum")


def warps(tables: Tables) -> Iterator[str]:
    """Warps launched against the launch: whole blocks of whole warps."""
    name = tables.first("smsp__warps_launched.sum", "sm__warps_launched.sum")
    if name is None:
        return
    expected = f"ceil(d.grid / nullif(d.workgroup_size, 0)) * ceil(d.workgroup_size / {_WARP})"
    wrong = f"abs({name} - {expected}) > 0.5"
    bad, known = tables.ask(f"count(*) FILTER ({wrong}), count(*) FILTER ({wrong} IS NOT NULL)")
    if bad:
        yield (
            f"waves_vs_grid: In {bad:.0f} of {known:.0f} launches {_plain(name)} is not the number of warps of the "
            f"grid (blocks x ceil(block / {_WARP})): another program ran on the GPU, or the kernel launched others."
        )


def instructions(tables: Tables) -> Iterator[str]:
    """Launches in which no instruction was counted."""
    name = tables.first(*_INSTRUCTIONS)
    if name is None:
        return
    bad, known = tables.ask(f"count(*) FILTER ({name} = 0), count({name})")
    if bad:
        yield (
            f"no_instructions: In {bad:.0f} of {known:.0f} launches {_plain(name)} is zero, which no kernel can be: "
            "the counters of these launches mean nothing."
        )


def clock(tables: Tables) -> Iterator[str]:
    """Cycles per time against the maximum clock."""
    highest_clock, name = tables.manifest.facts.get("max_sclk"), tables.first(*_CYCLES)
    if highest_clock is None or name is None:
        return
    rate = f"1000 * {name} / c.duration_ns"
    above = f"{rate} > {highest_clock * CLOCK_TOLERANCE!r}"
    bad, known, highest = tables.ask(f"count(*) FILTER ({above}), count({rate}), max({rate})")
    if bad:
        yield (
            f"clock: In {bad:.0f} of {known:.0f} launches {_plain(name)} means more than the maximum clock of "
            f"{highest_clock:.0f} MHz (up to {highest:.0f} MHz): cycles and time come from replays that took "
            "different times, so rates of short kernels are uncertain."
        )


def shares(tables: Tables) -> Iterator[str]:
    """Shares of a whole above the whole."""
    found = [(c, tables.bounds(c)) for c in tables.merged.counters if _SHARE.fullmatch(c)]
    high = [c for c, bounds in found if bounds and bounds[1] > _WHOLE]
    if high:
        top = max(bounds[1] for _, bounds in found if bounds)
        yield (
            f"above_100: {listed(high)} exceed 100 % (up to {top:.0f} %): numerator and denominator were counted in "
            "different replays, which differ where a kernel is short or its caches are warm; take them as suspect."
        )


def replays(tables: Tables) -> Iterator[str]:
    """How far the duration of one launch differs between the replays of ncu."""
    low, high = "gpu__time_duration.min", "gpu__time_duration.max"
    if not tables.has(low, high):
        return
    (spread,) = tables.ask(f'median(("{high}" - "{low}") / nullif("{low}", 0))')
    if spread > _SPREAD:
        yield (
            f"replay_spread: Longest and shortest duration of a launch differ by {100 * spread:.0f} % in the median: "
            "a ratio of figures of two replays is as uncertain."
        )


def _plain(name: str) -> str:
    return name.strip('"')


CHECKS = (warps, instructions, clock, shares, replays)
