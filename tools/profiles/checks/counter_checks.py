"""Plausibility checks of an imported workload: each failed check is a named warning with the counters it doubts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ....analysis.base.database import sql_name
from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ....analysis.catalogue import counter_names
from ....analysis.catalogue.targets import find_target, holds
from ....analysis.catalogue.thresholds import threshold, thresholds
from ....analysis.store.doubts import EVERY_COUNTER, Doubt
from ....analysis.store.store import Manifest
from ..merging.contract import Connection
from ..merging.merge import MergedPass, StoredProfile
from ..parsing.module_data import module_data
from .imported_tables import WAVE, CheckResult, CheckResults, ImportedTables, TableCheck, launched_waves, some_names
from .impossible_values import JUDGES, cause_of_cycles, contradictions

_WARP = 32
_DOUBT_EVERYTHING = {"xcds_missing": "some launches lack XCDs: sums over XCDs are too low"}
"""Codes of reader warnings that cast doubt on every counter, with the text of the doubt."""
_TOLD_ONE_BY_ONE = 3
"""Number of contradictions that are reported individually."""
_NOT_COUNTED = {"all_zero", "no_waves", "repeated"}
"""Codes of checks that report counters without any meaning."""
_LARGEST_COUNT = 2.0**64
_ROUNDING = 1e-3
"""ncu computes some metrics as a difference, which may be below zero by a small share of the maximum."""


def faults(con: Connection, folder: Path, manifest: Manifest, merged: StoredProfile) -> list[CheckResult]:
    """Run all checks on the tables written to ``folder`` and return what looks wrong."""
    results = [one for item in merged.passes for one in _of_pass(item, manifest)]
    if manifest.vendor == "amd":
        results += _known_defects(manifest)
    if merged.dispatches and merged.counters:
        tables = ImportedTables(con, folder, manifest, merged)
        checks = [TableCheck(**entry) for entry in module_data(__file__, "checks.toml")["check"]]
        of_vendor = [check for check in checks if not check.vendors or manifest.vendor in check.vendors]
        results += [one for check in of_vendor for one in _evaluate(tables, check)]
    # Another check already reports counters that were not counted.
    doubts = [d for one in results if one.code in _NOT_COUNTED for d in one.doubts if d.kernels is None]
    uncounted = {c for d in doubts for c in d.counters}
    results = _summarise_contradictions(
        [one for one in results if one.code != "identity" or all(uncounted.isdisjoint(d.counters) for d in one.doubts)]
    )
    if merged.dispatches and merged.counters:
        results += _contradictions(folder, manifest, merged, [d for one in results for d in one.doubts])
    return results


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
    codes = {w.code for w in warnings}
    return [Doubt(code, text, (EVERY_COUNTER,)) for code, text in _DOUBT_EVERYTHING.items() if code in codes]


def _of_pass(item: MergedPass, manifest: Manifest) -> CheckResults:
    """Report counters of a pass that are below zero or too large, or all zero: then the collection failed.

    Zero counts only if a counter is among them that counts in any kernel, and not in what a profiler states without
    counting.
    """
    counted, slack = module_data(__file__, "checks.toml")["counted"], _ROUNDING if manifest.vendor == "nvidia" else 0.0
    hardware = {c: b for c, b in item.bounds.items() if c in item.counters and not re.fullmatch(counted["software"], c)}
    failed = not hardware.keys().isdisjoint(counted["always"]) and all(b == (0, 0) for b in hardware.values())
    bounds = [(c, *item.bounds.get(c, (0.0, 0.0))) for c in item.counters]
    found = {
        "all_zero": list(hardware) if failed else [],
        "negative": [c for c, low, high in bounds if low < -slack * abs(high)],
        "overflow": [c for c, _, high in bounds if high > _LARGEST_COUNT],
    }
    for code, counters in found.items():
        if counters:
            check, words = (
                TableCheck(code, **module_data(__file__, "checks.toml")["pass"][code]),
                {"names": some_names(counters), "pass": item.name},
            )
            yield check.result(words, check.doubt(words, sorted(item.counters[c] for c in counters)))


def _known_defects(manifest: Manifest) -> CheckResults:
    """Check for versions of AMD's tools that are known to write wrong values."""
    release = tuple(int(n) for n in re.findall(r"\d+", (manifest.tool_version or "").split("-")[0])[:3])
    target = find_target(manifest.arch)
    for defect in target.defect if target else []:
        if defect.concerns(release):
            doubt = Doubt(defect.code, defect.text, tuple(defect.counters), defect.times)
            yield CheckResult(defect.code, defect.text, (doubt,) if doubt.counters or doubt.times else ())


