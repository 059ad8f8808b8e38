"""The ceilings of a device: theoretical, measured or given by the caller. Kinds are chosen as a whole and never
mixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from ..base.database import sql_literal
from ..base.notes import Note, Reason
from ..base.problems import BadArgument, near
from ..base.text import first_few
from ..catalogue.formula import references, values_over_facts
from ..catalogue.targets import identify
from ..catalogue.thresholds import count_threshold
from ..catalogue.work_formulas import CeilingEntry, WorkFormulas, work_formulas
from ..store import measured_ceilings
from ..store.store import Manifest
from ..workload import Workload
from .wording import note

if TYPE_CHECKING:
    import duckdb


CeilingSource = Literal["empirical", "theoretical"]
_MEMORY = ("max_mclk", "num_hbm_channels", "hbm_bw_gbs")
"""The modes of a measurement; the more complete one is preferred."""
_STALE_DAYS = count_threshold("roofline.stale_ceiling_days")
_DOUBTS = 3
"""How many suspect ceilings are listed with their reasons."""


@dataclass(frozen=True)
class Ceiling:
    """A peak rate of a device in GB/s, GFLOP/s, GIOP/s or GIPS.

    ``source`` is its origin: the formula with its inputs, or the tool that measured it and the date. ``low`` and
    ``high`` are the interval of a measurement, if stated. ``derived_from`` is the measured ceiling that it was derived
    from if it was not measured itself.
    """

    name: str
    unit: str
    value: float
    kind: CeilingSource
    source: str
    low: float | None = None
    high: float | None = None
    derived_from: str | None = None
    by_hand: bool = False


@dataclass(frozen=True)
class SweepPoint:
    """The rate reached at one intensity (operations per byte of device memory): a point of the measured roof."""

    ceiling: str
    intensity: float
    value: float
    unit: str


@dataclass(frozen=True)
class Ceilings:
    """A set of ceilings of one kind for one device; ``missing`` maps ceilings without a value to the reason."""

    kind: CeilingSource
    device: str
    known: dict[str, Ceiling]
    missing: dict[str, Reason] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    sweep: tuple[SweepPoint, ...] = ()

    def value(self, name: str) -> float | None:
        """The value of one ceiling in its unit, or None."""
        return self.known[name].value if name in self.known else None

    def ridge(self, compute: str, level: str) -> float | None:
        """The intensity (operations per byte) at which a level's bandwidth meets a compute ceiling."""
        rate, bandwidth = self.value(compute), self.value(f"{level}.bw")
        return quotient(rate, bandwidth)


def quotient(amount: float | None, per: float | None) -> float | None:
    """``amount / per``; None if one is unknown, or ``per`` is zero."""
    return amount / per if amount is not None and per else None


def percentage(part: float | None, whole: float | None) -> float | None:
    """The share of ``part`` in ``whole`` in percent; None if one is unknown, or ``whole`` is zero."""
    return 100 * part / whole if part is not None and whole else None


def choose(
    workload: Workload, source: CeilingSource, by_hand: Mapping[str, float] | None = None
) -> tuple[Ceilings, Ceilings]:
    """The ceilings to use, and the theoretical ceilings, which decide what is possible.

    If empirical ceilings are requested but none exist, all theoretical ones are returned with a note. ``by_hand`` maps
    names to ceilings given by the caller (GB/s, GFLOP/s, GIOP/s, GIPS); they replace measured ones of the same name.
    Raises BadArgument if a name or a value is wrong.
    """
    theory = theoretical_ceilings(workload)
    if source == "theoretical":
        if by_hand:
            raise BadArgument(
                "Ceilings given by hand are empirical",
                "they are never mixed with theory",
                'Use ceiling_source="empirical"',
            )
        return theory, theory
    reached = empirical_ceilings(workload)
    if by_hand:
        return _with_stated(reached, by_hand, workload), theory
    if reached is not None:
        return reached, theory
    return replace(theory, notes=[note("none_measured"), *theory.notes]), theory


def theoretical_ceilings(workload: Workload) -> Ceilings:
    """The theoretical ceilings of the device that a workload ran on, computed from the device's facts."""
    facts, notes = device_facts(workload)
    device = f"{workload.manifest.device or workload.target.title} ({workload.target.target})"
    return replace(from_facts(workload.cursor, _formulas(workload), facts, device), notes=notes)


