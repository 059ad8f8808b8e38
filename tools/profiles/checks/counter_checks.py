"""Plausibility checks of an imported workload: each failed check is a named warning with the counters it doubts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_name
from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ....analysis.catalogue import counter_names
from ....analysis.catalogue.counter_names import block_of
from ....analysis.catalogue.targets import find_target
from ....analysis.catalogue.thresholds import threshold
from ....analysis.store.doubts import EVERY_COUNTER, Doubt
from ....analysis.store.store import Manifest
from ..merging.merge import StoredProfile
from . import impossible_values
from .imported_tables import WAVE, CheckResult, CheckResults, ImportedTables, launched_waves, some_names
from .impossible_values import RUNNING, contradictions, uneven_replays

if TYPE_CHECKING:
    import duckdb

_SPREAD = threshold("replays.spread")
_SPREAD_PCT = threshold("replays.spread_launches_pct")
_WARP = 32
_MOSTLY_PCT = threshold("replays.mostly_pct")
_DOUBT_EVERYTHING = {"xcds_missing": "some launches lack XCDs: sums over XCDs are too low"}
"""Codes of reader warnings that cast doubt on every counter, with the text of the doubt."""
_TOLD_ONE_BY_ONE = 3
"""Number of contradictions that are reported individually."""
_NOT_COUNTED = {"all_zero", "no_waves", "repeated"}
"""Codes of checks that report counters without any meaning."""


def faults(
    con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, merged: StoredProfile
) -> list[CheckResult]:
    """Run all checks on the tables written to ``folder`` and return what looks wrong."""
    checks = [
        check
        for p in merged.passes
        for check in (partial(impossible_values.all_zero, p), partial(impossible_values.out_of_range, p, manifest))
    ]
    if manifest.vendor == "amd":
        checks.append(partial(_known_defects, manifest))
    if merged.dispatches and merged.counters:
        tables = ImportedTables(con, folder, manifest, merged)
        checks += [partial(check, tables) for check in (*_CHECKS.get(manifest.vendor or "", ()), _replay_spread)]
    results = _summarise_contradictions(_drop_contradictions_of_uncounted([one for check in checks for one in check()]))
    if merged.dispatches and merged.counters:
        results += _contradictions(folder, manifest, merged, [d for one in results for d in one.doubts])
    return results


def _drop_contradictions_of_uncounted(results: list[CheckResult]) -> list[CheckResult]:
    """Drop contradictions of counters that another check already reports as not counted."""
    uncounted = {
        c for one in results if one.code in _NOT_COUNTED for d in one.doubts if d.kernels is None for c in d.counters
    }
    return [
        one for one in results if one.code != "identity" or all(uncounted.isdisjoint(d.counters) for d in one.doubts)
    ]


def _summarise_contradictions(results: list[CheckResult]) -> list[CheckResult]:
    """Combine all but the first few contradictions into one result that keeps their separate doubts."""
    broken = [one for one in results if one.code == "identity"]
    more = broken[_TOLD_ONE_BY_ONE:]
    if len(more) < 2:
        return results
    doubts = tuple(d for one in more for d in one.doubts)
    names = some_names([" with ".join(d.counters[:2]) for d in doubts])
    text = f"{len(more)} more pairs of counters contradict each other: {names}. Figures computed from them are suspect."
    return [one for one in results if one not in more] + [CheckResult("identity", text, doubts)]


def doubts_of_readers(warnings: list[Note]) -> list[Doubt]:
    """Return the doubts that follow from the warnings of a reader."""
    return [
        Doubt(code, text, (EVERY_COUNTER,))
        for code, text in _DOUBT_EVERYTHING.items()
        if any(w.code == code for w in warnings)
    ]


def _replay_spread(tables: ImportedTables) -> CheckResults:
    """Check how much the duration of one dispatch differs between replays."""
    times = ["c.duration_ns", *(f"c.{sql_name(f'duration_ns@{p.name}')}" for p in tables.merged.passes[1:])]
    if len(times) < 2:
        return
    all_times = ", ".join(times)
    (spread,) = tables.ask(f"median((greatest({all_times}) - least({all_times})) / c.duration_ns)")
    if spread > _SPREAD:
        differs = f"by {100 * spread:.0f} % in the median"
        text = f"The duration of a dispatch differs between the {count_text(len(times), 'replay')} {differs}"
        doubt = Doubt("replay_spread", f"combines replays whose times differ {differs}", across=True)
        yield CheckResult(
            "replay_spread", f"{text}: a ratio of figures from two replays is equally uncertain.", (doubt,)
        )


def _known_defects(manifest: Manifest) -> CheckResults:
    """Check for versions of AMD's tools that are known to write wrong values."""
    release = tuple(int(n) for n in re.findall(r"\d+", (manifest.tool_version or "").split("-")[0])[:3])
    target = find_target(manifest.arch)
    for defect in target.defect if target else []:
        if defect.concerns(release):
            doubt = Doubt(defect.code, defect.text, tuple(defect.counters), defect.times)
            yield CheckResult(defect.code, defect.text, (doubt,) if doubt.counters or doubt.times else ())


