"""The metric engine: formulas over the counters of a workload, evaluated in DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..store.store import Manifest, Store
from ..workload import Workload
from .evaluation import NORMALIZATIONS, Aggregation, Figure, FigureRequest, Normalization, figures

__all__ = ["NORMALIZATIONS", "Aggregation", "Figure", "FigureRequest", "Normalization", "evaluate", "figures"]


def evaluate(
    store: Store,
    workload: str | Manifest,
    metrics: Iterable[str] = ("overview",),
    *,
    kernel: str | None = None,
    by_kernel: bool = False,
    dispatches: str | Sequence[int] | None = None,
    normalization: Normalization = "per_kernel",
    aggregation: Aggregation = "sum_ratio",
    quartiles: bool = True,
) -> list[Figure]:
    """``figures`` for scripts: takes a store and the name of a workload, and selects kernels and dispatches by name."""
    with Workload.open(store, workload) as opened:
        return figures(
            opened, metrics, FigureRequest(kernel, dispatches, by_kernel, normalization, aggregation, quartiles)
        )
