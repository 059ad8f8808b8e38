"""What is wrong with recorded values where one condition does not say it: see checks.toml for all others."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....analysis.base.database import sql_name
from ....analysis.base.text import count_text
from ....analysis.catalogue import metrics as catalog
from ....analysis.catalogue.thresholds import threshold
from ....analysis.engine.compile import scattered_figures
from ....analysis.engine.evaluation import Figure, FigureRequest, figures
from ....analysis.store.doubts import DURATION, Doubt
from ....analysis.store.store import Manifest, Store
from ....analysis.workload import Workload
from ..merging.merge import StoredProfile
from .imported_tables import LISTED, WAVE, CheckResults, ImportedTables, TableCheck, launched_waves, some_names

_RUNNING = ":running_pct"
"""Suffix of the perf counters that state for which share of the time another counter was counted."""
_SHARE = re.compile(r".+\.(?:avg|sum)\.pct_of_peak_sustained_elapsed(?:@.+)?|.+_hit_rate\.pct(?:@.+)?")
_WHOLE_PCT = threshold("figures.recorded_whole_pct")
_MOSTLY_PCT = threshold("replays.mostly_pct")
_UNEVEN_PCT = threshold("replays.uneven_pct")
_REPEATED, _KINDS = 5, 3
"""Counters with one value throughout, and kernels of different sizes, from which on this cannot be chance."""
_Numbers = Mapping[str, Any]
"""What the placeholders of a check stand for in SQL."""


def _repeated(tables: ImportedTables, check: TableCheck, _: _Numbers) -> CheckResults:
    """Report counters with one value for all launches of kernels of different sizes: one row was copied to all."""
    level = [name for name, (low, high) in tables.bounds.items() if 0 < low == high]
    if len(level) < _REPEATED or tables.merged.kernels < _KINDS:
        return
    launches, sizes, *counted = tables.ask(
        "count(*)", f"count(DISTINCT {launched_waves(WAVE)})", *(f"count({sql_name(name)})" for name in level)
    )
    repeated = [name for name, n in zip(level, counted, strict=True) if n == launches]
    if sizes > 1 and len(repeated) >= _REPEATED:
        words = {"names": some_names(repeated), "launches": launches}
        yield check.result(words, check.doubt(words, sorted(repeated)))


def _above_whole(tables: ImportedTables, check: TableCheck, _: _Numbers) -> CheckResults:
    """Report shares of a whole that exceed the whole."""
    shares = {c: most for c, (_, most) in tables.bounds.items() if _SHARE.fullmatch(c)}
    if high := [c for c, most in shares.items() if most > _WHOLE_PCT]:
        words = {"names": some_names(high), "top": max(shares.values())}
        seen = tables.kernels_where(" OR ".join(f"{sql_name(c)} > {_WHOLE_PCT}" for c in high))
        beside = tuple(c for c in same_block(tables.arch, high, tables.merged.counters) if c not in high)
        doubts = [Doubt(check.code, check.beside.format_map(words), beside, kernels=seen)] if beside else []
        yield check.result(words, check.doubt(words, high, seen), *doubts)


def _multiplexed(tables: ImportedTables, check: TableCheck, numbers: _Numbers) -> CheckResults:
    """Report events that shared a hardware counter, so that their counts are estimates."""
    shared = [c for c in tables.merged.counters if c.endswith(_RUNNING)]
    if shared:
        least = tables.ask(*(f"min({sql_name(c)})" for c in shared))
        running = dict(zip((c.removesuffix(_RUNNING) for c in shared), least, strict=True))
        seldom = [c for c, share in running.items() if share < _MOSTLY_PCT]
        words = {**numbers, "names": some_names(list(running)), "least": min(least)}
        yield check.result(words, *([check.doubt(words, seldom)] if seldom else []))


def _uneven_replays(tables: ImportedTables, check: TableCheck, numbers: _Numbers) -> CheckResults:
    """Report launches whose replays took different times, by the cycles of one clock counted in two replays."""
    if spread := tables.highest_by_kernel(check.figure.format_map(numbers), _UNEVEN_PCT):
        words = {"count": len(spread), "of": count_text(tables.merged.kernels, "kernel"), "most": max(spread.values())}
        words["names"] = some_names(list(spread))
        groups = _group_by_spread(spread)
        yield check.result(words, *(check.doubt({"pct": pct}, check.counters, names) for pct, names in groups))


JUDGES: dict[str, Callable[[ImportedTables, TableCheck, _Numbers], CheckResults]] = {
    "repeated": _repeated, "above_whole": _above_whole, "multiplexed": _multiplexed, "uneven_replays": _uneven_replays,
}  # fmt: skip


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


def cause_of_cycles(
    tables: ImportedTables, cycles: str, clock_mhz: float, highest: float
) -> tuple[str, dict[str, str]]:
    """Return why more cycles were counted than the maximum clock gives: the name of the cause, and words for it."""
    if overhead := added_cycles(tables.ask, cycles, clock_mhz):
        added, how = overhead
        # Two significant digits, since no more are known.
        return "added", {"added": str(int(round(added, 1 - math.floor(math.log10(added))))), "how": how}
    return ("absurd" if highest > threshold("clocks.absurd") * clock_mhz else "short"), {}
