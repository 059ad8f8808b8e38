"""Plausibility of an imported workload: faults of collection, each a named warning and the counters that it doubts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.catalogue import identities
from ....analysis.catalogue.events import block_of
from ....analysis.catalogue.targets import described
from ....analysis.database import sql_name
from ....analysis.doubts import EVERY, Doubt
from ....analysis.notes import Note
from ....analysis.store import Manifest
from ....analysis.text import counted
from . import clock, impossible, replays
from .contradictions import contradictions
from .impossible import RUNNING
from .merge import Merged
from .recorded import WAVE, Faults, Found, Tables, launched, some

if TYPE_CHECKING:
    import duckdb

_SPREAD, _SPREAD_PCT = 0.10, 5
_WARP = 32
_MOSTLY_PCT = 50
_TOO_FEW = {"xcds_missing": "some launches lack XCDs: sums over them are too low"}
"""Warnings of readers that doubt every counter."""
_SAID = 3
"""Contradictions that are told one by one."""
_NOT_COUNTED = {"all_zero", "no_waves", "repeated"}
"""Checks that say of counters that they mean nothing."""


def faults(con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: Merged) -> list[Found]:
    """What looks wrong in the tables written to ``folder``."""
    checks = [
        check
        for p in merged.passes
        for check in (partial(impossible.all_zero, p), partial(impossible.out_of_range, p, manifest))
    ]
    if manifest.vendor == "amd":
        checks.append(partial(_known_defects, manifest))
    if merged.dispatches and merged.counters:
        tables = Tables(con, folder, manifest, merged)
        checks += [partial(check, tables) for check in (*_CHECKS.get(manifest.vendor or "", ()), _replay_spread)]
    found = _joined(_first_told([one for check in checks for one in check()]))
    if merged.dispatches and merged.counters:
        found += _contradictions(folder, manifest, merged, [d for one in found for d in one.doubts])
    return found


def _first_told(found: list[Found]) -> list[Found]:
    """Without the contradictions of counters of which it is told already that they were not counted."""
    void = {c for one in found if one.code in _NOT_COUNTED for d in one.doubts if d.kernels is None for c in d.counters}
    return [one for one in found if one.code != "identity" or all(void.isdisjoint(d.counters) for d in one.doubts)]


def _joined(found: list[Found]) -> list[Found]:
    """With the contradictions beyond a few as one: what they doubt stays apart."""
    broken = [one for one in found if one.code == "identity"]
    more = broken[_SAID:]
    if len(more) < 2:
        return found
    doubts = tuple(d for one in more for d in one.doubts)
    names = some([" with ".join(d.counters[:2]) for d in doubts])
    text = f"{len(more)} more pairs of counters contradict each other: {names}. What is made of them is suspect."
    return [one for one in found if one not in more] + [Found("identity", text, doubts)]


def of_readers(warnings: list[Note]) -> list[Doubt]:
    """What the warnings of a reader doubt."""
    return [Doubt(code, text, (EVERY,)) for code, text in _TOO_FEW.items() if any(w.code == code for w in warnings)]


def _replay_spread(tables: Tables) -> Faults:
    """How far the duration of one dispatch differs between replays."""
    times = ["c.duration_ns", *(f"c.{sql_name(f'duration_ns@{p.name}')}" for p in tables.merged.passes[1:])]
    if len(times) < 2:
        return
    all_times = ", ".join(times)
    (spread,) = tables.ask(f"median((greatest({all_times}) - least({all_times})) / c.duration_ns)")
    if spread > _SPREAD:
        differs = f"by {100 * spread:.0f} % in the median"
        text = f"The duration of a dispatch differs between the {counted(len(times), 'replay')} {differs}"
        doubt = Doubt("replay_spread", f"joins replays whose times differ {differs}", across=True)
        yield Found("replay_spread", f"{text}: a ratio of figures of two replays is as uncertain.", (doubt,))


def _known_defects(manifest: Manifest) -> Faults:
    """Versions of AMD's tools that are known to write wrong values."""
    release = tuple(int(n) for n in re.findall(r"\d+", (manifest.tool_version or "").split("-")[0])[:3])
    target = described(manifest.arch)
    for defect in target.defect if target else []:
        if defect.concerns(release):
            doubt = Doubt(defect.code, defect.text, tuple(defect.counters), defect.times)
            yield Found(defect.code, defect.text, (doubt,) if doubt.counters or doubt.times else ())


def _waves(tables: Tables) -> Faults:
    """SQ_WAVES against the launch: whole work-groups of whole waves."""
    if not tables.has("SQ_WAVES"):
        return
    wave = int(tables.facts.get("wave_size", WAVE))
    wrong = f'abs("SQ_WAVES" - {launched(wave)}) > 0.5'
    bad, known = tables.wrong(wrong)
    if bad:
        text = (
            f"In {bad:.0f} of {counted(int(known), 'dispatch')} SQ_WAVES is not the number of waves "
            f"launched (work-groups x ceil(work-group / {wave})): counters and dispatches may not belong together."
        )
        spelt = [c for c in tables.merged.counters if c.partition("@")[0] in ("SQ_WAVES", "SQ_WAVES_sum")]
        yield Found("waves_vs_grid", text, (_not_launched(spelt, tables.kernels(wrong)),))
    none, known = tables.wrong('"SQ_WAVES" = 0')
    if none:
        text = f"In {none:.0f} of {counted(int(known), 'dispatch')} SQ_WAVES is zero, which no launch can be"
        blind = tuple(c for c in tables.merged.counters if block_of(c.partition("@")[0]) == block_of("SQ_WAVES"))
        seen = tables.kernels('"SQ_WAVES" = 0')
        doubt = Doubt("no_waves", "SQ_WAVES is zero, which no launch can be: SQ did not count", blind, kernels=seen)
        yield Found("no_waves", f"{text}: the counters of SQ in these launches mean nothing.", (doubt,))


