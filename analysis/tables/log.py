"""The table log: the experiments, what was tried with the outcome."""

from __future__ import annotations

from collections.abc import Iterable

from ..comparison import experiment_log
from ..store.manifest import Manifest
from ..store.schema import iso
from ..store.store import Store
from .declaration import Column, DerivedTable, Row


def rows(store: Store, manifests: Iterable[Manifest]) -> list[Row]:
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


TABLE = DerivedTable(
    "log",
    "The experiment log: what was tried, with the outcome.",
    {
        "baseline": Column("VARCHAR", "Id of the one compared with; NULL for a profile"),
        "created": Column("VARCHAR", "When: ISO 8601", "UTC"),
        "kernel": Column("VARCHAR", "Kernel or group"),
        "hypothesis": Column("VARCHAR", "What was expected, and why"),
        "change": Column("VARCHAR", "What was changed"),
        "program": Column("VARCHAR", "File that was profiled, where rooflens started it"),
        "program_bytes": Column("BIGINT", "Its size", "bytes"),
        "program_sha256": Column("VARCHAR", "Its digest: equal for the same build"),
        "program_modified": Column("VARCHAR", "When it was built: UTC, ISO 8601"),
        "verdict": Column("VARCHAR", "improved, regressed or inconclusive"),
        "speedup": Column("DOUBLE", "Time before / after"),
        "low": Column("DOUBLE", "Ends of its 95 % interval"),
        "high": Column("DOUBLE", "Ends of its 95 % interval"),
        "same_work": Column("VARCHAR", "yes, probably, probably_not, no or unknown"),
        "note": Column("VARCHAR", "Why this verdict"),
    },
    fill=rows,
)
