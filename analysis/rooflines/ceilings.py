"""The ceilings that count for a workload: theory, measured, recorded with a profile, or stated by hand; never mixed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from .. import measured_ceilings as peaks
from ..catalogue import targets
from ..catalogue.formula import references
from ..catalogue.products import Product, identify
from ..catalogue.work import Bound, Family, family
from ..problems import BadArgument, near
from ..store import Manifest
from ..workload import Workload

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


def of_workload(workload: Workload) -> Ceilings:
    """The theoretical ceilings of the device that a workload ran on.

    Its own facts count first; what they leave open, and the memory, comes from the data sheet where the product is
    known beyond doubt.
    """
    target, manifest = workload.target, workload.manifest
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
    return replace(theoretical(workload.cursor, formulas, facts, device), notes=notes)


def _inputs(names: frozenset[str], facts: Mapping[str, float]) -> str:
    return ", ".join(f"{n} = {facts[n]:g}" for n in sorted(names))


_MODES = ("full", "quick")
"""The fuller measurement counts."""
_UNIT = "GB/s"


@dataclass(frozen=True)
class Benchmarked:
    """Measured ceilings, whether they are of the very device (``exact``), and when they were measured last."""

    ceilings: Ceilings
    exact: bool
    measured_at: str


def of_device(workload: Workload, names: Sequence[str]) -> Benchmarked | None:
    """The ceilings ``names`` and the sweeps of the device that a workload ran on, else of another of its product.

    Devices of the workload's machine come before others, then newer measurements before older ones. Figures above
    theory never count.
    """
    manifest = workload.manifest
    devices: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in peaks.latest(workload.cursor, workload.store):
        if row["gpu"] == manifest.arch and row["status"] in peaks.USABLE and row["value"] and row["mode"] in _MODES:
            devices.setdefault((row["device_uuid"], row["partition"]), []).append(row)
    fitting = [rows for rows in devices.values() if _is(rows[0], manifest) or _alike(rows[0], manifest)]
    if not fitting:
        return None
    rows = max(fitting, key=lambda r: (_is(r[0], manifest), r[0]["host"] == manifest.host, r[0]["measured_at"]))
    first, exact = rows[0], _is(rows[0], manifest)
    points = _fullest([r for r in rows if r["intensity"] is not None])
    rates = _fullest([r for r in rows if r["intensity"] is None])
    known = {r["ceiling"]: _ceiling(r) for r in rates if r["ceiling"] in names}
    if not known:
        return None
    sweep = sorted((SweepPoint(r["ceiling"], r["intensity"], r["value"], r["unit"]) for r in points), key=_place)
    title = f"{first['device'] or first['gpu']} ({first['gpu']}), {first['device_uuid']}"
    made = Ceilings("empirical", title, known, {}, _notes(rates, manifest, exact), tuple(sweep))
    return Benchmarked(made, exact, first["measured_at"])


def _is(row: dict[str, Any], manifest: Manifest) -> bool:
    return bool(manifest.device_uuid) and row["device_uuid"] == manifest.device_uuid and _as_large(row, manifest)


def _alike(row: dict[str, Any], manifest: Manifest) -> bool:
    """Whether a device is of the workload's product, and no larger or smaller part of it."""
    if not (row["device"] and manifest.device):
        return False
    mine = identify(manifest.device, manifest.arch, manifest.facts)
    its = identify(row["device"], row["gpu"], {})
    same = mine is not None and mine == its
    return (same or row["device"] == manifest.device) and _as_large(row, manifest)


def _as_large(row: dict[str, Any], manifest: Manifest) -> bool:
    """Whether both have as many compute units, as far as that is known; a partition has fewer."""
    units = manifest.facts.get("cu_per_gpu")
    return units is None or row["compute_units"] is None or row["compute_units"] == units


