"""Tables of the SQL schema that are computed on request instead of read from files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...analysis import experiments
from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue import rules
from ...analysis.diagnosis import findings
from ...analysis.diagnosis.findings import number
from ...analysis.engine import evaluation as engine
from ...analysis.schema import iso, schema
from ...analysis.store import Manifest, Store
from ...analysis.workload import Workload

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
        with Workload(store, manifest) as workload:
            figures = engine.figures(workload, names, engine.View(by_kernel=True, quartiles=False))
        for f in figures:
            shares = [f.peak, f.pct_of_peak, f.status, f.reason and f.reason.text, f.n]
            rows.append([manifest.id, f.kernel, f.name, f.id, f.value, f.min, f.max, f.unit, *shares])
    return _COLUMNS, rows


def log_rows(store: Store, manifests: list[Manifest]) -> Rows:
    """The experiments that one of these workloads was measured for, oldest first."""
    known = {m.id for m in manifests}
    rows = [
        [entry.workload, entry.baseline, iso(entry.created_ns), *row]
        for entry in experiments.entries(store)
        if known & {entry.workload, entry.baseline}
        for row in _outcomes(entry)
    ]
    return list(schema()["log"].columns), rows


def _outcomes(entry: experiments.Entry) -> list[list[Any]]:
    texts = [entry.hypothesis or None, entry.change or None]
    rows: list[list[Any]] = [
        [o.kernel, *texts, o.verdict, o.speedup, o.low, o.high, o.same_work, o.why] for o in entry.outcomes
    ]
    return rows or [[None, *texts, None, None, None, None, None, None]]


def finding_rows(store: Store, manifests: list[Manifest]) -> Rows:
    """Every finding about every kernel of the workloads whose GPU has rules, the verdict's first."""
    rows: list[list[Any]] = []
    for manifest in manifests:
        if not manifest.counters or manifest.arch not in catalog.with_metrics() or not rules.rules(manifest.arch):
            continue
        with Workload(store, manifest) as workload:
            diagnoses, _ = findings.diagnose(workload)
        for one in diagnoses:
            sure = [one.verdict.subsystem, one.verdict.confidence]
            for f in one.findings:
                advice = "; ".join(a.do for a in f.advice)
                named = [f.subsystem, f.severity, f.claim, _evidence(f), advice, f.speedup_bound]
                rows.append([manifest.id, one.kernel, *named, *sure, one.share_pct])
            if not one.findings:
                named = ["unknown", None, "Nothing that was collected tells what limits it.", None, None, None]
                rows.append([manifest.id, one.kernel, *named, *sure, one.share_pct])
    return list(schema()["findings"].columns), rows


def _evidence(found: findings.Finding) -> str:
    return "; ".join(
        f"{e.metric} = {number(e.value)} {e.unit}{f' ({e.threshold})' if e.threshold else ''}" for e in found.evidence
    )


PROVIDERS: dict[str, Callable[[Store, list[Manifest]], Rows]] = {
    "metrics": metric_rows,
    "log": log_rows,
    "findings": finding_rows,
}