def _waves(tables: ImportedTables) -> CheckResults:
    """Compare SQ_WAVES with the launch size: whole work-groups of whole waves."""
    if not tables.has("SQ_WAVES"):
        return
    wave = int(tables.facts.get("wave_size", WAVE))
    wrong = f'abs("SQ_WAVES" - {launched_waves(wave)}) > 0.5'
    bad, known = tables.count_where(wrong)
    if bad:
        text = (
            f"In {bad:.0f} of {count_text(int(known), 'dispatch')} SQ_WAVES is not the number of waves "
            f"launched (work-groups x ceil(work-group / {wave})): counters and dispatches may not belong together."
        )
        spelt = [c for c in tables.merged.counters if c.partition("@")[0] in ("SQ_WAVES", "SQ_WAVES_sum")]
        yield CheckResult("waves_vs_grid", text, (_waves_doubt(spelt, tables.kernels_where(wrong)),))
    none, known = tables.count_where('"SQ_WAVES" = 0')
    if none:
        text = f"In {none:.0f} of {count_text(int(known), 'dispatch')} SQ_WAVES is zero, which is impossible"
        blind = tuple(c for c in tables.merged.counters if block_of(c.partition("@")[0]) == block_of("SQ_WAVES"))
        seen = tables.kernels_where('"SQ_WAVES" = 0')
        doubt = Doubt("no_waves", "SQ_WAVES is zero, which is impossible: SQ did not count", blind, kernels=seen)
        yield CheckResult("no_waves", f"{text}: the SQ counters of these launches are meaningless.", (doubt,))


def _warps(tables: ImportedTables) -> CheckResults:
    """Compare the warps launched with the launch size: whole blocks of whole warps."""
    name = tables.first_collected("smsp__warps_launched.sum", "sm__warps_launched.sum")
    if name is None:
        return
    wrong = f"abs({sql_name(name)} - {launched_waves(_WARP)}) > 0.5"
    bad, known = tables.count_where(wrong)
    if bad:
        text = (
            f"In {bad:.0f} of {count_text(int(known), 'launch')} {name} is not the number of warps of the "
            f"grid (blocks x ceil(block / {_WARP})): another program ran on the GPU, or the kernel launched others."
        )
        yield CheckResult("waves_vs_grid", text, (_waves_doubt([name], tables.kernels_where(wrong)),))


def _waves_doubt(counters: Sequence[str], kernels: tuple[str, ...] | None) -> Doubt:
    text = f"{counters[0]} is not the number of waves launched"
    return Doubt("waves_vs_grid", text, tuple(counters), kernels=kernels)


def _broken_identities(tables: ImportedTables) -> CheckResults:
    """Check relations that the counters of every launch must satisfy, whatever it does."""
    relations = (
        counter_names.identities_of(tables.arch, tables.facts) if find_target(tables.arch) and tables.arch else []
    )
    judgeable = [one for one in relations if tables.has(*one.counters)]
    counts = (
        tables.ask(*(f"count({c})" for one in judgeable for c in _condition_counts(one.wrong))) if judgeable else []
    )
    for one, bad, of in zip(judgeable, counts[::2], counts[1::2], strict=True):
        if bad:
            names = " and ".join([*one.counters, *(["the time"] if one.times else [])][:2])
            text = f"In {bad:.0f} of {count_text(int(of), 'launch')} {names} contradict each other: {one.text}"
            brief = f"{names} contradict each other ({one.text}): one did not count, or they are from different work"
            doubt = Doubt("identity", brief, tuple(one.counters), one.times, kernels=tables.kernels_where(one.wrong))
            yield CheckResult("identity", f"{text}. Figures computed from them are suspect.", (doubt,))


