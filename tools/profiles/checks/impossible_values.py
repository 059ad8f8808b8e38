"""Impossible recorded values (below zero, above the whole, all zero or all equal) and the counters they doubt."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ....analysis.base.database import sql_name
from ....analysis.base.text import count_text
from ....analysis.catalogue.targets import find_target
from ....analysis.catalogue.thresholds import threshold
from ....analysis.store.doubts import EVERY_COUNTER, Doubt
from ....analysis.store.store import Manifest
from ..merging.merge import MergedPass
from .contradictions import same_block
from .imported_tables import WAVE, CheckResult, CheckResults, ImportedTables, launched_waves, some_names

_ALWAYS = {  # counters that are never zero
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
RUNNING = ":running_pct"
"""Suffix of the perf counters that state for which share of the time another counter was counted."""
_MOST = 2.0**64
_ROUNDING = 1e-3
"""ncu computes some metrics as a difference, which may be below zero by a small share of the maximum."""
_SHARE = re.compile(r".+\.(?:avg|sum)\.pct_of_peak_sustained_elapsed(?:@.+)?|.+_hit_rate\.pct(?:@.+)?")
_WHOLE_PCT = threshold("figures.recorded_whole_pct")
_INSTRUCTIONS = ("smsp__inst_executed.sum", "sm__inst_executed.sum")
_REPEATED, _KINDS = 5, 3
"""Counters with one value throughout, and kernels of different sizes, from which on this cannot be chance."""


def all_zero(item: MergedPass) -> CheckResults:
    """Report a pass whose counters are all zero, including one that counts in any kernel: the collection failed.

    Launch properties and times that a profiler states without counting are ignored.
    """
    counted = {c for c in item.counters if c in item.bounds and not _is_no_hardware_count(c)}
    if _ALWAYS & counted and all(item.bounds[c] == (0, 0) for c in counted):
        text = f"Every counter of pass {item.name} is zero in every dispatch: its collection failed"
        doubt = Doubt(
            "all_zero", f"pass {item.name} contains only zeros: its collection failed", _stored_names(item, counted)
        )
        yield CheckResult("all_zero", f"{text}, so these zeros are meaningless.", (doubt,))


def _is_no_hardware_count(counter: str) -> bool:
    """Return whether a column of ncu or perf is a launch property, a time or a quality rather than a hardware count."""
    software = ("launch__", "gpu__time_", "profiler__", "derived__", "numa__")
    plain = ("_time", "-clock", RUNNING, ":error_pct", "-faults", "-switches", "-migrations")
    return counter.startswith(software) or counter.endswith(plain) or ".peak_sustained" in counter


def out_of_range(item: MergedPass, manifest: Manifest) -> CheckResults:
    slack = _ROUNDING if manifest.vendor == "nvidia" else 0.0
    bounds = {c: item.bounds.get(c, (0.0, 0.0)) for c in item.counters}
    kept = "the values are kept as read; figures from them are wrong."
    if negative := [c for c, (low, high) in bounds.items() if low < -slack * abs(high)]:
        text = f"{some_names(negative)} of pass {item.name} are below zero, which is impossible for a counter"
        doubt = Doubt("negative", f"{some_names(negative)} are below zero", _stored_names(item, negative))
        yield CheckResult("negative", f"{text}: {kept}", (doubt,))
    if huge := [c for c, (_, high) in bounds.items() if high > _MOST]:
        text = f"{some_names(huge)} of pass {item.name} exceed 2^64, the limit of any counter"
        doubt = Doubt("overflow", f"{some_names(huge)} exceed 2^64", _stored_names(item, huge))
        yield CheckResult("overflow", f"{text}: {kept}", (doubt,))


def _stored_names(item: MergedPass, counters: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a pass's counters as the store calls them."""
    return tuple(sorted(item.counters[c] for c in counters))