def device_facts(workload: Workload) -> tuple[dict[str, float], list[Note]]:
    """The facts of the device that a workload ran on, and notes on them.

    The facts of the profile come first; missing ones, and those of the memory, are taken from the data sheet if the
    product is known for certain.
    """
    target, manifest = workload.target, workload.manifest
    facts = {n: f.value for n, f in (_formulas(workload).facts | target.facts).items()} | manifest.facts
    product, notes = identify(manifest.device, manifest.arch, manifest.facts), []
    if product is not None:
        sheet = {name: fact.value for name, fact in product.facts.items()}
        from_sheet = sorted(
            n for n in sheet.keys() - manifest.facts.keys() if n not in _MEMORY or "max_mclk" not in facts
        )
        facts |= {n: sheet[n] for n in from_sheet} | {n: sheet[n] for n in _MEMORY if n in sheet}
        if from_sheet:
            notes.append(note("data_sheet", product=product, facts=from_sheet))
        for clause in contradicted_facts(workload).values():
            notes.append(note("data_sheet_differs", clause=clause))
    return facts, notes


def contradicted_facts(workload: Workload) -> dict[str, str]:
    """The facts of the memory on which the profile and the data sheet differ, each with a clause that states both."""
    stated = workload.manifest.facts
    product = identify(workload.manifest.device, workload.manifest.arch, stated)
    sheet = {name: product.facts[name].value for name in _MEMORY if name in product.facts} if product else {}
    return {
        name: f"The profile states {name} = {stated[name]:g}, the data sheet of {product.title} {value:g}"
        for name, value in sorted(sheet.items())
        if product and stated.get(name, value) != value
    }


def from_facts(
    con: duckdb.DuckDBPyConnection, formulas: WorkFormulas, facts: Mapping[str, float], device: str
) -> Ceilings:
    """Evaluate the ceiling formulas of a family over facts: clock x units x rate per clock.

    Rates that the target does not have are omitted; ceilings with an unknown fact (such as a clock) go to ``missing``.
    """
    needs = references([f for b in formulas.bounds for f in b.ceiling])
    ready: dict[str, tuple[CeilingEntry, str]] = {}
    missing: dict[str, Reason] = {}
    for bound in formulas.bounds:
        lacks = [sorted(needs[f] - facts.keys()) for f in bound.ceiling]
        if [] in lacks:
            ready[bound.key] = (bound, bound.ceiling[lacks.index([])])
        elif not any(name.endswith("_clk") for name in lacks[0]):
            missing[bound.key] = Reason("no_fact", f"{', '.join(lacks[0])} unknown")
    values = values_over_facts(con, (formula for _, formula in ready.values()), facts)
    known = {
        name: Ceiling(name, bound.unit, value, "theoretical", f"{formula}: {_inputs(needs[formula], facts)}")
        for name, (bound, formula) in ready.items()
        if (value := values.get(formula, 0.0)) > 0
    }
    return Ceilings("theoretical", device, known, missing)


def empirical_ceilings(workload: Workload) -> Ceilings | None:
    """The measured ceilings of a workload's device, from the first source that has any, or None.

    In order: run_peak_benchmarks on the same device, ceilings recorded with the workload, run_peak_benchmarks on
    another device of the same product, ceilings recorded with another workload on the same product. Ceilings of another
    machine and old measurements are used with a note; those of another product never.
    """
    benchmarked, exact = _ceilings_of_benchmarks(workload)
    best = benchmarked if exact else _ceilings_of_profile(workload, workload.manifest) or benchmarked
    if best is None:
        recorded = (_ceilings_of_profile(workload, other) for other in _others_of_product(workload))
        best = next(filter(None, recorded), None)
    return _with_derived(best, _formulas(workload)) if best else None


def _formulas(workload: Workload) -> WorkFormulas:
    return work_formulas(workload.target.target)


def _inputs(names: frozenset[str], facts: Mapping[str, float]) -> str:
    return ", ".join(f"{n} = {facts[n]:g}" for n in sorted(names))


def _with_derived(ceilings: Ceilings, formulas: WorkFormulas) -> Ceilings:
    """Add the ceilings that can be derived from a measured one, such as instruction issue from the FP32 FMA rate."""
    derived = {}
    for bound in formulas.bounds:
        like = bound.like
        if bound.key not in ceilings.known and like is not None and (base := ceilings.known.get(like.name)):
            value, source = base.value * like.factor, f"like {base.name} x {like.factor:g}"
            derived[bound.name] = Ceiling(bound.name, bound.unit, value, "empirical", source, derived_from=base.name)
    known = ceilings.known | derived
    missing = {b.key: Reason("no_ceiling", "not measured") for b in formulas.bounds if b.key not in known}
    return replace(ceilings, known=known, missing=missing)


