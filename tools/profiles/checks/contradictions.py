"""Figures that contradict themselves: shares beyond the whole, counted in replays that did not do the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ....analysis.catalogue import metrics as catalog
from ....analysis.engine import Figure, FigureRequest, figures
from ....analysis.engine.compile import scattered_figures
from ....analysis.store.doubts import DURATION, Doubt
from ....analysis.store.store import Manifest, Store
from ....analysis.workload import Workload
from ..merging.merge import MergedProfile


class _DraftStore(Store):
    """The tables of a workload that is being written."""

    def file(self, manifest: Manifest, table: str) -> Path | None:
        path = self.root / f"{table}.parquet"
        return path if path.exists() else None


def contradictions(folder: Path, manifest: Manifest, merged: MergedProfile) -> dict[str, Doubt]:
    """Metric -> what its value, beyond any limit, doubts: its counters, where no single pass holds all of them."""
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


def _doubt(target: str, beyond: list[Figure], merged: MergedProfile) -> Doubt:
    worst = max(beyond, key=lambda f: abs(f.value or 0.0))
    read = frozenset[str]().union(*(f.reads for f in beyond)) & set(merged.counters) - {DURATION}
    kernels = tuple(dict.fromkeys(f.kernel or "" for f in beyond))
    cannot_be = f"{worst.name} is {worst.value:.4g} {worst.unit}, which cannot be"
    return Doubt(
        "contradiction",
        f"{cannot_be}: counters of different replays, collect them in one pass",
        same_block(target, sorted(read), merged.counters),
        kernels=kernels if len(kernels) < merged.kernels else None,
    )


def same_block(target: str | None, counters: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """These counters, and of the known ones those of the same part of the hardware, where passes are not told."""
    blocks = (
        {catalog.block(target, c) for c in counters} - {None} if target in catalog.targets_with_metrics() else set()
    )
    return tuple(dict.fromkeys([*counters, *(c for c in known if target and catalog.block(target, c) in blocks)]))
