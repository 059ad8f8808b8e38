"""compute_metrics: the catalogue's figures for one workload, overall or per kernel."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.engine import evaluation as engine
from ..analysis.engine.compile import scattered
from ..analysis.engine.evaluation import View
from ..analysis.store import Manifest, Store
from ..analysis.workload import Workload
from .parameters import Dispatches, KernelName, Metrics, Offset, WorkloadName
from .results import NextCall, Result, Table, table

_SUMMARY = {
    **dict.fromkeys(("id", "name", "title", "kernel", "avg", "min", "max", "unit", "peak")),
    "pct_of_peak": "%",
    **dict.fromkeys(("status", "reason")),
    "n": "dispatches",
}
_FULL = {"q1": None, "median": None, "q3": None, "std": None}


class MetricsResult(Result):
    """Figures of one workload; ``avg`` follows the aggregation, the other statistics are per dispatch."""

    workload: str
    name: str
    arch: str | None
    normalization: str
    aggregation: str
    table: Table


def compute_metrics(
    store: Store,
    workload: WorkloadName,
    metrics: Metrics = ["overview"],  # noqa: B006
    kernel: KernelName = None,
    by_kernel: Annotated[bool, Field(description="a row for each kernel instead of all together")] = False,
    dispatches: Dispatches = None,
    normalization: Annotated[
        Literal["per_kernel", "per_wave", "per_cycle", "per_second"], Field(description="what counts are divided by")
    ] = "per_kernel",
    aggregation: Annotated[
        Literal["sum_ratio", "mean"],
        Field(description="over dispatches: sum of numerators / sum of denominators, or the mean of ratios"),
    ] = "sum_ratio",
    detail: Annotated[Literal["summary", "full"], Field(description="full adds q1, median, q3, std")] = "summary",
    limit: Annotated[int, Field(ge=1, le=100000, description="rows in one answer")] = 60,
    offset: Offset = 0,
) -> MetricsResult:
    """Hardware metrics of a workload (bandwidths, hit rates, stalls, instruction mix, ...) with unit, peak, status and
    reason where a figure is missing or doubtful. Start with the preset "overview"."""
    view = View(kernel, dispatches, by_kernel, normalization, aggregation, quartiles=detail == "full")
    with Workload.open(store, workload) as opened:
        figures = engine.figures(opened, metrics, view)
        mixed = _scattered(opened, figures)
    manifest = opened.manifest
    rows = [_row(f, detail) for f in figures]
    columns = _SUMMARY | (_FULL if detail == "full" else {})
    return MetricsResult(
        workload=manifest.id,
        name=manifest.name,
        arch=manifest.arch,
        normalization=normalization,
        aggregation=aggregation,
        table=table(columns, rows, limit=limit, offset=offset),
        notes=[*_notes(manifest, figures), *mixed],
        next=_next(manifest, figures, by_kernel),
    )


def _row(f: engine.Figure, detail: str) -> list[Any]:
    row = [f.id, f.name, f.metric.title, f.kernel, f.value, f.min, f.max, f.unit, f.peak, f.pct_of_peak]
    return [
        *row,
        f.status,
        f.reason and f.reason.text,
        f.n,
        *([f.q1, f.median, f.q3, f.std] if detail == "full" else []),
    ]


def _notes(manifest: Manifest, figures: list[engine.Figure]) -> list[str]:
    notes = []
    gpu = targets.gpu(manifest.arch or "")
    if any(f.peak is not None for f in figures):
        clock = manifest.facts.get("max_sclk")
        notes.append("Peaks are theoretical" + (f", at the nominal clock of {clock:.0f} MHz." if clock else "."))
    if not gpu.validated_on_hardware:
        notes.append(
            f"Formulas for {gpu.target} are checked against recorded profiles, not yet run on hardware by rooflens."
        )
    missing = sum(1 for f in figures if f.status == "not_collected")
    if missing:
        notes.append(f"{missing} of {len(figures)} figures have no value; the column reason says why.")
    for status in ("impossible", "suspect"):
        if odd := [f.name for f in figures if f.status == status]:
            notes.append(f"{len(odd)} figures are {status}: {', '.join(odd[:5])}{' ...' if len(odd) > 5 else ''}.")
    if any(w.code == "no_timing" for w in manifest.warnings):
        notes.append("The profile has no usable timing for some dispatches; their rates are empty.")
    return notes


def _scattered(workload: Workload, figures: list[engine.Figure]) -> list[str]:
    """Which of the figures combine several runs of the program, whose work and time can differ."""
    metrics = {f.name: f.metric for f in figures if f.value is not None}
    read = {name: catalog.counters(workload.arch, metric) for name, metric in metrics.items()}
    names = scattered(workload, read)
    if not names:
        return []
    shown = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    return [f"{len(names)} figures combine counters of different passes, whose runs can differ: {shown}."]


def _next(manifest: Manifest, figures: list[engine.Figure], by_kernel: bool) -> list[NextCall]:
    suggested = []
    if not by_kernel and manifest.kernels > 1:
        suggested.append(
            NextCall(
                tool="compute_metrics",
                arguments={"workload": manifest.id, "by_kernel": True},
                why=f"the same per kernel ({manifest.kernels} kernels)",
            )
        )
    if any(f.status == "not_collected" for f in figures):
        suggested.append(
            NextCall(tool="list_workloads", arguments={"workload": manifest.id}, why="which passes and counters exist")
        )
    return suggested