def _with_stated(base: Ceilings | None, values: Mapping[str, float], workload: Workload) -> Ceilings:
    """The measured ceilings, replaced by those given by the caller where the names match."""
    formulas, manifest = _formulas(workload), workload.manifest
    units = {b.key: b.unit for b in formulas.bounds}
    stated = {}
    for word, value in values.items():
        name = word if word in units else f"{word}.bw"
        if name not in units:
            raise BadArgument(f"Unknown ceiling {word!r}", near(word, units), f"Known: {', '.join(units)}")
        if not math.isfinite(value) or value <= 0:
            raise BadArgument(f"The ceiling {word!r} is {value!r}", "it must be a positive number", f"In {units[name]}")
        stated[name] = Ceiling(name, units[name], float(value), "empirical", "given by the caller", by_hand=True)
    base = base or Ceilings("empirical", manifest.device or manifest.arch or "unknown device", {})
    measured_ones = {n: c for n, c in base.known.items() if c.derived_from is None}
    return _with_derived(
        replace(base, known=measured_ones | stated, notes=[*base.notes, note("by_hand", stated=list(stated))]), formulas
    )


# -- measured by run_peak_benchmarks ---------------------------------------------------------------


def _ceilings_of_benchmarks(workload: Workload) -> tuple[Ceilings | None, bool]:
    """The benchmarked ceilings and sweeps of the device that a workload ran on, or else of another device of its
    product; and whether they were measured on the same device.

    Devices of the workload's machine are preferred, then newer measurements. Figures above theory are never used.
    """
    manifest = workload.manifest
    devices: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in measured_ceilings.latest(workload.cursor, workload.store):
        usable = row["status"] in measured_ceilings.USABLE and row["value"] and row["mode"] in measured_ceilings.MODES
        if usable and row["gpu"] == manifest.arch:
            devices.setdefault((row["device_uuid"], row["partition"]), []).append(row)
    fitting = [
        rows for rows in devices.values() if _is_of_device(rows[0], manifest) or _is_of_product(rows[0], manifest)
    ]
    if not fitting:
        return None, False
    rows = max(
        fitting, key=lambda r: (_is_of_device(r[0], manifest), r[0]["host"] == manifest.host, r[0]["measured_at"])
    )
    first, exact = rows[0], _is_of_device(rows[0], manifest)
    rows = measured_ceilings.fullest(rows)
    points = [r for r in rows if r["intensity"] is not None]
    rates = [r for r in rows if r["intensity"] is None]
    names = {b.key for b in _formulas(workload).bounds}
    known = {r["ceiling"]: _ceiling(r) for r in rates if r["ceiling"] in names}
    if not known:
        return None, False
    sweep = [SweepPoint(r["ceiling"], r["intensity"], r["value"], r["unit"]) for r in points]
    sweep.sort(key=lambda point: (point.ceiling, point.intensity))
    title = f"{first['device'] or first['gpu']} ({first['gpu']}), {first['device_uuid']}"
    notes = [*_benchmark_notes(rates, manifest, exact), *_stale_notes(first["measured_at"], manifest)]
    return Ceilings("empirical", title, known, {}, notes, tuple(sweep)), exact


def _is_of_device(row: dict[str, Any], manifest: Manifest) -> bool:
    return bool(manifest.device_uuid) and row["device_uuid"] == manifest.device_uuid and _as_large(row, manifest)


def _is_of_product(row: dict[str, Any], manifest: Manifest) -> bool:
    """Whether a device is of the workload's product, and the same partition size."""
    if not (row["device"] and manifest.device):
        return False
    mine = identify(manifest.device, manifest.arch, manifest.facts)
    its = identify(row["device"], row["gpu"], {})
    same = mine is not None and mine == its
    return (same or row["device"] == manifest.device) and _as_large(row, manifest)


def _as_large(row: dict[str, Any], manifest: Manifest) -> bool:
    """Whether both have the same number of compute units, if known; a partition has fewer."""
    units = manifest.facts.get("cu_per_gpu")
    return units is None or row["compute_units"] is None or row["compute_units"] == units


def _ceiling(row: dict[str, Any]) -> Ceiling:
    source = f"run_peak_benchmarks ({row['mode']}), {row['measured_at']}"
    return Ceiling(row["ceiling"], row["unit"], row["value"], "empirical", source, row["p05"], row["p95"])


