"""The rows of computed SQL tables: metrics and findings of a workload, and the log of experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...analysis.base.problems import BadInput
from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue import rules
from ...analysis.comparison import experiment_log
from ...analysis.diagnosis import findings
from ...analysis.diagnosis.account import DEVICE, WAVES
from ...analysis.diagnosis.findings import number
from ...analysis.engine.evaluation import FigureRequest, figures
from ...analysis.store import measured_ceilings
from ...analysis.store.schema import iso
from ...analysis.store.store import Manifest, Store
from ...analysis.tables import TABLES
from ...analysis.timeline.sql_rows import (
    collective_rows,
    gap_rows,
    lane_rows,
    operator_rows,
    phase_rows,
    step_rows,
)
from ...analysis.workload import Workload

Row = dict[str, Any]
"""Values by column; missing columns are NULL."""


@dataclass(frozen=True)
class DerivedTable:
    """A table computed from a workload and the catalogue; ``exists`` tells which workloads have ``rows``."""

    exists: Callable[[Manifest], bool]
    rows: Callable[[Workload], list[Row]]
    measured: bool = False
    """Whether it also depends on the measured ceilings."""


def metric_rows(workload: Workload) -> list[Row]:
    """Return all metrics of the catalogue per kernel, except per-channel metrics."""
    names = [m.name for m in catalog.metrics(workload.arch) if m.per == "dispatch"]
    same = ("kernel", "id", "value", "min", "max", "unit", "peak", "pct_of_peak", "status", "n")
    return [
        {
            "workload": workload.id,
            "metric": f.name,
            "reason": f.reason and f.reason.text,
            **{name: getattr(f, name) for name in same},
        }
        for f in figures(workload, names, FigureRequest(by_kernel=True, quartiles=False))
    ]


_kept: dict[tuple[str, ...], list[findings.Diagnosis]] = {}
"""The last diagnoses, by the workload and the measured ceilings, because several tables are derived from them."""
_MOST_KEPT = 64
"""An export computes one table of every workload after the other, so that it needs the diagnoses of all of them."""


def _diagnoses(workload: Workload) -> list[findings.Diagnosis]:
    """Return the diagnoses of all kernels, which are computed once for all tables of a workload."""
    store = workload.store
    key = (str(store.root), workload.id, *(path.name for path in measured_ceilings.files(store)))
    diagnoses = _kept.get(key)
    if diagnoses is None:
        diagnoses = _kept[key] = findings.diagnose(workload)[0]
        for older in list(_kept)[:-_MOST_KEPT]:
            _kept.pop(older, None)
    return diagnoses


def _kernel_rows(workload: Workload, rows: Callable[[findings.Diagnosis], Iterable[Row]]) -> list[Row]:
    """Return rows of the diagnosis of every kernel."""
    return [{"workload": workload.id, "kernel": d.kernel, **row} for d in _diagnoses(workload) for row in rows(d)]


def _finding_rows(one: findings.Diagnosis) -> list[Row]:
    """Return every finding, the verdict's first."""
    verdict = {
        "verdict": one.verdict.subsystem,
        "confidence": one.verdict.confidence,
        "share_pct": one.share_pct,
    }
    return [
        {
            **verdict,
            **{name: getattr(f, name) for name in ("subsystem", "severity", "claim", "speedup_bound")},
            "evidence": "; ".join(
                f"{e.metric} = {number(e.value)} {e.unit}{f' ({e.threshold})' if e.threshold else ''}"
                for e in f.evidence
            ),
            "advice": "; ".join(a.do for a in f.advice),
        }
        for f in one.findings
    ] or [{**verdict, "subsystem": "unknown", "claim": "The collected data does not show what limits it."}]


def _load_rows(one: findings.Diagnosis) -> list[Row]:
    """Return the load of every unit."""
    same = ("unit", "label", "pct", "cycles_pct", "work_pct", "status")
    return [
        {name: getattr(load, name) for name in same} | {"reason": load.reason and load.reason.text}
        for load in one.units
    ]


def _account_rows(one: findings.Diagnosis) -> list[Row]:
    """Return the parts of the device's time and of the waves' lifetime."""
    return [
        {"view": view, "part": part.name, "title": part.title, "share_pct": part.pct}
        for view, account in ((DEVICE, one.device_time), (WAVES, one.wave_time))
        for part in account
    ]


def log_rows(store: Store, manifests: Iterable[Manifest]) -> list[Row]:
    """Return the experiments that one of these workloads was measured for, oldest first."""
    ids = {m.id for m in manifests}
    rows: list[Row] = []
    for entry in experiment_log.entries(store):
        if not ids & {entry.workload, entry.baseline}:
            continue
        experiment: Row = {
            "workload": entry.workload,
            "baseline": entry.baseline,
            "created": iso(entry.created_ns),
            "hypothesis": entry.hypothesis or None,
            "change": entry.change or None,
        }
        if file := entry.binary:
            experiment |= {
                "program": file.path,
                "program_bytes": file.size,
                "program_sha256": file.sha256,
                "program_modified": iso(file.modified_ns),
            }
        rows += [
            experiment
            | o.model_dump(include={"kernel", "verdict", "speedup", "low", "high", "same_work"})
            | {"note": o.why}
            for o in entry.outcomes
        ] or [experiment]
    return rows


def _has_metrics(manifest: Manifest) -> bool:
    return manifest.arch in catalog.targets_with_metrics() and bool(manifest.counters)


def _has_rules(manifest: Manifest) -> bool:
    return _has_metrics(manifest) and bool(rules.rules(manifest.arch or ""))


def _with_workload(rows: Callable[[Workload], list[Row]], workload: Workload) -> list[Row]:
    """Return the rows of a declared table with the id of the workload; none if it has no device work."""
    try:
        return [{"workload": workload.id, **row} for row in rows(workload)]
    except BadInput:
        return []


_DIAGNOSES = {"findings": _finding_rows, "loads": _load_rows, "accounts": _account_rows}
_TIMELINES = {
    "steps": step_rows,
    "phases": phase_rows,
    "lanes": lane_rows,
    "gaps": gap_rows,
    "operators": operator_rows,
    "collectives": collective_rows,
}
DERIVED = {
    "metrics": DerivedTable(_has_metrics, metric_rows),
    **{
        name: DerivedTable(_has_rules, partial(_kernel_rows, rows=rows), measured=True)
        for name, rows in _DIAGNOSES.items()
    },
    **{
        name: DerivedTable(lambda manifest: bool(manifest.events), rows, measured=name == "operators")
        for name, rows in _TIMELINES.items()
    },
    **{
        table.name: DerivedTable(table.exists, partial(_with_workload, table.rows))
        for table in TABLES.values()
        if table.rows
    },
}
