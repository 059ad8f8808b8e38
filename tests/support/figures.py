"""Figures of a stored workload by its name, as most tests of the metric engine ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rooflens.analysis.engine.evaluation import Aggregation, Figure, FigureRequest, Normalization, figures
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tools.sql import unlimited_query


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
    """The figures of a workload, opened for this question alone."""
    with Workload.open(store, workload) as opened:
        return figures(
            opened, metrics, FigureRequest(kernel, dispatches, by_kernel, normalization, aggregation, quartiles)
        )


def sql_rows(store: Store, sql: str) -> list[list[Any]]:
    """The rows of a query over all workloads, read in this process."""
    columns = unlimited_query.query(store, store.scan()[0], sql).columns
    return [list(row) for row in zip(*(column.tolist() for column in columns.values()), strict=True)]
