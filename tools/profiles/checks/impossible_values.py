"""Impossible recorded values and the counters they doubt: negative, all zero, contradictory, or too fast a clock."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ....analysis.base.database import sql_name
from ....analysis.base.text import count_text
from ....analysis.catalogue import metrics as catalog
from ....analysis.catalogue.targets import find_target
from ....analysis.catalogue.thresholds import threshold
from ....analysis.engine.compile import scattered_figures
from ....analysis.engine.evaluation import Figure, FigureRequest, figures
from ....analysis.store.doubts import DURATION, EVERY_COUNTER, Doubt
from ....analysis.store.store import Manifest, Store
from ....analysis.workload import Workload
from ..merging.merge import MergedPass, StoredProfile
from .imported_tables import LISTED, WAVE, CheckResult, CheckResults, ImportedTables, launched_waves, some_names

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
_LARGEST_COUNT = 2.0**64
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
    if huge := [c for c, (_, high) in bounds.items() if high > _LARGEST_COUNT]:
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


class _DraftStore(Store):
    """Store with the tables of a workload that is still being written."""

    def file(self, manifest: Manifest, table: str) -> Path | None:
        path = self.root / f"{table}.parquet"
        return path if path.exists() else None


def contradictions(folder: Path, manifest: Manifest, merged: StoredProfile) -> dict[str, Doubt]:
    """Return metric -> doubt for metrics with an impossible value whose counters are not all from one pass."""
    target = manifest.arch or ""
    if target not in catalog.targets_with_metrics():
        return {}
    own = manifest.model_copy(
        update={"counters": merged.counters, "dispatches": merged.dispatches, "kernels": merged.kernels, "doubts": []}
    )
    bounded = [m.name for m in catalog.metrics(target) if m.per == "dispatch" and m.is_bounded]
    with Workload.open(_DraftStore(folder, read_only=True), own) as workload:
        beyond: dict[str, list[Figure]] = {}
        for figure in figures(workload, bounded, FigureRequest(by_kernel=True, quartiles=False)):
            if figure.status == "impossible":
                beyond.setdefault(figure.name, []).append(figure)
        apart = scattered_figures(workload, {name: of_one[0].reads for name, of_one in beyond.items()})
        passes_known = len(workload.passes) > 1
    joined = {name: of_one for name, of_one in beyond.items() if name in apart or not passes_known}
    return {name: _doubt(target, of_one, merged) for name, of_one in joined.items()}


def _doubt(target: str, beyond: list[Figure], merged: StoredProfile) -> Doubt:
    worst = max(beyond, key=lambda f: abs(f.value or 0.0))
    read = frozenset[str]().union(*(f.reads for f in beyond)) & set(merged.counters) - {DURATION}
    kernels = tuple(dict.fromkeys(f.kernel or "" for f in beyond))
    cannot_be = f"{worst.name} is {worst.value:.4g} {worst.unit}, which is impossible"
    return Doubt(
        "contradiction",
        f"{cannot_be}: its counters are from different replays, collect them in one pass",
        same_block(target, sorted(read), merged.counters),
        kernels=kernels if len(kernels) < merged.kernels else None,
    )


def same_block(target: str | None, counters: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return these counters plus the known ones of the same hardware blocks, since the pass of each is unknown."""
    blocks = (
        {catalog.block(target, c) for c in counters} - {None} if target in catalog.targets_with_metrics() else set()
    )
    return tuple(dict.fromkeys([*counters, *(c for c in known if target and catalog.block(target, c) in blocks)]))


_ONE_CLOCK = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")
"""The same cycles of the same clock, which ncu counts in different replays."""
_UNEVEN_PCT = threshold("replays.uneven_pct")


def uneven_replays(tables: ImportedTables) -> CheckResults:
    """Report launches whose replays took different times, by the cycles of one clock counted in two replays.

    What a kernel does may depend on chance or on the order in which its work-groups run.
    """
    if not tables.has(*_ONE_CLOCK):
        return
    one, other = (f"c.{sql_name(name)}" for name in _ONE_CLOCK)
    apart = f"100 * (greatest({one}, {other}) / nullif(least({one}, {other}), 0) - 1)"
    spread_by_kernel = tables.highest_by_kernel(apart, _UNEVEN_PCT)
    if spread_by_kernel:
        of, most = count_text(tables.merged.kernels, "kernel"), max(spread_by_kernel.values())
        text = (
            f"In {len(spread_by_kernel)} of {of} the replays of one launch differ in duration by up to {most:.0f} % "
            f"({some_names(list(spread_by_kernel))}): their work depends on "
            "chance or scheduling, and figures of different replays do "
            "not belong together"
        )
        fix = "Profile with a fixed seed, or with few metrics in one pass: plan_profile."
        yield CheckResult(
            "uneven_replays",
            f"{text}. {fix}",
            tuple(_uneven_doubt(pct, names) for pct, names in _group_by_spread(spread_by_kernel)),
        )


