"""The inputs of every roofline: the work of the kernels, and the ceilings that it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..base.notes import Reason
from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.work_formulas import WorkFormulas, formulas, work_formulas
from ..engine.compile import scattered_figures
from ..engine.evaluation import Figure, FigureRequest, figures
from ..engine.expressions import Values, inputs_of
from ..engine.time_shares import replace_cycle_shares_by_time
from ..engine.work_sums import TIME, WorkSelection, WorkSums, WorkUnit, collect
from ..launches.coverage import uncounted_kernels
from ..store.doubts import Doubts
from ..workload import Workload
from .ceilings import Ceilings, CeilingSource, choose, device_facts


@dataclass(frozen=True)
class RooflineRequest:
    """Which kernels (or dispatches) a roofline shows; arguments of ``Workload.select`` and ``WorkSelection``."""

    kernel: str | Sequence[str] | None = None
    dispatches: str | Sequence[int] | None = None
    by: WorkUnit = "kernel"
    limit: int = 100_000
    offset: int = 0
    called: str | None = None
    """The name of the rows in notes, if they are not kernels or dispatches."""


@dataclass(frozen=True)
class RooflineInputs:
    """The inputs of both kinds of roofline: the work, the ceilings, the formulas and the facts of the device."""

    target: str
    formulas: WorkFormulas
    facts: Mapping[str, float]
    collected: WorkSums
    ceilings: Ceilings
    sustained: Ceilings
    """The rates that units are known to sustain, whatever ceilings are shown; loads are relative to these."""
    theory: Ceilings
    asked: RooflineRequest
    uncounted: set[str]
    """Kernels without any counted launch, in a profile with counters for others."""
    doubts: Doubts
    scattered: list[str]
    """Levels whose bytes and operations were counted in different passes."""
    figures: Mapping[str, Values]
    """Kernel -> the metrics and facts that the loads of its units are computed from; empty for single dispatches."""

    def doubt(self, kernel: str, quantities: Iterable[str]) -> Reason | None:
        """The reason why a figure computed from these quantities of a kernel and its time is doubted, or None."""
        return self.doubts.about(self.collected.columns_behind([*quantities, TIME]), [kernel])


def prepare_inputs(
    workload: Workload,
    asked: RooflineRequest,
    source: CeilingSource = "empirical",
    by_hand: Mapping[str, float] | None = None,
    known: Mapping[str, Values] | None = None,
) -> RooflineInputs:
    """Collect the work of the requested kernels and choose the ceilings. Raises BadInput for an unknown target.

    ``known`` are the figures of the kernels, if the caller already has them.
    """
    target = workload.arch
    if target not in catalog.targets_with_metrics():
        raise workload.no_formulas()
    page = WorkSelection(workload.select(asked.kernel, asked.dispatches), asked.by, asked.limit, asked.offset)
    collected = collect(workload, formulas(target), page)
    chosen, theory = choose(workload, source, by_hand)
    sustained = chosen if source == "empirical" else choose(workload, "empirical", by_hand)[0]
    stated = work_formulas(target)
    counts = [o.count for o in stated.operations("flop")]
    counters_of_levels = {level.name: catalog.counters_of(target, [level.bytes, *counts]) for level in stated.level}
    scattered_levels = scattered_figures(workload, counters_of_levels)
    kernels = [work.kernel for work in collected.groups]
    if known is None:
        known = _figures(workload, asked, kernels) if asked.by == "kernel" else {}
    return RooflineInputs(
        target, stated, workload.facts, collected, chosen, sustained, theory, asked,
        uncounted_kernels(workload, kernels), workload.doubts, scattered_levels, known,
    )  # fmt: skip


def _figures(workload: Workload, asked: RooflineRequest, kernels: list[str]) -> dict[str, Values]:
    """The figures that the loads of these kernels are computed from."""
    wanted = rules.metrics_of_limits(workload.arch)
    if not wanted or not kernels:
        return {}
    figures_of_kernels: dict[str, dict[str, Figure]] = {kernel: {} for kernel in kernels}
    view = FigureRequest(kernel=kernels, dispatches=asked.dispatches, by_kernel=True, quartiles=False)
    for figure in replace_cycle_shares_by_time(workload, figures(workload, wanted, view), view):
        figures_of_kernels[figure.kernel or ""][figure.name] = figure
    facts, _ = device_facts(workload)
    return {kernel: inputs_of(of_kernel, facts) for kernel, of_kernel in figures_of_kernels.items()}