def _benchmark_notes(rows: list[dict[str, Any]], manifest: Manifest, exact: bool) -> list[Note]:
    first = rows[0]
    whose = "this workload's device"
    if not exact:
        here = manifest.host is not None and first["host"] == manifest.host
        whose = f"{'the same machine, a device' if here else 'ANOTHER device'} of the same product"
    notes = [note("benchmarked", whose=whose, at=first["measured_at"], driver=first["driver"] or "unknown")]
    ways = [r for r in rows if r["ceiling"].startswith("hbm.") and r["unit"] == "GB/s" and r["ceiling"] != "hbm.bw"]
    if ways:
        listed = [f"{r['ceiling'].removeprefix('hbm.')} {r['value']:.0f}" for r in ways]
        notes.append(note("best_of", listed=listed))
    if doubtful := [f"{r['ceiling']} ({r['reason'] or 'no reason kept'})" for r in rows if r["status"] == "suspect"]:
        notes.append(note("suspect_ceilings", doubtful=first_few(doubtful, _DOUBTS, "; ")))
    return notes


# -- recorded with a profile -----------------------------------------------------------------------


_RECORDED = ("ceiling", "unit", "value", "low", "high", "device_id", "method", "measured_at")


def _others_of_product(workload: Workload) -> list[Manifest]:
    """Other workloads on a device of the same product: those of the same machine first, then newer ones."""
    mine = workload.manifest
    others = [m for m in reversed(workload.store.scan()[0]) if m.id != mine.id and _same_product(m, mine)]
    return sorted(others, key=lambda m: m.host is None or m.host != mine.host)


def _same_product(one: Manifest, other: Manifest) -> bool:
    """Whether the ceilings of one workload's device apply to another's: same target, compute units and clock."""
    facts = ("cu_per_gpu", "max_sclk", "num_xcd")
    alike = all(one.facts.get(f) == other.facts.get(f) for f in facts)
    return one.arch == other.arch and (one.device or "") == (other.device or "") and alike


def _ceilings_of_profile(workload: Workload, origin: Manifest) -> Ceilings | None:
    """The ceilings that were recorded with the workload ``origin``, or None if it has none for this target.

    If the file contains several devices, the first is used, because profilers and benchmarks number GPUs differently.
    """
    if workload.store.file(origin, "ceilings") is None:
        return None
    rows = [
        dict(zip(_RECORDED, row, strict=True))
        for row in workload.rows(
            f"SELECT {', '.join(_RECORDED)} FROM {Workload(workload.store, origin).relation('ceilings')} "
            f"WHERE kind = 'empirical' AND value > 0 AND coalesce(gpu, '') IN ('', {sql_literal(workload.arch)}) "
            "ORDER BY device_id NULLS FIRST"
        )
    ]
    if not rows:
        return None
    device = rows[0]["device_id"]
    units = {b.key: b.unit for b in _formulas(workload).bounds}
    known = {}
    for row in rows:
        if row["device_id"] == device:
            source = f"{row['method'] or 'measured'}{_date_suffix(row)}"
            unit = units.get(row["ceiling"], row["unit"])
            known[row["ceiling"]] = Ceiling(
                row["ceiling"], unit, row["value"], "empirical", source, row["low"], row["high"]
            )
    title = f"{origin.device or origin.arch} ({origin.arch}), device {device if device is not None else '?'}"
    return Ceilings("empirical", title, known, {}, _recorded_notes(workload.manifest, origin, rows))


def _date_suffix(row: dict[str, Any]) -> str:
    return f", {row['measured_at']}" if row["measured_at"] else ""


def _recorded_notes(manifest: Manifest, origin: Manifest, rows: list[dict[str, Any]]) -> list[Note]:
    """Notes on the origin of recorded ceilings, and on reasons to distrust them."""
    first, devices = rows[0], sorted({r["device_id"] for r in rows if r["device_id"] is not None})
    method = first["method"] or "an unnamed benchmark"
    notes = [note("recorded", method=method, date=_date_suffix(first), device=first["device_id"])]
    if len(devices) > 1:
        notes.append(note("several_devices", devices=list(map(str, devices))))
    if origin.id != manifest.id:
        same = origin.host is not None and origin.host == manifest.host
        where = "of the same machine" if same else "of ANOTHER device of the same product"
        notes += [
            note("from_other_workload", where=where, origin=origin),
            *_stale_notes(str(first["measured_at"] or ""), manifest),
        ]
    return notes


def _stale_notes(measured_at: str, manifest: Manifest) -> list[Note]:
    """A note if a measurement and the import of the workload are many days apart, and the date can be parsed."""
    text = measured_at.split(" (")[0].strip()
    for read in (datetime.fromisoformat, lambda t: datetime.strptime(t, "%a %b %d %H:%M:%S %Y")):
        try:
            when = read(text.replace("Z", "+00:00"))
        except ValueError:
            continue
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        days = abs(manifest.created_ns / 1e9 - when.timestamp()) / 86_400
        return [note("stale", days=days)] if days > _STALE_DAYS else []
    return []
