"""Where compute_occupancy takes kernels from: numbers, or the dispatches of a workload."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from ..analysis import catalog, engine
from ..analysis.database import connect
from ..analysis.problems import BadArgument, BadInput
from ..analysis.scope import facts_of
from ..analysis.selection import choose
from ..analysis.store import Manifest, Store, sql_literal
from .results import NextCall

PROFILED = {"launches": None, "time_pct": "%", "achieved_waves_per_cu": "waves", "achieved_pct": "%"}
_ACHIEVED = "occupancy.waves"
_FEW_GROUPS = 2
_UNIFIED = ("gfx90a", "gfx942", "gfx950")


@dataclass(frozen=True)
class Subject:
    """One kernel with the resources that it takes; ``more`` are the further columns of its source."""

    gpu: str
    vgprs: int | None
    agprs: int
    sgprs: int
    lds_bytes: int
    dynamic_lds_bytes: int
    workgroup_size: int | None
    kernel: str | None = None
    wave_size: int | None = None
    cu_mode: bool = False
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """The kernels of one source, the most important first, with what there is to say about them."""

    source: str
    subjects: list[Subject]
    columns: dict[str, str | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    next: list[NextCall] = field(default_factory=list)
    informative: bool = False
    """Whether the kernels are worth an answer where the occupancy of none can be computed."""


def from_numbers(subject: Subject) -> Found:
    """One kernel described by the caller."""
    return Found("numbers", [subject])


def from_workload(store: Store, reference: str, kernel: str | None, gpu: str | None, dynamic: int) -> Found:
    """The kernels of a workload, longest total time first; one row per kernel and launch configuration."""
    manifest = store.resolve(reference)
    if gpu is not None and manifest.arch not in (None, gpu):
        raise BadArgument(f"gpu={gpu!r} contradicts the workload", f"it was taken on {manifest.arch}", "Leave gpu out")
    arch = manifest.arch or gpu
    if arch is None:
        raise BadInput(f"Workload {manifest.name!r} does not state its GPU", fix="Give gpu as well")
    rows, kernels = _launches(store, manifest, kernel)
    achieved, lacking = _achieved(store, manifest, kernel)
    if not achieved and all(row[1] is None for row in rows):
        raise BadInput(
            f"Workload {manifest.name!r} does not state the registers of these kernels",
            f"its profiler did not write them; achieved occupancy is not known either: {lacking}",
            "Give the numbers, or the code object",
        )
    subjects = [_subject(arch, row, dynamic, achieved) for row in rows]
    notes = [*_about_registers(arch, rows, dynamic, manifest.format), *_about_grid(manifest, rows[0])]
    if lacking:
        notes.append(f"Achieved occupancy ({_ACHIEVED}) is not known for this workload: {lacking}.")
    elif len(rows) > kernels:
        notes.append("Kernels launched with several sizes have several rows; achieved figures are over all launches.")
    return Found(f"workload {manifest.id}", subjects, PROFILED, notes, _next(manifest, bool(achieved)), bool(achieved))


def _next(manifest: Manifest, achieved: bool) -> list[NextCall]:
    if achieved:
        arguments = {"workload": manifest.id, "metrics": ["6.2"]}
        why = "what kept work-groups from being placed, measured"
        return [NextCall(tool="compute_metrics", arguments=arguments, why=why)]
    if manifest.arch not in catalog.with_metrics():
        return []
    arguments = {"gpu": manifest.arch, "metrics": [_ACHIEVED, "6.2"]}
    return [NextCall(tool="plan_profile", arguments=arguments, why="how to measure the achieved occupancy")]


def _subject(arch: str, row: Any, dynamic: int, achieved: dict[str, dict[str, float]]) -> Subject:
    kernel, vgprs, agprs, sgprs, lds, size, launches, share, _ = row
    return Subject(
        gpu=arch,
        vgprs=vgprs,
        agprs=0 if _repeated(arch, row) else agprs or 0,
        sgprs=sgprs or 0,
        lds_bytes=lds or 0,
        dynamic_lds_bytes=dynamic,
        workgroup_size=size,
        kernel=kernel,
        more={"launches": launches, "time_pct": share, **achieved.get(kernel, {})},
    )


def _repeated(arch: str, row: Any) -> bool:
    """Whether the AGPRs of a row are only its VGPRs again, as profilers write on gfx908."""
    return bool(arch == "gfx908" and row[2] and row[2] == row[1])


def _launches(store: Store, manifest: Manifest, kernel: str | None) -> tuple[list[Any], int]:
    """Kernel, registers, LDS, work-group size, launches, share of time and grid of every configuration; the kernels."""
    with closing(connect()) as con:
        selection = choose(con, store, manifest, kernel, None)
        rows = con.execute(
            "SELECT kernel, vgpr, agpr, sgpr, lds_bytes, workgroup_size, count(*), "
            "100 * sum(duration_ns) / sum(sum(duration_ns)) OVER (), median(grid) "
            f"FROM read_parquet({sql_literal(str(store.file(manifest, 'dispatches')))}) d "
            f"WHERE {selection.condition('d')} "
            "GROUP BY ALL ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
        ).fetchall()
    return rows, len(selection.kernels)


def _achieved(store: Store, manifest: Manifest, kernel: str | None) -> tuple[dict[str, dict[str, float]], str | None]:
    """Kernel -> measured waves per CU and their share of the device's slots; else why there are none."""
    if manifest.arch not in catalog.with_metrics() or _ACHIEVED not in catalog.by_name(manifest.arch):
        return {}, f"no metric for it is known on {manifest.arch}"
    figures = engine.evaluate(store, manifest, [_ACHIEVED], kernel=kernel, by_kernel=True)
    slots = facts_of(manifest).get("max_waves_per_cu", 0)
    found = {
        f.kernel: {"achieved_waves_per_cu": f.pct_of_peak * slots / 100, "achieved_pct": f.pct_of_peak}
        for f in figures
        if f.kernel and f.pct_of_peak is not None and f.status in ("ok", "suspect")
    }
    return found, None if found else next((f.reason for f in figures if f.reason), "the counters hold no value")


def _about_registers(arch: str, rows: list[Any], dynamic: int, format: str) -> list[str]:
    """What the profile's columns leave open."""
    notes = []
    if arch.startswith("gfx") and not dynamic:
        which = "CSV files of rocprofv3 from ROCm 7.0 on" if format == "rocprofv3" else "Profiler CSV files"
        notes.append(f"{which} hold static LDS only; give dynamic_lds_bytes where the launch adds LDS.")
    if any(row[2] is None for row in rows) and arch in _UNIFIED:
        notes.append("The profile has no column of accumulation registers; with any, occupancy may be lower.")
    if arch == "gfx950" and (halved := sum(bool(row[1] and not row[2]) for row in rows)):
        notes.append(
            f"{halved} of {len(rows)} rows state no AGPRs: profilers of ROCm SDK 1.0 report half of the registers "
            "on gfx950. If this profile is one of theirs, vgprs must be doubled; the code object tells."
        )
    if any(_repeated(arch, row) for row in rows):
        notes.append("Profilers repeat vgprs as agprs on gfx908, where they do not add up: such agprs are taken as 0.")
    return notes


def _about_grid(manifest: Manifest, row: Any) -> list[str]:
    cus = manifest.facts.get("cu_per_gpu")
    if not cus or not row[8] or not row[5] or (groups := row[8] / row[5] / cus) >= _FEW_GROUPS:
        return []
    return [f"The grid of the first kernel has only {groups:.2g} work-groups per CU: too few to keep it filled."]
