"""The table findings: what is concluded from the figures of each kernel, the finding of the verdict first."""

from __future__ import annotations

from collections.abc import Sequence

from ..catalogue import rules
from ..diagnosis.findings import Diagnosis, Finding, diagnose, number
from ..store.manifest import Manifest
from ..workload import Workload
from .declaration import Column, DerivedTable, Row
from .metrics import has_metrics

_NONE = {"subsystem": "unknown", "claim": "The collected data does not show what limits it."}


def diagnoses(workload: Workload) -> list[Diagnosis]:
    """Return the diagnoses of all kernels, from which several tables are made."""
    return diagnose(workload)[0]


def has_rules(manifest: Manifest) -> bool:
    """Whether a workload can be diagnosed."""
    return has_metrics(manifest) and bool(rules.rules(manifest.arch or ""))


def rows(kernels: Sequence[Diagnosis]) -> list[Row]:
    """Return every finding of the diagnosed kernels; one that says so for a kernel without any."""
    return [
        {
            "kernel": one.kernel,
            "verdict": one.verdict.subsystem,
            "confidence": one.verdict.confidence,
            "share_pct": one.share_pct,
            **finding,
        }
        for one in kernels
        for finding in [_finding(each) for each in one.findings] or [_NONE]
    ]


def _finding(finding: Finding) -> Row:
    evidence = (
        f"{e.metric} = {number(e.value)} {e.unit}{f' ({e.threshold})' if e.threshold else ''}" for e in finding.evidence
    )
    return {
        **{name: getattr(finding, name) for name in ("subsystem", "severity", "claim", "speedup_bound")},
        "evidence": "; ".join(evidence),
        "advice": "; ".join(advice.do for advice in finding.advice),
    }


TABLE = DerivedTable(
    "findings",
    "What diagnose_bottleneck concludes, per kernel and subsystem.",
    {
        "kernel": Column("VARCHAR", "Readable kernel name"),
        "subsystem": Column("VARCHAR", "Such as hbm or lds"),
        "severity": Column("DOUBLE", "0 to 100"),
        "claim": Column("VARCHAR", "One sentence"),
        "evidence": Column("VARCHAR", "Figures behind it"),
        "advice": Column("VARCHAR", "What to try"),
        "speedup_bound": Column("DOUBLE", "At most, if fixed"),
        "verdict": Column("VARCHAR", "Subsystem that holds the kernel back first"),
        "confidence": Column("DOUBLE", "Of the verdict, 0 to 1"),
        "share_pct": Column("DOUBLE", "Of the time", "%"),
    },
    rows=rows,
    source=diagnoses,
    exists=has_rules,
    measured=True,
)