def _uneven_doubt(pct: float, kernels: tuple[str, ...]) -> Doubt:
    brief = f"replays of this launch differ in duration by {pct:.0f} %"
    return Doubt("uneven_replays", brief, (EVERY_COUNTER,), times=True, kernels=kernels)


def _group_by_spread(spread_by_kernel: Mapping[str, float]) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Group kernels by the spread of their replays in percent: by 1 % if there are few kernels, else by 10 %."""
    step = 1 if len(spread_by_kernel) <= LISTED else 10
    groups: dict[int, list[str]] = {}
    for name, pct in spread_by_kernel.items():
        groups.setdefault(int(pct // step), []).append(name)
    for names in groups.values():
        yield max(spread_by_kernel[name] for name in names), tuple(names)


_FITTED = 6
"""Minimum number of launches for a linear fit."""
_SPAN = 1.5
"""Minimum ratio of the longest to the shortest duration for a linear fit."""
_FIT = 0.5
_CLOCKS = (0.3, 1.1)
"""Plausible clocks of a fit, as shares of the maximum clock: under light load a GPU runs below it."""
_ALIKE = 3.0
_CLOCK_TOLERANCE = threshold("clocks.tolerance")
_ABSURD_CLOCK = threshold("clocks.absurd")
_STANDSTILL = threshold("clocks.standstill")
_PLAUSIBLE_MHZ = 10_000
_CYCLES = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.avg")
_MOST_ADDED = 400_000
"""More cycles than starting and stopping the counters takes: some 30,000 on each XCD, 290,000 under rocprof v2."""

Ask = Callable[..., Sequence[float]]
"""Evaluates SQL aggregates over the launches: one number for each expression, 0 for NULL."""


def added_cycles(ask: Ask, cycles: str, clock_mhz: float) -> tuple[float, str] | None:
    """Return the cycles that collection adds to each launch, and how they were found; None if they are not constant.

    Launches of different durations give both the clock and the added cycles by a linear fit. Otherwise the added cycles
    are those beyond the maximum clock, provided that they are similar in all launches.
    """
    time = "c.duration_ns"
    n, short, long, slope, added, fit = ask(
        f"regr_count({cycles}, {time})", f"min({time})", f"max({time})", f"regr_slope({cycles}, {time})",
        f"regr_intercept({cycles}, {time})", f"regr_r2({cycles}, {time})",
    )  # fmt: skip
    low, high = (share * clock_mhz / 1000 for share in _CLOCKS)
    if n >= _FITTED and long > _SPAN * short and fit >= _FIT and low <= slope <= high and 0 < added <= _MOST_ADDED:
        return added, f"a fit over {count_text(int(n), 'launch')}, which ran at {1000 * slope:.0f} MHz"
    beyond = f"{cycles} - {time} * {clock_mhz / 1000!r}"
    least, middle, most = ask(f"min({beyond})", f"median({beyond})", f"max({beyond})")
    if least > 0 and most <= min(_MOST_ADDED, _ALIKE * least):
        return middle, "the cycles beyond the maximum clock, at least"
    return None


def amd_clock(tables: ImportedTables) -> CheckResults:
    """Compare cycles per time with the maximum clock of an AMD GPU."""
    clock = tables.facts.get("max_sclk")
    if clock is None or not tables.has("GRBM_GUI_ACTIVE"):
        return
    cycles = f'"GRBM_GUI_ACTIVE" / {tables.facts.get("num_xcd", 1)!r}'
    rate, limit = f"1000 * {cycles} / c.duration_ns", clock * _CLOCK_TOLERANCE
    yield from _standstill(tables, "GRBM_GUI_ACTIVE", rate, clock)
    bad, known, highest = tables.count_above(rate, limit)
    if not bad:
        return
    wrong_times = False
    if overhead := added_cycles(tables.ask, cycles, clock):
        added, how = overhead
        cause = (
            f"collecting counters adds about {_two_digits(added)} cycles to each launch ({how}), so percentages of "
            "these cycles are too low, most for the shortest kernels; compute_metrics also gives them by time. "
            "Durations and figures per second are not affected"
        )
        brief = f"contains about {_two_digits(added)} cycles of collection per launch, so a share of it is too low"
    elif highest > _ABSURD_CLOCK * clock:
        cause = "the times are from another run, or wrong: do not trust rates"
        brief, wrong_times = "does not fit the times, which are from another run or wrong", True
    else:
        cause = "its cycles include the start and end of short kernels, so percentages of these cycles are too low"
        brief = "includes the start and end of short kernels, so a share of it is too low"
    text = (
        f"In {bad:.0f} of {count_text(int(known), 'dispatch')} GRBM_GUI_ACTIVE implies more than the maximum clock of "
        f"{clock:.0f} MHz (up to {highest:.0f} MHz): {cause}."
    )
    seen = tables.kernels_where(f"{rate} > {limit!r}")
    doubt = Doubt("clock", f"GRBM_GUI_ACTIVE {brief}", ("GRBM_GUI_ACTIVE",), times=wrong_times, kernels=seen)
    yield CheckResult("clock", text, (doubt,))


def nvidia_clock(tables: ImportedTables) -> CheckResults:
    """Compare cycles per time with the maximum clock of an NVIDIA GPU."""
    clock, name = tables.facts.get("max_sclk"), tables.first_collected(*_CYCLES)
    if clock is None or name is None:
        return
    rate, limit = f"1000 * {sql_name(name)} / c.duration_ns", clock * _CLOCK_TOLERANCE
    yield from _standstill(tables, name, rate, clock)
    bad, known, highest = tables.count_above(rate, limit)
    if bad:
        text = (
            f"In {bad:.0f} of {count_text(int(known), 'launch')} {name} implies more than the maximum clock of "
            f"{clock:.0f} MHz (up to {highest:.0f} MHz): cycles and time come from replays that took "
            "different times, so rates of short kernels are uncertain."
        )
        brief = f"{name} and the time are from replays that took different times"
        seen = tables.kernels_where(f"{rate} > {limit!r}")
        yield CheckResult("clock", text, (Doubt("clock", brief, (name,), times=True, kernels=seen),))


def _standstill(tables: ImportedTables, counter: str, rate: str, clock: float) -> CheckResults:
    """Report launches with far fewer cycles than any GPU clock would give in their time."""
    slow = f"{rate} < {_STANDSTILL * clock!r}"
    bad, known = tables.count_where(slow)
    if bad:
        text = f"In {bad:.0f} of {count_text(int(known), 'launch')} {counter} implies less than "
        text += f"{_STANDSTILL * clock:.0f} MHz"
        brief = f"{counter} implies a clock at which no GPU runs: it or the time is wrong"
        doubt = Doubt("standstill", brief, (counter,), times=True, kernels=tables.kernels_where(slow))
        yield CheckResult("standstill", f"{text}: it or the time is wrong, do not trust rates.", (doubt,))


def cpu_clock(tables: ImportedTables) -> CheckResults:
    """Compare cycles per time on the processor with the highest clock of any processor."""
    cycles, time = tables.first_collected("cycles", "cpu-cycles"), tables.first_collected("task-clock", "cpu-clock")
    if cycles is None or time is None:
        return
    bad, known, highest = tables.count_above(f"1000 * {sql_name(cycles)} / nullif({sql_name(time)}, 0)", _PLAUSIBLE_MHZ)
    if bad:
        text = (
            f"In {bad:.0f} of {count_text(int(known), 'run')} cycles per time on the processor imply {highest:.0f} "
            "MHz, which "
            "no processor reaches: the two were not counted over the same tasks or time."
        )
        brief = f"{cycles} and {time} were not counted over the same tasks or time"
        yield CheckResult("clock", text, (Doubt("clock", brief, (cycles, time)),))


def _two_digits(cycles: float) -> int:
    """Round to two significant digits, since no more are known."""
    return int(round(cycles, 1 - math.floor(math.log10(cycles))))
