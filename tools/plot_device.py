"""The measured roofline of a device, without any kernel in it: ceilings of run_peak_benchmarks and their sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from ..analysis import measured_ceilings as peaks
from ..analysis.database import connect
from ..analysis.plot import scene
from ..analysis.plot import scene as scenes
from ..analysis.plot.style import number
from ..analysis.store import Store

_HOST = "host."
_WORDS = ("cpu", "host")
_BEST_OF = ("read", "copy", "triad", "write")
_UNITS = ("GB/s", "GFLOP/s")


def find(store: Store, word: str) -> list[dict[str, Any]]:
    """The usable rows of the device meant: ``cpu`` for the host, a uuid or the beginning of one; empty for none."""
    with closing(connect()) as con:
        rows = [row for row in peaks.latest(con, store) if row["status"] in peaks.USABLE and row["value"]]
    if word.lower() in _WORDS:
        fitting = [row for row in rows if row["gpu"] == "cpu"]
    else:
        fitting = [row for row in rows if len(word) >= 8 and str(row["device_uuid"]).startswith(word)]
    devices = list(dict.fromkeys((row["device_uuid"], row["partition"]) for row in fitting))
    mine = [row for row in fitting if (row["device_uuid"], row["partition"]) == devices[0]] if devices else []
    full = {(row["ceiling"], row["intensity"] is None) for row in mine if row["mode"] == "full"}
    return [r for r in mine if r["mode"] == "full" or (r["ceiling"], r["intensity"] is None) not in full]


def device_scene(rows: Sequence[dict[str, Any]]) -> tuple[scenes.Scene, list[str]]:
    """The picture of a device's ceilings, the best of the ways to use each memory level, and the same in words."""
    first = rows[0]
    roofs = list(_roofs([row for row in rows if row["intensity"] is None and row["unit"] in _UNITS]).values())
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["intensity"] is not None:
            lines.setdefault(row["ceiling"], []).append((row["intensity"], row["value"]))
    sweeps = {name: sorted(points) for name, points in lines.items()}
    host = first["gpu"] == "cpu"
    statements = ["These are ceilings of this machine's processors (host), not of a GPU."] if host else []
    if sweeps:
        statements.append(f"Small crosses: the roof as measured, by kernels of rising intensity ({', '.join(sweeps)}).")
    scene = scenes.Scene(
        title=f"Measured roofline of {first['device'] or first['gpu']}",
        device=f"{first['gpu']}, {first['partition'] or first['device_uuid']}; measured ceilings",
        unit="GFLOP/s",
        intensity_unit="operations / byte",
        roofs=roofs,
        dots=[],
        kernels=[],
        statements=statements,
        sweeps=list(sweeps.values()),
    )
    facts = [f"Ceiling {roof.name}: {number(roof.value)} {roof.unit} ({roof.origin})." for roof in roofs]
    facts += [
        f"{name}: " + ", ".join(f"{number(y)} GFLOP/s at {x:g} FLOP/B" for x, y in line) + "."
        for name, line in sweeps.items()
    ]
    return scene, [*facts, *statements]


def _roofs(rows: Sequence[dict[str, Any]]) -> dict[str, scene.Roof]:
    """The highest of each level's ways (read, copy ...) as its bandwidth, and every rate of operations."""
    found: dict[str, scene.Roof] = {}
    for row in rows:
        level, _, way = str(row["ceiling"]).removeprefix(_HOST).rpartition(".")
        name = f"{level}.bw" if way in _BEST_OF else f"{level}.{way}"
        origin = f"measured, run_peak_benchmarks ({row['mode']}), {row['measured_at']}"
        if name not in found or found[name].value < row["value"]:
            found[name] = scene.Roof(name, row["value"], row["unit"], origin)
    return found
