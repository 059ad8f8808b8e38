"""The ceilings that count for a workload: measured on its device, stated by hand, or theory; never mixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from . import benchmarked, catalog
from .ceilings import Ceiling, Ceilings, Source, of_workload
from .problems import BadArgument, near
from .store import Manifest, Store, sql_path
from .work import family

if TYPE_CHECKING:
    import duckdb

_STALE_DAYS = 90


def empirical(con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest) -> Ceilings | None:
    """The measured ceilings of a workload's device: its own by run_peak_benchmarks, those that came with the workload,
    else those of the same product.

    Of several devices in one file, device 0 is taken, as profilers and benchmarks number GPUs differently. Ceilings
    of another machine or an old measurement are used with a note; those of another product never.
    """
    ours = benchmarked.of_device(con, store, manifest, list(_names(manifest)))
    if ours and ours.exact:
        return _with_likes(_aged(ours, manifest), manifest)
    others = [m for m in reversed(store.scan()[0]) if m.id != manifest.id and _same_product(m, manifest)]
    others.sort(key=lambda m: m.host is None or m.host != manifest.host)
    for candidate in [manifest, *others]:
        if ours and candidate.id != manifest.id:
            return _with_likes(_aged(ours, manifest), manifest)
        path = store.file(candidate, "ceilings")
        if path is None:
            continue
        rows = con.execute(
            "SELECT ceiling, unit, value, low, high, device_id, method, measured_at, device_uuid, gpu "
            f"FROM read_parquet({sql_path(path)}) WHERE kind = 'empirical' AND value > 0 "
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


def _aged(ours: benchmarked.Benchmarked, manifest: Manifest) -> Ceilings:
    """The benchmarks' ceilings, with a note where they are old."""
    notes = [*ours.ceilings.notes, *_stale(_age_days(ours.measured_at, manifest))]
    return replace(ours.ceilings, notes=notes)


def _stale(age: float | None) -> list[str]:
    if age is None or age <= _STALE_DAYS:
        return []
    return [f"The ceilings are STALE: measured {age:.0f} days apart from this workload."]


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
