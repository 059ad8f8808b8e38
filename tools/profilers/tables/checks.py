"""Plausibility of an imported workload: faults of collection, each a named warning and the counters that it doubts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.catalogue import identities
from ....analysis.catalogue.events import block_of
from ....analysis.catalogue.targets import described
from ....analysis.database import sql_name, sql_path
from ....analysis.doubts import EVERY, Doubt
from ....analysis.notes import Note
from ....analysis.store import Manifest
from .clock import added_cycles
from .contradictions import contradictions, same_block
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
_STANDSTILL = 0.02
"""No GPU runs a kernel at so small a part of its maximum clock."""
_PLAUSIBLE_MHZ = 10_000
_WAVE, _WARP = 64, 32
_RUNNING = ":running_pct"
_SHARE = re.compile(r".+\.(?:avg|sum)\.pct_of_peak_sustained_elapsed(?:@.+)?|.+_hit_rate\.pct(?:@.+)?")
_WHOLE_PCT = 100.5
_CYCLES = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.avg")
_ONE_CLOCK = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")
"""The same cycles of the same clock, counted in different replays of ncu."""
_UNEVEN_PCT = 20
"""Of 653 launches on an H200 647 lie within 13 %, one of 8 ms at 16 %, and five, whose work differs, at 40 to 52 %."""
_INSTRUCTIONS = ("smsp__inst_executed.sum", "sm__inst_executed.sum")
_LISTED = 6
_REPEATED, _KINDS = 5, 3
"""Counters with one value throughout, and kernels of different sizes, that no profile of these has by chance."""
_MOSTLY_PCT = 50
_TOO_FEW = {"xcds_missing": "some launches lack XCDs: sums over them are too low"}
"""Warnings of readers that doubt every counter."""
_NOT_COUNTED = {"all_zero", "no_waves", "repeated"}
"""Checks that say of counters that they mean nothing."""


@dataclass(frozen=True)
class Found:
    """What one check found: a sentence for people, and what it doubts, if any figure is wrong by it."""

    code: str
    text: str
    doubts: tuple[Doubt, ...] = ()

    @property
    def note(self) -> Note:
        """The warning, which starts with the name of its check."""
        return Note(self.code, f"{self.code}: {self.text}")


class _Tables:
    """Counters (c) joined with dispatches (d), as written."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> None:
        self.con, self.facts, self.merged, self.arch = con, manifest.facts, merged, manifest.arch
        counters, dispatches = (sql_path(folder / f"{name}.parquet") for name in ("counters", "dispatches"))
        counted = f"read_parquet({counters}, hive_partitioning = false)"
        for name in manifest.replayed[:1]:
            # Counters of replayed kernels go with the time of their replays.
            counted = f"(SELECT * REPLACE ({sql_name(f'duration_ns@{name}')} AS duration_ns) FROM {counted})"
        self.relation = f"{counted} c JOIN read_parquet({dispatches}, hive_partitioning = false) d USING (dispatch_id)"

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

    def kernels(self, condition: str) -> tuple[str, ...] | None:
        """The kernels with a dispatch in which a condition holds; None where those are all."""
        rows = self.con.execute(
            f"SELECT DISTINCT c.kernel FROM {self.relation} WHERE {condition} ORDER BY ALL"
        ).fetchall()
        return tuple(str(name) for (name,) in rows) if len(rows) < self.merged.kernels else None

    def most(self, figure: str, limit: float) -> dict[str, float]:
        """The kernels in which a figure exceeds a limit, with the highest, which come first."""
        rows = self.con.execute(
            f"SELECT c.kernel, max({figure}) AS most FROM {self.relation} GROUP BY ALL HAVING most > {limit!r} "
            "ORDER BY 2 DESC, 1"
        ).fetchall()
        return {str(name): float(value) for name, value in rows}

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


