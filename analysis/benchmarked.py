"""The ceilings that run_peak_benchmarks measured, for the device of a workload: its own, or one of the same product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import peaks
from .ceilings import Ceiling, Ceilings, SweepPoint
from .products import identify
from .store import Manifest, Store

if TYPE_CHECKING:
    import duckdb

_MODES = ("full", "quick")
"""The fuller measurement counts."""
_UNIT = "GB/s"


@dataclass(frozen=True)
class Benchmarked:
    """Measured ceilings, whether they are of the very device (``exact``), and when they were measured last."""

    ceilings: Ceilings
    exact: bool
    measured_at: str


def of_device(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest, names: Sequence[str]
) -> Benchmarked | None:
    """The ceilings ``names`` and the sweeps of the device that a workload ran on, else of another of its product.

    Devices of the workload's machine come before others, then newer measurements before older ones. Figures above
    theory never count.
    """
    devices: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in peaks.latest(con, store):
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