def _fullest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of every name in the fullest mode that it was measured in."""
    best: dict[str, int] = {}
    for row in rows:
        rank = _MODES.index(row["mode"])
        best[row["ceiling"]] = min(rank, best.get(row["ceiling"], rank))
    return [row for row in rows if _MODES.index(row["mode"]) == best[row["ceiling"]]]


def _ceiling(row: dict[str, Any]) -> Ceiling:
    origin = f"run_peak_benchmarks ({row['mode']}), {row['measured_at']}"
    return Ceiling(row["ceiling"], row["unit"], row["value"], "empirical", origin, row["p05"], row["p95"])


def _place(point: SweepPoint) -> tuple[str, float]:
    return point.name, point.intensity


def _notes(rows: list[dict[str, Any]], manifest: Manifest, exact: bool) -> list[str]:
    first = rows[0]
    whose = "this workload's device"
    if not exact:
        whose = f"{'the same machine, a device' if _here(first, manifest) else 'ANOTHER device'} of the same product"
    notes = [
        f"The ceilings are of {whose}, measured by run_peak_benchmarks "
        f"({first['measured_at']}, driver {first['driver'] or 'unknown'}): what kernels made for it reached, so "
        "a little more can be right."
    ]
    ways = [r for r in rows if r["ceiling"].startswith("hbm.") and r["unit"] == _UNIT and r["ceiling"] != "hbm.bw"]
    if ways:
        told = ", ".join(f"{r['ceiling'].removeprefix('hbm.')} {r['value']:.0f}" for r in ways)
        notes.append(f"hbm.bw is the best of: {told} GB/s.")
    if doubtful := [r["ceiling"] for r in rows if r["status"] == "suspect"]:
        notes.append(f"Suspect when measured: {', '.join(doubtful[:6])}.")
    return notes


def _here(row: dict[str, Any], manifest: Manifest) -> bool:
    return manifest.host is not None and row["host"] == manifest.host


_STALE_DAYS = 90


def empirical(workload: Workload) -> Ceilings | None:
    """The measured ceilings of a workload's device: its own by run_peak_benchmarks, those that came with the workload,
    else those of the same product.

    Of several devices in one file, device 0 is taken, as profilers and benchmarks number GPUs differently. Ceilings
    of another machine or an old measurement are used with a note; those of another product never.
    """
    manifest, store = workload.manifest, workload.store
    ours = of_device(workload, list(_names(manifest)))
    if ours and ours.exact:
        return _with_likes(_aged(ours, manifest), manifest)
    others = [m for m in reversed(store.scan()[0]) if m.id != manifest.id and _same_product(m, manifest)]
    others.sort(key=lambda m: m.host is None or m.host != manifest.host)
    for candidate in [manifest, *others]:
        if ours and candidate.id != manifest.id:
            return _with_likes(_aged(ours, manifest), manifest)
        if store.file(candidate, "ceilings") is None:
            continue
        rows = workload.rows(
            "SELECT ceiling, unit, value, low, high, device_id, method, measured_at, device_uuid, gpu "
            f"FROM {Workload(store, candidate).relation('ceilings')} WHERE kind = 'empirical' AND value > 0 "
            "ORDER BY device_id NULLS FIRST"
        )
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
    return _with_likes(_aged(ours, manifest), manifest) if ours else None


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


def choose(workload: Workload, source: Source, by_hand: Mapping[str, float] | None = None) -> tuple[Ceilings, Ceilings]:
    """The set of ceilings to use, and the theoretical one to judge by what is possible.

    Asked for empirical ones where there are none, it falls back to theory as a whole and says so.
    """
    theory = of_workload(workload)
    if source == "theoretical":
        if by_hand:
            raise BadArgument(
                "Ceilings given by hand are empirical",
                "they are never mixed with theory",
                'Use ceiling_source="empirical"',
            )
        return theory, theory
    found = empirical(workload)
    if by_hand:
        return given(workload.manifest, by_hand, found), theory
    if found is not None:
        return found, theory
    note = "No measured ceilings of this device are in the store: these are theoretical, which no kernel quite reaches."
    return replace(theory, notes=[note, *theory.notes]), theory


def _aged(ours: Benchmarked, manifest: Manifest) -> Ceilings:
    """The benchmarks' ceilings, with a note where they are old."""
    notes = [*ours.ceilings.notes, *_stale(_age_days(ours.measured_at, manifest))]
    return replace(ours.ceilings, notes=notes)


def _stale(age: float | None) -> list[str]:
    if age is None or age <= _STALE_DAYS:
        return []
    return [f"The ceilings are STALE: measured {age:.0f} days apart from this workload."]


def _names(manifest: Manifest) -> dict[str, str]:
    """Every ceiling's name and unit for a workload's target."""
    formulas = family(targets.gpu(manifest.arch or "").family, manifest.arch or "")
    return {b.key: b.unit for b in formulas.bounds}


def _with_likes(found: Ceilings, manifest: Manifest) -> Ceilings:
    """Add ceilings that follow from a measured one, such as instruction issue from the rate of FP32 multiply-adds."""
    formulas = family(targets.gpu(manifest.arch or "").family, manifest.arch or "")
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
        notes += _stale(_age_days(str(at or ""), manifest))
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