def faults(con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> list[Found]:
    """What looks wrong in the tables written to ``folder``."""
    checks = [check for p in merged.passes for check in (partial(_all_zero, p), partial(_out_of_range, p, manifest))]
    if manifest.vendor == "amd":
        checks.append(partial(_known_defects, manifest))
    if merged.dispatches and merged.counters:
        tables = _Tables(con, folder, manifest, merged)
        checks += [partial(check, tables) for check in (*_CHECKS.get(manifest.vendor or "", ()), _replay_spread)]
    found = _first_told([one for check in checks for one in check()])
    if merged.dispatches and merged.counters:
        found += _contradictions(folder, manifest, merged, [d for one in found for d in one.doubts])
    return found


def _first_told(found: list[Found]) -> list[Found]:
    """Without the contradictions of counters of which it is told already that they were not counted."""
    void = {c for one in found if one.code in _NOT_COUNTED for d in one.doubts if d.kernels is None for c in d.counters}
    return [one for one in found if one.code != "identity" or all(void.isdisjoint(d.counters) for d in one.doubts)]


def of_readers(warnings: list[Note]) -> list[Doubt]:
    """What the warnings of a reader doubt."""
    return [Doubt(code, text, (EVERY,)) for code, text in _TOO_FEW.items() if any(w.code == code for w in warnings)]


_Faults = Iterator[Found]


def _all_zero(item: Pass) -> _Faults:
    """Every counter of a pass zero in every dispatch, also one that counts in any kernel: the collection failed.

    What a profiler states about launches and times without counting is not looked at.
    """
    counted = {c for c in item.counters if c in item.bounds and not _stated(c)}
    if _ALWAYS & counted and all(item.bounds[c] == (0, 0) for c in counted):
        text = f"Every counter of pass {item.name} is zero in every dispatch: its collection failed"
        doubt = Doubt("all_zero", f"pass {item.name} holds zeros only: its collection failed", _stored(item, counted))
        yield Found("all_zero", f"{text}, so these zeros mean nothing.", (doubt,))


def _stated(counter: str) -> bool:
    """Whether a column of ncu or perf is a property of the launch, a time or a quality, and no hardware count."""
    software = ("launch__", "gpu__time_", "profiler__", "derived__", "numa__")
    plain = ("_time", "-clock", _RUNNING, ":error_pct", "-faults", "-switches", "-migrations")
    return counter.startswith(software) or counter.endswith(plain) or ".peak_sustained" in counter


def _out_of_range(item: Pass, manifest: Manifest) -> _Faults:
    slack = _ROUNDING if manifest.vendor == "nvidia" else 0.0
    bounds = {c: item.bounds.get(c, (0.0, 0.0)) for c in item.counters}
    kept = "the values are kept as read, figures from them are wrong."
    if negative := [c for c, (low, high) in bounds.items() if low < -slack * abs(high)]:
        text = f"{_some(negative)} of pass {item.name} are below zero, which no counter can be"
        doubt = Doubt("negative", f"{_some(negative)} are below zero", _stored(item, negative))
        yield Found("negative", f"{text}: {kept}", (doubt,))
    if huge := [c for c, (_, high) in bounds.items() if high > _MOST]:
        text = f"{_some(huge)} of pass {item.name} exceed 2^64, which no counter can hold"
        doubt = Doubt("overflow", f"{_some(huge)} exceed 2^64", _stored(item, huge))
        yield Found("overflow", f"{text}: {kept}", (doubt,))


def _stored(item: Pass, counters: Iterable[str]) -> tuple[str, ...]:
    """Counters of a pass as the store calls them."""
    return tuple(sorted(item.counters[c] for c in counters))


def _replay_spread(tables: _Tables) -> _Faults:
    """How far the duration of one dispatch differs between replays."""
    times = ["c.duration_ns", *(f"c.{sql_name(f'duration_ns@{p.name}')}" for p in tables.merged.passes[1:])]
    if len(times) < 2:
        return
    all_times = ", ".join(times)
    (spread,) = tables.ask(f"median((greatest({all_times}) - least({all_times})) / c.duration_ns)")
    if spread > _SPREAD:
        differs = f"by {100 * spread:.0f} % in the median"
        text = f"The duration of a dispatch differs between the {len(times)} replays {differs}"
        doubt = Doubt("replay_spread", f"joins replays whose times differ {differs}", across=True)
        yield Found("replay_spread", f"{text}: a ratio of figures of two replays is as uncertain.", (doubt,))


def _known_defects(manifest: Manifest) -> _Faults:
    """Versions of AMD's tools that are known to write wrong values."""
    release = tuple(int(n) for n in re.findall(r"\d+", (manifest.tool_version or "").split("-")[0])[:3])
    target = described(manifest.arch)
    for defect in target.defect if target else []:
        if defect.concerns(release):
            doubt = Doubt(defect.code, defect.text, tuple(defect.counters), defect.times)
            yield Found(defect.code, defect.text, (doubt,) if doubt.counters or doubt.times else ())


def _waves(tables: _Tables) -> _Faults:
    """SQ_WAVES against the launch: whole work-groups of whole waves."""
    if not tables.has("SQ_WAVES"):
        return
    wave = int(tables.facts.get("wave_size", _WAVE))
    wrong = f'abs("SQ_WAVES" - {_expected(wave)}) > 0.5'
    bad, known = tables.wrong(wrong)
    if bad:
        text = (
            f"In {bad:.0f} of {known:.0f} dispatches SQ_WAVES is not the number of waves "
            f"launched (work-groups x ceil(work-group / {wave})): counters and dispatches may not belong together."
        )
        spelt = [c for c in tables.merged.counters if c.partition("@")[0] in ("SQ_WAVES", "SQ_WAVES_sum")]
        yield Found("waves_vs_grid", text, (_not_launched(spelt, tables.kernels(wrong)),))
    none, known = tables.wrong('"SQ_WAVES" = 0')
    if none:
        text = f"In {none:.0f} of {known:.0f} dispatches SQ_WAVES is zero, which no launch can be"
        blind = tuple(c for c in tables.merged.counters if block_of(c.partition("@")[0]) == block_of("SQ_WAVES"))
        seen = tables.kernels('"SQ_WAVES" = 0')
        doubt = Doubt("no_waves", "SQ_WAVES is zero, which no launch can be: SQ did not count", blind, kernels=seen)
        yield Found("no_waves", f"{text}: the counters of SQ in these launches mean nothing.", (doubt,))


def _repeated(tables: _Tables) -> _Faults:
    """Counters that hold one value for every launch of kernels of different sizes: a row was written to all."""
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
        "count(*)", f"count(DISTINCT {_expected(_WAVE)})", *(f"count({sql_name(name)})" for name in level)
    )
    repeated = [name for name, n in zip(level, counted, strict=True) if n == launches]
    if sizes > 1 and len(repeated) >= _REPEATED:
        text = f"{_some(repeated)} have one value in all {launches:.0f} dispatches, whatever the kernel and its size"
        doubt = Doubt("repeated", "one value stands in every dispatch, whatever the kernel", tuple(sorted(repeated)))
        yield Found("repeated", f"{text}: they were not counted for each launch and mean nothing.", (doubt,))