def _condition_counts(condition: str) -> tuple[str, str]:
    """Return SQL that has a value where a condition holds, and SQL that has a value where it can be evaluated."""
    return f"CASE WHEN {condition} THEN 1 END", f"({condition})"


def _ncu_replays(tables: ImportedTables) -> CheckResults:
    """Check how much the duration of one launch differs between the replays of ncu."""
    low, high = "gpu__time_duration.min", "gpu__time_duration.max"
    if not tables.has(low, high):
        return
    (spread,) = tables.ask(f'median(("{high}" - "{low}") / nullif("{low}", 0))')
    if spread > _SPREAD:
        text = f"Longest and shortest duration of a launch differ by {100 * spread:.0f} % in the median"
        doubt = Doubt("replay_spread", f"durations of replays differ by {100 * spread:.0f} %", times=True)
        yield CheckResult(
            "replay_spread", f"{text}: a ratio of figures from two replays is equally uncertain.", (doubt,)
        )


def _multiplexed_events(tables: ImportedTables) -> CheckResults:
    """Check for events that shared a hardware counter, so that their counts are estimates."""
    shared = [c for c in tables.merged.counters if c.endswith(RUNNING)]
    if not shared:
        return
    running = dict(zip(shared, tables.ask(*(f"min({sql_name(c)})" for c in shared)), strict=True))
    text = (
        f"{some_names([c.removesuffix(RUNNING) for c in shared])} were counted only part of the time "
        f"(down to {min(running.values()):.0f} %) and scaled up: ratios of them are estimates; request fewer events in "
        "one run."
    )
    seldom = tuple(c.removesuffix(RUNNING) for c, share in running.items() if share < _MOSTLY_PCT)
    brief = f"counted less than {_MOSTLY_PCT} % of the time and scaled up"
    yield CheckResult("multiplexed", text, (Doubt("multiplexed", brief, seldom),) if seldom else ())


def _run_spread(tables: ImportedTables) -> CheckResults:
    """Check how uncertain the mean of repeated runs is."""
    name = "duration_time:error_pct"
    if not tables.has(name):
        return
    (error,) = tables.ask(f"max({sql_name(name)})")
    if error > _SPREAD_PCT:
        text = f"The elapsed time of repeated runs is uncertain by {error:.0f} % (standard error)"
        doubt = Doubt("run_spread", f"times of runs are uncertain by {error:.0f} %", ("duration_time",), times=True)
        yield CheckResult("run_spread", f"{text}: smaller differences between two means are not significant.", (doubt,))


def _contradictions(folder: Path, manifest: Manifest, merged: StoredProfile, known: Iterable[Doubt]) -> CheckResults:
    """Report figures that contradict themselves in one sentence, unless another check already explains them."""
    above = [d for d in known if d.code == "above_100"]
    explained = [({c for d in above for c in d.counters}, d.seen_in) for d in above]
    against = {
        name: doubt
        for name, doubt in contradictions(folder, manifest, merged).items()
        if not any(set(doubt.counters) <= counters and seen_in(doubt.kernels or ()) for counters, seen_in in explained)
    }
    if against:
        names = some_names(list(against))
        text = (
            f"Impossible values of {names}: their counters are from replays that did different work; figures that "
            "share counters with them are suspect. Collect them in one pass: plan_profile."
        )
        yield CheckResult("contradiction", text, tuple(against.values()))


_CHECKS = {  # vendor -> checks of its tables
    "amd": (
        _waves, impossible_values.repeated_values, impossible_values.amd_clock, impossible_values.zero_integrals,
        impossible_values.dead_counters, _broken_identities,
    ),
    "nvidia": (
        _warps, impossible_values.no_instructions, impossible_values.nvidia_clock,
        impossible_values.above_whole, _ncu_replays,
        uneven_replays,
        _broken_identities,
    ),
    "cpu": (_multiplexed_events, impossible_values.cpu_clock, _run_spread),
}  # fmt: skip