class _Instance(NamedTuple):
    """What a check is made of: words for texts and SQL, and what else is doubted."""

    words: dict[str, str]
    counters: tuple[str, ...] = ()
    times: bool = False


def _evaluate(tables: ImportedTables, check: TableCheck) -> CheckResults:
    """Evaluate a check with one query, and say what is wrong."""
    names = {placeholder: next(filter(tables.has, known), "") for placeholder, known in check.names.items()}
    if "" in names.values() or (check.fact and check.fact not in tables.facts):
        return
    if check.gpus and not (find_target(tables.arch) and holds(check.gpus, tables.arch or "")):
        return
    numbers = _numbers(tables)
    if check.judge:
        yield from JUDGES[check.judge](tables, check, numbers | names)
        return
    asked, picks = list[tuple[_Instance, str]](), list[str]()
    for one in _instances(tables, check, names):
        wrong, found, figure = (
            text.format_map(numbers | names | one.words) for text in (check.wrong, check.found, check.figure)
        )
        asked.append((one, wrong))
        picks += [f"count(CASE WHEN {wrong} THEN 1 END)", f"count(({wrong}))"] if wrong else [found, "NULL"]
        picks.append(figure)
    answers = iter(tables.ask(*picks) if picks else ())
    for (one, wrong), bad, known, figured in zip(asked, answers, answers, answers, strict=True):
        if not bad:
            continue
        words = numbers | names | one.words | {"bad": bad, "known": count_text(int(known), check.thing)}
        words["figure"], times = figured, one.times
        if check.causes:
            clock = numbers["clock"]
            cause, more = cause_of_cycles(tables, f"{sql_name(names['name'])} / {numbers['num_xcd']!r}", clock, figured)
            words |= {word: text.format_map(more) for word, text in check.causes[cause].items()}
            times = cause == "absurd"
        counters = one.counters or [name.format_map(words) for name in check.counters]
        if check.matching:
            counters = [c for c in tables.merged.counters if re.fullmatch(check.matching, c.partition("@")[0])]
            words["first"] = counters[0]
        seen = tables.kernels_where(wrong) if wrong and not check.everywhere else None
        yield check.result(words, check.doubt(words, counters, seen, times=times))


def _numbers(tables: ImportedTables) -> dict[str, Any]:
    """Return the numbers that checks.toml may use."""
    target = find_target(tables.arch)
    usual = target.facts["wave_size"].value if target and "wave_size" in target.facts else WAVE
    wave, clock = int(tables.facts.get("wave_size", usual)), tables.facts.get("max_sclk", 0.0)
    return {
        "t": thresholds(), "wave": wave, "waves": launched_waves(wave), "warps": launched_waves(_WARP),
        "num_xcd": tables.facts.get("num_xcd", 1), "engines": tables.facts.get("se_per_gpu", 0),
        "units": tables.facts.get("cu_per_gpu", 0), "clock": clock, "fastest": clock * threshold("clocks.tolerance"),
        "slowest": clock * threshold("clocks.standstill"),
    }  # fmt: skip


def _instances(tables: ImportedTables, check: TableCheck, names: dict[str, str]) -> Iterable[_Instance]:
    """Return what a check is repeated for; once unless it states ``each``."""
    if not check.each:
        return [_Instance(names)]
    if listed := _LISTS.get(check.each):
        return listed(tables)
    return [_Instance({"name": c}) for c in tables.merged.counters if re.fullmatch(check.each, c)]


def _dead_counters(tables: ImportedTables) -> Iterator[_Instance]:
    target = find_target(tables.arch)
    for dead in target.dead if target else []:
        if tables.has(dead.counter, dead.although):
            yield _Instance({"name": dead.counter, "although": dead.although})


def _identities(tables: ImportedTables) -> Iterator[_Instance]:
    known = find_target(tables.arch) and tables.arch
    for one in counter_names.identities_of(known, tables.facts) if known else []:
        if tables.has(*one.counters):
            names = " and ".join([*one.counters, *(["the time"] if one.times else [])][:2])
            words = {"names": names, "relation": one.text, "contradicted": one.wrong}
            yield _Instance(words, tuple(one.counters), one.times)


def _passes(tables: ImportedTables) -> Iterator[_Instance]:
    times = ["c.duration_ns", *(f"c.{sql_name(f'duration_ns@{p.name}')}" for p in tables.merged.passes[1:])]
    if len(times) > 1:
        replays, counted = count_text(len(times), "replay"), str(bool(tables.merged.passes[0].counters))
        yield _Instance({"replays": replays, "durations": ", ".join(times), "counted": counted})


_LISTS: dict[str, Callable[[ImportedTables], Iterator[_Instance]]] = {
    "dead_counters": _dead_counters, "identities": _identities, "passes": _passes,
}  # fmt: skip


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