def _warps(tables: _Tables) -> _Faults:
    """Warps launched against the launch: whole blocks of whole warps."""
    name = tables.first("smsp__warps_launched.sum", "sm__warps_launched.sum")
    if name is None:
        return
    wrong = f"abs({sql_name(name)} - {_expected(_WARP)}) > 0.5"
    bad, known = tables.wrong(wrong)
    if bad:
        text = (
            f"In {bad:.0f} of {known:.0f} launches {name} is not the number of warps of the "
            f"grid (blocks x ceil(block / {_WARP})): another program ran on the GPU, or the kernel launched others."
        )
        yield Found("waves_vs_grid", text, (_not_launched([name], tables.kernels(wrong)),))


def _not_launched(counters: Sequence[str], kernels: tuple[str, ...] | None) -> Doubt:
    text = f"{counters[0]} is not the number of waves launched"
    return Doubt("waves_vs_grid", text, tuple(counters), kernels=kernels)


def _expected(wave: int) -> str:
    """SQL for the waves of a launch."""
    return f"ceil(d.grid / nullif(d.workgroup_size, 0)) * ceil(d.workgroup_size / {wave})"


def _amd_clock(tables: _Tables) -> _Faults:
    """Cycles per time against the maximum clock."""
    clock = tables.facts.get("max_sclk")
    if clock is None or not tables.has("GRBM_GUI_ACTIVE"):
        return
    cycles = f'"GRBM_GUI_ACTIVE" / {tables.facts.get("num_xcd", 1)!r}'
    rate, limit = f"1000 * {cycles} / c.duration_ns", clock * _CLOCK_TOLERANCE
    yield from _standing(tables, "GRBM_GUI_ACTIVE", rate, clock)
    bad, known, highest = tables.above(rate, limit)
    if not bad:
        return
    wrong_times = False
    if found := added_cycles(tables.ask, cycles, clock):
        added, how = found
        cause = (
            f"collecting counters adds about {_two_digits(added)} cycles to each launch ({how}), so percentages of "
            "these cycles are too low, most for the shortest kernels; compute_metrics gives them by time beside. "
            "durations and figures per second are not touched"
        )
        brief = f"holds about {_two_digits(added)} cycles of collecting per launch, so a share of it is too low"
    elif highest > _ABSURD_CLOCK * clock:
        cause = "these times are not of the same run, or wrong: do not trust rates"
        brief, wrong_times = "does not fit the times, which are of another run or wrong", True
    else:
        cause = "its cycles include the start and end of short kernels, so percentages per cycle are too low"
        brief = "includes the start and end of short kernels, so a share of it is too low"
    text = (
        f"In {bad:.0f} of {known:.0f} dispatches GRBM_GUI_ACTIVE means more than the maximum clock of "
        f"{clock:.0f} MHz (up to {highest:.0f} MHz): {cause}."
    )
    seen = tables.kernels(f"{rate} > {limit!r}")
    doubt = Doubt("clock", f"GRBM_GUI_ACTIVE {brief}", ("GRBM_GUI_ACTIVE",), times=wrong_times, kernels=seen)
    yield Found("clock", text, (doubt,))


