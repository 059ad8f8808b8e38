"""What every roofline starts from: the work that kernels did, and the ceilings that it is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..catalogue import metrics as catalog
from ..catalogue import targets
from ..catalogue.work import Family, family, formulas
from ..engine.compile import facts_of, scattered
from ..engine.sums import By, Collected, collect
from ..problems import BadInput
from ..store import Manifest, Store
from ..workload import choose
from . import ceilings as measured
from .ceilings import Ceilings, Source

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Scene:
    """What both kinds of roofline start from: the work done, the ceilings, the formulas and the device's facts."""

    target: str
    formulas: Family
    facts: Mapping[str, float]
    collected: Collected
    ceilings: Ceilings
    theory: Ceilings
    scattered: list[str]
    """Levels whose bytes were counted in another pass than the operations, or these in several."""


def prepare(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    manifest: Manifest,
    kernel: str | None,
    dispatches: str | Sequence[int] | None,
    by: By,
    source: Source,
    by_hand: Mapping[str, float] | None,
    limit: int,
    offset: int,
) -> Scene:
    """Collect the work of the kernels asked for and choose the ceilings. Raises BadInput for an unknown target."""
    target = manifest.arch or ""
    if target not in catalog.with_metrics():
        raise BadInput(
            f"No roofline formulas are known for workload {manifest.name!r}",
            f"its GPU target is {manifest.arch or 'not stated in the profile'}",
            f"Import it again with gpu= one of {', '.join(catalog.with_metrics())}",
        )
    selection = choose(con, store, manifest, kernel, dispatches)
    collected = collect(con, store, manifest, selection, formulas(target), by, limit, offset)
    chosen, theory = measured.choose(con, store, manifest, source, by_hand)
    known = family(targets.gpu(target).family, target)
    counts = [o.count for o in known.operations(target, "flop")]
    read = {level.name: catalog.counters_of(target, [level.bytes, *counts]) for level in known.level}
    mixed = scattered(con, store, manifest, read)
    return Scene(target, known, facts_of(manifest), collected, chosen, theory, mixed)
