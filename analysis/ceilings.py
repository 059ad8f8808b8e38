"""What a device can reach: theoretical ceilings from facts, empirical ones from the store, never mixed in one set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from . import catalog
from .formula import references
from .problems import BadArgument, near
from .products import Product, identify
from .store import Manifest, Store, sql_literal
from .work import Bound, Family, family

if TYPE_CHECKING:
    import duckdb

Source = Literal["empirical", "theoretical"]
_MEMORY = ("max_mclk", "num_hbm_channels", "hbm_bw_gbs")
_STALE_DAYS = 90


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
class Ceilings:
    """A set of ceilings of one kind for one device; ``missing`` says in words why some have no value."""

    kind: Source
    device: str
    known: dict[str, Ceiling]
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

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


def empirical(con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest) -> Ceilings | None:
    """The measured ceilings of a workload's device: those that came with it, else those of the same product.

    Of several devices in one file, device 0 is taken, as profilers and benchmarks number GPUs differently. Ceilings
    of another machine or an old measurement are used with a note; those of another product never.
    """
    others = [m for m in reversed(store.scan()[0]) if m.id != manifest.id and _same_product(m, manifest)]
    others.sort(key=lambda m: m.host is None or m.host != manifest.host)
    for candidate in [manifest, *others]:
        path = store.file(candidate, "ceilings")
        if path is None:
            continue
        rows = con.execute(
            "SELECT ceiling, unit, value, low, high, device_id, method, measured_at, device_uuid, gpu "
            f"FROM read_parquet({sql_literal(str(path))}) WHERE kind = 'empirical' AND value > 0 "
            "ORDER BY device_id NULLS FIRST"
        ).fetchall()
        rows = [r for r in rows if r[9] in (None, "", manifest.arch)]
        if not rows:
            continue
        device = rows[0][5]
        chosen = [r for r in rows if r[5] == device]
        notes = _origin(manifest, candidate, sorted({r[5] for r in rows if r[5] is not None}), chosen[0])
        names = _names(manifest)
        known = {}
        for name, unit, value, low, high, _, method, at, *_ in chosen:
            origin = f"{method or 'measured'}{f', {at}' if at else ''}"
            known[name] = Ceiling(name, names.get(name, unit), value, "empirical", origin, low, high)
        title = (
            f"{candidate.device or candidate.arch} ({candidate.arch}), device {device if device is not None else '?'}"
        )
        return _with_likes(Ceilings("empirical", title, known, {}, notes), manifest)
    return None


def given(manifest: Manifest, values: Mapping[str, float], known: Ceilings | None) -> Ceilings:
    """Ceilings that the caller states (GB/s, GFLOP/s, GIOP/s, GIPS by name); they override measured ones by name.

    Raises BadArgument for an unknown name or a value that is no positive number.
    """
    names = _names(manifest)
    found = {}
    for word, value in values.items():
        name = word if word in names else f"{word}.bw"
        if name not in names:
            raise BadArgument(f"Unknown ceiling {word!r}", near(word, names), f"Known: {', '.join(names)}")
        if not math.isfinite(value) or value <= 0:
            raise BadArgument(f"The ceiling {word!r} is {value!r}", "it must be a positive number", f"In {names[name]}")
        found[name] = Ceiling(name, names[name], float(value), "empirical", "given by the caller")
    base = known or Ceilings("empirical", manifest.device or manifest.arch or "unknown device", {})
    measured = {n: c for n, c in base.known.items() if not c.source.startswith("like ")}
    note = f"Given by the caller: {', '.join(found)}; these count before measured ones."
    return _with_likes(replace(base, known=measured | found, notes=[*base.notes, note]), manifest)


def choose(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    manifest: Manifest,
    source: Source,
    by_hand: Mapping[str, float] | None = None,
) -> tuple[Ceilings, Ceilings]:
    """The set of ceilings to use, and the theoretical one to judge by what is possible.

    Asked for empirical ones where there are none, it falls back to theory as a whole and says so.
    """
    theory = of_workload(con, manifest)
    if source == "theoretical":
        if by_hand:
            raise BadArgument(
                "Ceilings given by hand are empirical",
                "they are never mixed with theory",
                'Use ceiling_source="empirical"',
            )
        return theory, theory
    found = empirical(con, store, manifest)
    if by_hand:
        return given(manifest, by_hand, found), theory
    if found is not None:
        return found, theory
    note = "No measured ceilings of this device are in the store: these are theoretical, which no kernel quite reaches."
    return replace(theory, notes=[note, *theory.notes]), theory


def _names(manifest: Manifest) -> dict[str, str]:
    """Every ceiling's name and unit for a workload's target."""
    formulas = family(catalog.gpu(manifest.arch or "").family, manifest.arch or "")
    return {b.key: b.unit for b in formulas.bounds}


def _with_likes(found: Ceilings, manifest: Manifest) -> Ceilings:
    """Add ceilings that follow from a measured one, such as instruction issue from the rate of FP32 multiply-adds."""
    formulas = family(catalog.gpu(manifest.arch or "").family, manifest.arch or "")
    added = {}
    for bound in formulas.bounds:
        if bound.key in found.known or bound.like is None or bound.like.name not in found.known:
            continue
        base = found.known[bound.like.name]
        added[bound.name] = Ceiling(
            bound.name,
            bound.unit,
            base.value * bound.like.factor,
            "empirical",
            f"like {base.name} x {bound.like.factor:g}",
        )
    missing = {b.key: "not measured" for b in formulas.bounds if b.key not in found.known | added}
    return replace(found, known=found.known | added, missing=missing)


def _same_product(one: Manifest, other: Manifest) -> bool:
    """Whether ceilings of one workload's device say anything about another's: same target, units and clock."""
    facts = ("cu_per_gpu", "max_sclk", "num_xcd")
    alike = all(one.facts.get(f) == other.facts.get(f) for f in facts)
    return one.arch == other.arch and (one.device or "") == (other.device or "") and alike


def _origin(manifest: Manifest, candidate: Manifest, devices: list[int], row: tuple[object, ...]) -> list[str]:
    """Where the ceilings come from, in words, and what speaks against them."""
    method, at = row[6] or "an unnamed benchmark", row[7]
    notes = [
        f"Ceilings measured by {method}{f', {at}' if at else ''}, device {row[5]}: lower bounds of what is possible, "
        "so more than 100 % of one can be right."
    ]
    if len(devices) > 1:
        notes.append(f"That file holds devices {', '.join(map(str, devices))}; their ceilings differ by a few percent.")
    if candidate.id != manifest.id:
        same = candidate.host is not None and candidate.host == manifest.host
        where = "of the same machine" if same else "of ANOTHER device of the same product"
        notes.append(f"The ceilings are {where}: they came with workload {candidate.id}, not with this one.")
        age = _age_days(str(at or ""), manifest)
        if age is not None and age > _STALE_DAYS:
            notes.append(f"The ceilings are STALE: measured {age:.0f} days apart from this workload.")
    return notes


def _age_days(at: str, manifest: Manifest) -> float | None:
    """Days between a measurement and a workload's entry into the store; None where the date cannot be read."""
    text = at.split(" (")[0].strip()
    for read in (datetime.fromisoformat, lambda t: datetime.strptime(t, "%a %b %d %H:%M:%S %Y")):
        try:
            when = read(text.replace("Z", "+00:00"))
        except ValueError:
            continue
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return abs(manifest.created_ns / 1e9 - when.timestamp()) / 86_400
    return None


def _inputs(names: frozenset[str], facts: Mapping[str, float]) -> str:
    return ", ".join(f"{n} = {facts[n]:g}" for n in sorted(names))