def _nvidia_clock(tables: _Tables) -> _Faults:
    """Cycles per time against the maximum clock."""
    clock, name = tables.facts.get("max_sclk"), tables.first(*_CYCLES)
    if clock is None or name is None:
        return
    rate, limit = f"1000 * {sql_name(name)} / c.duration_ns", clock * _CLOCK_TOLERANCE
    yield from _standing(tables, name, rate, clock)
    bad, known, highest = tables.above(rate, limit)
    if bad:
        text = (
            f"In {bad:.0f} of {known:.0f} launches {name} means more than the maximum clock of "
            f"{clock:.0f} MHz (up to {highest:.0f} MHz): cycles and time come from replays that took "
            "different times, so rates of short kernels are uncertain."
        )
        brief = f"{name} and the time are of replays that took different times"
        seen = tables.kernels(f"{rate} > {limit!r}")
        yield Found("clock", text, (Doubt("clock", brief, (name,), times=True, kernels=seen),))


def _standing(tables: _Tables, counter: str, rate: str, clock: float) -> _Faults:
    """Far fewer cycles than the time holds at any clock that a GPU runs at."""
    slow = f"{rate} < {_STANDSTILL * clock!r}"
    bad, known = tables.wrong(slow)
    if bad:
        text = f"In {bad:.0f} of {known:.0f} launches {counter} means less than {_STANDSTILL * clock:.0f} MHz"
        brief = f"{counter} means a clock at which no GPU runs: it or the time is wrong"
        doubt = Doubt("standstill", brief, (counter,), times=True, kernels=tables.kernels(slow))
        yield Found("standstill", f"{text}: it or the time is wrong, do not trust rates.", (doubt,))


def _cpu_clock(tables: _Tables) -> _Faults:
    """Cycles per time on the processor against any clock that exists."""
    cycles, time = tables.first("cycles", "cpu-cycles"), tables.first("task-clock", "cpu-clock")
    if cycles is None or time is None:
        return
    bad, known, highest = tables.above(f"1000 * {sql_name(cycles)} / nullif({sql_name(time)}, 0)", _PLAUSIBLE_MHZ)
    if bad:
        text = (
            f"In {bad:.0f} of {known:.0f} runs cycles per time on the processor mean {highest:.0f} MHz, which "
            "no processor runs at: the two were not counted over the same tasks or time."
        )
        brief = f"{cycles} and {time} were not counted over the same tasks or time"
        yield Found("clock", text, (Doubt("clock", brief, (cycles, time)),))


def _dead(tables: _Tables) -> _Faults:
    """Counters that stay zero where another says that there was something to count."""
    target = described(tables.arch)
    for dead in target.dead if target else []:
        if not tables.has(dead.counter, dead.although):
            continue
        counted, other = tables.ask(f"max({sql_name(dead.counter)})", f"max({sql_name(dead.although)})")
        if other and not counted:
            text = (
                f"{dead.counter} is zero in every dispatch although {dead.although} is not: this counter did not count"
            )
            doubt = Doubt("dead_counter", f"{dead.counter} did not count", (dead.counter,))
            yield Found("dead_counter", f"{text}, so figures from it mean nothing.", (doubt,))


