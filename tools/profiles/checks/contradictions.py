"""Figures that contradict themselves: shares beyond the whole, from counters of replays that did different work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ....analysis.base.database import sql_name
from ....analysis.base.text import count_text
from ....analysis.catalogue import metrics as catalog
from ....analysis.catalogue.thresholds import threshold
from ....analysis.engine.compile import scattered_figures
from ....analysis.engine.evaluation import Figure, FigureRequest, figures
from ....analysis.store.doubts import DURATION, EVERY_COUNTER, Doubt
from ....analysis.store.store import Manifest, Store
from ....analysis.workload import Workload
from ..merging.merge import StoredProfile
from .imported_tables import LISTED, CheckResult, CheckResults, ImportedTables, some_names


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
