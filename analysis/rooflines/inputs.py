"""What every roofline starts from: the work that kernels did, and the ceilings that it is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..catalogue import metrics as catalog
from ..catalogue.work import Family, family, formulas
from ..engine.compile import scattered
from ..engine.sums import By, Collected, Page, collect
from ..problems import BadInput
from ..workload import Workload
from .ceilings import Ceilings, Source, choose


@dataclass(frozen=True)
class Asked:
    """Which kernels (or dispatches) a roofline shows, as ``Workload.select`` and ``Page`` take them."""

    kernel: str | Sequence[str] | None = None
    dispatches: str | Sequence[int] | None = None
    by: By = "kernel"
    limit: int = 100_000
    offset: int = 0


@dataclass(frozen=True)
class RooflineInputs:
    """What both kinds of roofline start from: the work done, the ceilings, the formulas and the device's facts."""

    target: str
    formulas: Family
    facts: Mapping[str, float]
    collected: Collected
    ceilings: Ceilings
    theory: Ceilings
    asked: Asked
    scattered: list[str]
    """Levels whose bytes were counted in another pass than the operations, or these in several."""


def prepare(
    workload: Workload, asked: Asked, source: Source = "empirical", by_hand: Mapping[str, float] | None = None
) -> RooflineInputs:
    """Collect the work of the kernels asked for and choose the ceilings. Raises BadInput for an unknown target."""
    target = workload.arch
    if target not in catalog.with_metrics():
        raise BadInput(
            f"No roofline formulas are known for workload {workload.name!r}",
            f"its GPU target is {workload.arch or 'not stated in the profile'}",
            f"Import it again with gpu= one of {', '.join(catalog.with_metrics())}",
        )
    page = Page(workload.select(asked.kernel, asked.dispatches), asked.by, asked.limit, asked.offset)
    collected = collect(workload, formulas(target), page)
    chosen, theory = choose(workload, source, by_hand)
    stated = family(workload.target.family, target)
    counts = [o.count for o in stated.operations(target, "flop")]
    read = {level.name: catalog.counters_of(target, [level.bytes, *counts]) for level in stated.level}
    apart = scattered(workload, read)
    return RooflineInputs(target, stated, workload.facts, collected, chosen, theory, asked, apart)