def _kept(tables: _Tables) -> _Faults:
    """Relations that counters of every launch keep, whatever it does."""
    known = identities.known(tables.arch, tables.facts) if described(tables.arch) and tables.arch else []
    told = [one for one in known if tables.has(*one.counters)]
    counts = tables.ask(*(f"count({c})" for one in told for c in _holds(one.wrong))) if told else []
    for one, bad, of in zip(told, counts[::2], counts[1::2], strict=True):
        if bad:
            names = " and ".join([*one.counters, *(["the time"] if one.times else [])][:2])
            text = f"In {bad:.0f} of {of:.0f} launches {names} contradict each other: {one.text}"
            brief = f"{names} contradict each other ({one.text}): one did not count, or they are of different work"
            doubt = Doubt("identity", brief, tuple(one.counters), one.times, kernels=tables.kernels(one.wrong))
            yield Found("identity", f"{text}. What is made of them is suspect.", (doubt,))


def _holds(condition: str) -> tuple[str, str]:
    """SQL that has a value where a condition holds, and where it can be judged."""
    return f"CASE WHEN {condition} THEN 1 END", f"({condition})"


def _accumulated(tables: _Tables) -> _Faults:
    """Time integrals of level counters that are zero although waves ran."""
    names = [c for c in tables.merged.counters if c.endswith("_ACCUM") and "WAVES" in c]
    for name in names if tables.has("SQ_WAVES") else []:
        launched, integral = tables.ask('sum("SQ_WAVES")', f"sum({sql_name(name)})")
        if launched and not integral:
            text = f"{name} is zero although waves ran: this profiler did not collect it"
            doubt = Doubt("accumulate_zero", f"{name} was not collected", (name,))
            yield Found("accumulate_zero", f"{text}, so occupancy and latencies from it mean nothing.", (doubt,))


def _no_instructions(tables: _Tables) -> _Faults:
    """Launches in which no instruction was counted."""
    name = tables.first(*_INSTRUCTIONS)
    if name is None:
        return
    bad, known = tables.wrong(f"{sql_name(name)} = 0")
    if bad:
        text = f"In {bad:.0f} of {known:.0f} launches {name} is zero, which no kernel can be"
        seen = tables.kernels(f"{sql_name(name)} = 0")
        doubt = Doubt("no_instructions", "launches without an instruction were not counted", (EVERY,), kernels=seen)
        yield Found("no_instructions", f"{text}: the counters of these launches mean nothing.", (doubt,))


def _above_whole(tables: _Tables) -> _Faults:
    """Shares of a whole above the whole."""
    shares = {c: bounds for c in tables.merged.counters if _SHARE.fullmatch(c) and (bounds := tables.bounds(c))}
    if high := [c for c, bounds in shares.items() if bounds[1] > _WHOLE_PCT]:
        top = max(bounds[1] for bounds in shares.values())
        text = (
            f"{_some(high)} exceed 100 % (up to {top:.0f} %): numerator and denominator were counted in "
            "different replays, which differ where a kernel is short or its caches are warm; take them as suspect."
        )
        seen = tables.kernels(" OR ".join(f"{sql_name(c)} > {_WHOLE_PCT}" for c in high))
        brief = f"{_some(high)} exceeds 100 %: counted in different replays, collect them in one pass"
        blocks = same_block(tables.arch, high, tables.merged.counters)
        beside = tuple(c for c in blocks if c not in high)
        told = f"counted beside {_some(high)}, which cannot be: replays differed, collect them in one pass"
        doubts = (Doubt("above_100", brief, tuple(high), kernels=seen), Doubt("above_100", told, beside, kernels=seen))
        yield Found("above_100", text, doubts if beside else doubts[:1])


def _ncu_replays(tables: _Tables) -> _Faults:
    """How far the duration of one launch differs between the replays of ncu."""
    low, high = "gpu__time_duration.min", "gpu__time_duration.max"
    if not tables.has(low, high):
        return
    (spread,) = tables.ask(f'median(("{high}" - "{low}") / nullif("{low}", 0))')
    if spread > _SPREAD:
        text = f"Longest and shortest duration of a launch differ by {100 * spread:.0f} % in the median"
        doubt = Doubt("replay_spread", f"durations of replays differ by {100 * spread:.0f} %", times=True)
        yield Found("replay_spread", f"{text}: a ratio of figures of two replays is as uncertain.", (doubt,))