def repeated_values(tables: ImportedTables) -> CheckResults:
    """Report counters with one value for all launches of kernels of different sizes: one row was copied to all."""
    if tables.merged.kernels < _KINDS:
        return
    level = [
        name
        for item in tables.merged.passes
        for read, name in item.counters.items()
        if (bounds := item.bounds.get(read)) and 0 < bounds[0] == bounds[1]
    ]
    if len(level) < _REPEATED:
        return
    launches, sizes, *counted = tables.ask(
        "count(*)", f"count(DISTINCT {launched_waves(WAVE)})", *(f"count({sql_name(name)})" for name in level)
    )
    repeated = [name for name, n in zip(level, counted, strict=True) if n == launches]
    if sizes > 1 and len(repeated) >= _REPEATED:
        text = (
            f"{some_names(repeated)} have one value in all {launches:.0f} dispatches, whatever the kernel and its size"
        )
        doubt = Doubt("repeated", "one value in all dispatches, whatever the kernel", tuple(sorted(repeated)))
        yield CheckResult("repeated", f"{text}: they were not counted per launch and are meaningless.", (doubt,))


def dead_counters(tables: ImportedTables) -> CheckResults:
    """Report counters that stay zero although another counter shows that there was something to count."""
    target = find_target(tables.arch)
    for dead in target.dead if target else []:
        if not tables.has(dead.counter, dead.although):
            continue
        counted, other = tables.ask(f"max({sql_name(dead.counter)})", f"max({sql_name(dead.although)})")
        if other and not counted:
            text = (
                f"{dead.counter} is zero in every dispatch although {dead.although} is not: this counter did not count"
            )
            doubt = Doubt("dead_counter", f"{dead.counter} did not count", (dead.counter,))
            yield CheckResult("dead_counter", f"{text}, so figures from it are meaningless.", (doubt,))


def zero_integrals(tables: ImportedTables) -> CheckResults:
    """Report time integrals of level counters that are zero although waves ran."""
    names = [c for c in tables.merged.counters if c.endswith("_ACCUM") and "WAVES" in c]
    for name in names if tables.has("SQ_WAVES") else []:
        launched, integral = tables.ask('sum("SQ_WAVES")', f"sum({sql_name(name)})")
        if launched and not integral:
            text = f"{name} is zero although waves ran: this profiler did not collect it"
            doubt = Doubt("accumulate_zero", f"{name} was not collected", (name,))
            yield CheckResult(
                "accumulate_zero", f"{text}, so occupancy and latencies from it are meaningless.", (doubt,)
            )


def no_instructions(tables: ImportedTables) -> CheckResults:
    """Report launches in which no instruction was counted."""
    name = tables.first_collected(*_INSTRUCTIONS)
    if name is None:
        return
    bad, known = tables.count_where(f"{sql_name(name)} = 0")
    if bad:
        text = f"In {bad:.0f} of {count_text(int(known), 'launch')} {name} is zero, which is impossible"
        seen = tables.kernels_where(f"{sql_name(name)} = 0")
        doubt = Doubt(
            "no_instructions",
            "these launches show no instructions, so they were not counted",
            (EVERY_COUNTER,),
            kernels=seen,
        )
        yield CheckResult("no_instructions", f"{text}: the counters of these launches are meaningless.", (doubt,))


def above_whole(tables: ImportedTables) -> CheckResults:
    """Report shares of a whole that exceed the whole."""
    shares = {c: bounds for c in tables.merged.counters if _SHARE.fullmatch(c) and (bounds := tables.bounds(c))}
    if high := [c for c, bounds in shares.items() if bounds[1] > _WHOLE_PCT]:
        top = max(bounds[1] for bounds in shares.values())
        text = (
            f"{some_names(high)} exceed 100 % (up to {top:.0f} %): numerator and denominator were counted in "
            "different replays, which differ if a kernel is short or its caches are warm; treat them as suspect."
        )
        seen = tables.kernels_where(" OR ".join(f"{sql_name(c)} > {_WHOLE_PCT}" for c in high))
        brief = f"{some_names(high)} exceeds 100 %: counted in different replays, collect them in one pass"
        blocks = same_block(tables.arch, high, tables.merged.counters)
        beside = tuple(c for c in blocks if c not in high)
        beside_text = (
            f"counted with {some_names(high)}, which is impossible: replays differed, collect them in one pass"
        )
        doubts = (
            Doubt("above_100", brief, tuple(high), kernels=seen),
            Doubt("above_100", beside_text, beside, kernels=seen),
        )
        yield CheckResult("above_100", text, doubts if beside else doubts[:1])
