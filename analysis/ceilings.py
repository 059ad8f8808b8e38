"""What a device can reach by theory: units x rate per clock x clock, from the facts of targets and products."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from . import catalog
from .formula import references
from .products import Product, identify
from .store import Manifest
from .work import Bound, Family, family

if TYPE_CHECKING:
    import duckdb

Source = Literal["empirical", "theoretical"]
_MEMORY = ("max_mclk", "num_hbm_channels", "hbm_bw_gbs")


@dataclass(frozen=True)
class Ceiling:
    """One ceiling, in GB/s, GFLOP/s, GIOP/s or GIPS.

    ``source`` says how it was found: the formula with its inputs, or the tool that measured it and when.
    ``low`` and ``high`` are the interval of a measurement, where it states one.
    """

    name: str
    unit: str
    value: float
    kind: Source
    source: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SweepPoint:
    """What was reached at one intensity (operations per byte of device memory): a point of the measured roof."""

    name: str
    intensity: float
    value: float
    unit: str


@dataclass(frozen=True)
class Ceilings:
    """A set of ceilings of one kind for one device; ``missing`` says in words why some have no value."""

    kind: Source
    device: str
    known: dict[str, Ceiling]
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sweep: tuple[SweepPoint, ...] = ()

    def value(self, name: str) -> float | None:
        """One ceiling in its unit, or None."""
        return self.known[name].value if name in self.known else None

    def ridge(self, compute: str, level: str) -> float | None:
        """The intensity (operations per byte) at which a level's bandwidth meets a compute ceiling."""
        peak, bandwidth = self.value(compute), self.value(f"{level}.bw")
        return peak / bandwidth if peak is not None and bandwidth else None


def of_product(con: duckdb.DuckDBPyConnection, product: Product) -> Ceilings:
    """The theoretical ceilings of a product, from its data sheet and the facts of its target."""
    formulas = family(product.family, product.target)
    facts = {name: fact.value for name, fact in (formulas.facts | product.all_facts).items()}
    return theoretical(con, formulas, facts, product.title)


def theoretical(con: duckdb.DuckDBPyConnection, formulas: Family, facts: Mapping[str, float], device: str) -> Ceilings:
    """Evaluate the ceiling formulas of a family over facts: clock x units x rate per clock.

    A rate that the target does not have is left out; a device figure that is unknown (a clock) is named in ``missing``.
    """
    needs = references([f for b in formulas.bounds for f in b.ceiling])
    ready: dict[str, tuple[Bound, str]] = {}
    missing: dict[str, str] = {}
    for bound in formulas.bounds:
        lacks = [sorted(needs[f] - facts.keys()) for f in bound.ceiling]
        if [] in lacks:
            ready[bound.key] = (bound, bound.ceiling[lacks.index([])])
        elif not any(name.endswith("_clk") for name in lacks[0]):
            missing[bound.key] = f"{', '.join(lacks[0])} unknown"
    if not ready:
        return Ceilings("theoretical", device, {}, missing)
    given = ", ".join(f"{v!r}::DOUBLE AS {k}" for k, v in facts.items())
    items = ", ".join(f"({formula})::DOUBLE" for _, formula in ready.values())
    values = con.execute(f"SELECT {items} FROM (SELECT {given})").fetchone() or ()
    known = {
        name: Ceiling(name, bound.unit, float(value), "theoretical", f"{formula}: {_inputs(needs[formula], facts)}")
        for (name, (bound, formula)), value in zip(ready.items(), values, strict=True)
        if value is not None and math.isfinite(value) and value > 0
    }
    return Ceilings("theoretical", device, known, missing)


def of_workload(con: duckdb.DuckDBPyConnection, manifest: Manifest) -> Ceilings:
    """The theoretical ceilings of the device that a workload ran on.

    Its own facts count first; what they leave open, and the memory, comes from the data sheet where the product is
    known beyond doubt.
    """
    target = catalog.gpu(manifest.arch or "")
    formulas = family(target.family, target.target)
    facts = {n: f.value for n, f in (formulas.facts | target.facts).items()} | manifest.facts
    device = f"{manifest.device or target.title} ({target.target})"
    product, notes = identify(manifest.device, manifest.arch, manifest.facts), []
    if product is not None:
        sheet = {name: fact.value for name, fact in product.facts.items()}
        taken = sorted(n for n in sheet.keys() - manifest.facts.keys() if n not in _MEMORY or "max_mclk" not in facts)
        contradicted = sorted(n for n in _MEMORY if n in sheet and manifest.facts.get(n, sheet[n]) != sheet[n])
        facts |= {n: sheet[n] for n in taken} | {n: sheet[n] for n in _MEMORY if n in sheet}
        if taken:
            notes.append(
                f"Not stated in the profile and taken from the data sheet of {product.title}: {', '.join(taken)}."
            )
        for name in contradicted:
            notes.append(
                f"The profile states {name} = {manifest.facts[name]:g}, the data sheet of {product.title} "
                f"{sheet[name]:g}; the data sheet counts here."
            )
    return replace(theoretical(con, formulas, facts, device), notes=notes)


def _inputs(names: frozenset[str], facts: Mapping[str, float]) -> str:
    return ", ".join(f"{n} = {facts[n]:g}" for n in sorted(names))