def _uneven_replays(tables: _Tables) -> _Faults:
    """Launches whose replays lasted differently, by the cycles of one clock in two units counted in different replays.

    What a kernel does may depend on chance or on the order in which its work-groups run.
    """
    if not tables.has(*_ONE_CLOCK):
        return
    one, other = (f"c.{sql_name(name)}" for name in _ONE_CLOCK)
    apart = f"100 * (greatest({one}, {other}) / nullif(least({one}, {other}), 0) - 1)"
    found = tables.most(apart, _UNEVEN_PCT)
    if found:
        text = (
            f"In {len(found)} of {tables.merged.kernels} kernels replays of one launch lasted differently, by up to "
            f"{max(found.values()):.0f} % ({_some(list(found))}): what they do depends on chance or scheduling, and "
            "figures of different replays do not belong together"
        )
        fix = "Profile with a fixed seed, or few metrics in one pass: plan_profile."
        yield Found("uneven_replays", f"{text}. {fix}", tuple(_lasting(pct, names) for pct, names in _alike(found)))


def _lasting(pct: float, kernels: tuple[str, ...]) -> Doubt:
    brief = f"replays of this launch lasted differently, by {pct:.0f} %"
    return Doubt("uneven_replays", brief, (EVERY,), times=True, kernels=kernels)


def _alike(found: Mapping[str, float]) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Kernels by how far apart their replays are, in percent: each of a few by itself, of many those of ten percent."""
    step = 1 if len(found) <= _LISTED else 10
    together: dict[int, list[str]] = {}
    for name, pct in found.items():
        together.setdefault(int(pct // step), []).append(name)
    for names in together.values():
        yield max(found[name] for name in names), tuple(names)


def _multiplexed(tables: _Tables) -> _Faults:
    """Events that shared a hardware counter, so that their counts are estimates."""
    shared = [c for c in tables.merged.counters if c.endswith(_RUNNING)]
    if not shared:
        return
    running = dict(zip(shared, tables.ask(*(f"min({sql_name(c)})" for c in shared)), strict=True))
    text = (
        f"{_some([c.removesuffix(_RUNNING) for c in shared])} were counted only part of the time "
        f"(down to {min(running.values()):.0f} %) and scaled up: ratios of them are estimates; ask for fewer events in "
        "one run."
    )
    seldom = tuple(c.removesuffix(_RUNNING) for c, share in running.items() if share < _MOSTLY_PCT)
    brief = f"counted less than {_MOSTLY_PCT} % of the time and scaled up"
    yield Found("multiplexed", text, (Doubt("multiplexed", brief, seldom),) if seldom else ())


def _run_spread(tables: _Tables) -> _Faults:
    """How uncertain the mean of repeated runs is."""
    name = "duration_time:error_pct"
    if not tables.has(name):
        return
    (error,) = tables.ask(f"max({sql_name(name)})")
    if error > _SPREAD_PCT:
        text = f"The elapsed time of repeated runs is uncertain by {error:.0f} % (standard error)"
        doubt = Doubt("run_spread", f"times of runs are uncertain by {error:.0f} %", ("duration_time",), times=True)
        yield Found("run_spread", f"{text}: smaller differences between two such means tell nothing.", (doubt,))


def _contradictions(folder: Path, manifest: Manifest, merged: Merged, known: Iterable[Doubt]) -> _Faults:
    """Figures that contradict themselves, in one sentence, unless another check told already."""
    above = [d for d in known if d.code == "above_100"]
    told = [({c for d in above for c in d.counters}, d.seen_in) for d in above]
    against = {
        name: doubt
        for name, doubt in contradictions(folder, manifest, merged).items()
        if not any(set(doubt.counters) <= counters and seen_in(doubt.kernels or ()) for counters, seen_in in told)
    }
    if against:
        names = _some(list(against))
        text = (
            f"{names} cannot be as counted: their counters are of different replays that did not do the same; what "
            "shares counters with them is suspect. Collect them in one pass: plan_profile."
        )
        yield Found("contradiction", text, tuple(against.values()))


_CHECKS = {  # vendor -> checks of its tables
    "amd": (_waves, _repeated, _amd_clock, _accumulated, _dead, _kept),
    "nvidia": (_warps, _no_instructions, _nvidia_clock, _above_whole, _ncu_replays, _uneven_replays, _kept),
    "cpu": (_multiplexed, _cpu_clock, _run_spread),
}


def _two_digits(value: float) -> int:
    """A number of which no more is known."""
    return int(round(value, 1 - math.floor(math.log10(value))))


def _some(counters: list[str]) -> str:
    """Some of many names."""
    more = f" and {len(counters) - _LISTED} more" if len(counters) > _LISTED else ""
    return ", ".join(counters[:_LISTED]) + more
