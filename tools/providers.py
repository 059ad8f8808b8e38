"""Tables of the SQL schema that are computed on request instead of read from files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..analysis import catalog, engine
from ..analysis.store import Manifest, Store

Rows = tuple[list[str], list[list[Any]]]
_COLUMNS = [
    "workload",
    "kernel",
    "metric",
    "id",
    "value",
    "min",
    "max",
    "unit",
    "peak",
    "pct_of_peak",
    "status",
    "reason",
    "n",
]


def metric_rows(store: Store, manifests: list[Manifest]) -> Rows:
    """The whole catalogue per kernel (without the per-channel metrics) for every workload whose GPU is known."""
    rows: list[list[Any]] = []
    for manifest in manifests:
        if manifest.arch not in catalog.with_metrics() or not manifest.counters:
            continue
        names = [m.name for m in catalog.metrics(manifest.arch) if m.per == "dispatch"]
        for f in engine.evaluate(store, manifest, names, by_kernel=True, quartiles=False):
            shares = [f.peak, f.pct_of_peak, f.status, f.reason, f.n]
            rows.append([manifest.id, f.kernel, f.name, f.id, f.value, f.min, f.max, f.unit, *shares])
    return _COLUMNS, rows


PROVIDERS: dict[str, Callable[[Store, list[Manifest]], Rows]] = {"metrics": metric_rows}
