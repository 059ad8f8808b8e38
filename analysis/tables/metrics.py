"""The table metrics: the catalogue of metrics, computed for each kernel."""

from __future__ import annotations

from ..catalogue import metrics as catalog
from ..engine.evaluation import FigureRequest, figures
from ..store.manifest import Manifest
from ..workload import Workload
from .declaration import Column, DerivedTable, Row

_SAME = ("kernel", "id", "value", "unit", "peak", "pct_of_peak", "status", "n")


def rows(workload: Workload) -> list[Row]:
    """Return all metrics of the catalogue for each kernel, except per-channel metrics."""
    names = [m.name for m in catalog.metrics(workload.arch) if m.per == "dispatch"]
    return [
        {"metric": f.name, "reason": f.reason and f.reason.text, "min": f.over.min, "max": f.over.max}
        | {name: getattr(f, name) for name in _SAME}
        for f in figures(workload, names, FigureRequest(by_kernel=True, quartiles=False))
    ]


def has_metrics(manifest: Manifest) -> bool:
    """Whether metrics can be computed from the counters of a workload."""
    return manifest.arch in catalog.targets_with_metrics() and bool(manifest.counters)


TABLE = DerivedTable(
    "metrics",
    "The metric catalogue per kernel, computed on the first query, then cached.",
    {
        "kernel": Column("VARCHAR", "Readable kernel name"),
        "metric": Column("VARCHAR", "Name of the metric, such as l2.hit_rate_pct"),
        "id": Column("VARCHAR", "Number of the metric in rocprof-compute, such as 17.3.7"),
        "value": Column("DOUBLE", "Value over all launches of the kernel, in the unit of the row"),
        "min": Column("DOUBLE", "Least value of one launch"),
        "max": Column("DOUBLE", "Greatest value of one launch"),
        "unit": Column("VARCHAR", "Unit of value, min, max and peak"),
        "peak": Column("DOUBLE", "What the hardware can reach"),
        "pct_of_peak": Column("DOUBLE", "value as a share of peak", "%"),
        "status": Column("VARCHAR", "ok, suspect, impossible, undefined (0/0), not_collected or not_supported"),
        "reason": Column("VARCHAR", "Why the status is not ok"),
        "n": Column("BIGINT", "Launches behind the value"),
    },
    rows=rows,
    exists=has_metrics,
)