def _warps(tables: Tables) -> Faults:
    """Warps launched against the launch: whole blocks of whole warps."""
    name = tables.first("smsp__warps_launched.sum", "sm__warps_launched.sum")
    if name is None:
        return
    wrong = f"abs({sql_name(name)} - {launched(_WARP)}) > 0.5"
    bad, known = tables.wrong(wrong)
    if bad:
        text = (
            f"In {bad:.0f} of {counted(int(known), 'launch')} {name} is not the number of warps of the "
            f"grid (blocks x ceil(block / {_WARP})): another program ran on the GPU, or the kernel launched others."
        )
        yield Found("waves_vs_grid", text, (_not_launched([name], tables.kernels(wrong)),))


def _not_launched(counters: Sequence[str], kernels: tuple[str, ...] | None) -> Doubt:
    text = f"{counters[0]} is not the number of waves launched"
    return Doubt("waves_vs_grid", text, tuple(counters), kernels=kernels)


def _kept(tables: Tables) -> Faults:
    """Relations that counters of every launch keep, whatever it does."""
    known = identities.known(tables.arch, tables.facts) if described(tables.arch) and tables.arch else []
    told = [one for one in known if tables.has(*one.counters)]
    counts = tables.ask(*(f"count({c})" for one in told for c in _holds(one.wrong))) if told else []
    for one, bad, of in zip(told, counts[::2], counts[1::2], strict=True):
        if bad:
            names = " and ".join([*one.counters, *(["the time"] if one.times else [])][:2])
            text = f"In {bad:.0f} of {counted(int(of), 'launch')} {names} contradict each other: {one.text}"
            brief = f"{names} contradict each other ({one.text}): one did not count, or they are of different work"
            doubt = Doubt("identity", brief, tuple(one.counters), one.times, kernels=tables.kernels(one.wrong))
            yield Found("identity", f"{text}. What is made of them is suspect.", (doubt,))


def _holds(condition: str) -> tuple[str, str]:
    """SQL that has a value where a condition holds, and where it can be judged."""
    return f"CASE WHEN {condition} THEN 1 END", f"({condition})"


def _ncu_replays(tables: Tables) -> Faults:
    """How far the duration of one launch differs between the replays of ncu."""
    low, high = "gpu__time_duration.min", "gpu__time_duration.max"
    if not tables.has(low, high):
        return
    (spread,) = tables.ask(f'median(("{high}" - "{low}") / nullif("{low}", 0))')
    if spread > _SPREAD:
        text = f"Longest and shortest duration of a launch differ by {100 * spread:.0f} % in the median"
        doubt = Doubt("replay_spread", f"durations of replays differ by {100 * spread:.0f} %", times=True)
        yield Found("replay_spread", f"{text}: a ratio of figures of two replays is as uncertain.", (doubt,))


def _multiplexed(tables: Tables) -> Faults:
    """Events that shared a hardware counter, so that their counts are estimates."""
    shared = [c for c in tables.merged.counters if c.endswith(RUNNING)]
    if not shared:
        return
    running = dict(zip(shared, tables.ask(*(f"min({sql_name(c)})" for c in shared)), strict=True))
    text = (
        f"{some([c.removesuffix(RUNNING) for c in shared])} were counted only part of the time "
        f"(down to {min(running.values()):.0f} %) and scaled up: ratios of them are estimates; ask for fewer events in "
        "one run."
    )
    seldom = tuple(c.removesuffix(RUNNING) for c, share in running.items() if share < _MOSTLY_PCT)
    brief = f"counted less than {_MOSTLY_PCT} % of the time and scaled up"
    yield Found("multiplexed", text, (Doubt("multiplexed", brief, seldom),) if seldom else ())


def _run_spread(tables: Tables) -> Faults:
    """How uncertain the mean of repeated runs is."""
    name = "duration_time:error_pct"
    if not tables.has(name):
        return
    (error,) = tables.ask(f"max({sql_name(name)})")
    if error > _SPREAD_PCT:
        text = f"The elapsed time of repeated runs is uncertain by {error:.0f} % (standard error)"
        doubt = Doubt("run_spread", f"times of runs are uncertain by {error:.0f} %", ("duration_time",), times=True)
        yield Found("run_spread", f"{text}: smaller differences between two such means tell nothing.", (doubt,))


def _contradictions(folder: Path, manifest: Manifest, merged: Merged, known: Iterable[Doubt]) -> Faults:
    """Figures that contradict themselves, in one sentence, unless another check told already."""
    above = [d for d in known if d.code == "above_100"]
    told = [({c for d in above for c in d.counters}, d.seen_in) for d in above]
    against = {
        name: doubt
        for name, doubt in contradictions(folder, manifest, merged).items()
        if not any(set(doubt.counters) <= counters and seen_in(doubt.kernels or ()) for counters, seen_in in told)
    }
    if against:
        names = some(list(against))
        text = (
            f"{names} cannot be as counted: their counters are of different replays that did not do the same; what "
            "shares counters with them is suspect. Collect them in one pass: plan_profile."
        )
        yield Found("contradiction", text, tuple(against.values()))


_CHECKS = {  # vendor -> checks of its tables
    "amd": (_waves, impossible.repeated, clock.amd_clock, impossible.accumulated, impossible.dead, _kept),
    "nvidia": (
        _warps, impossible.no_instructions, clock.nvidia_clock, impossible.above_whole, _ncu_replays, replays.uneven,
        _kept,
    ),
    "cpu": (_multiplexed, clock.cpu_clock, _run_spread),
}  # fmt: skip
