"""Where compute_occupancy takes kernels from: numbers, the dispatches of a workload, or a code object."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ..analysis import catalog, engine
from ..analysis.problems import BadArgument, BadInput, NotFound, near
from ..analysis.scope import facts_of
from ..analysis.selection import choose
from ..analysis.store import Manifest, Store, sql_literal
from .codeobject.kernels import CodeKernel, read
from .results import NextCall

_ACHIEVED = "occupancy.waves"
_RANK = re.compile(r"#(\d+)")
_SIBLINGS = 2000
_GENERIC = "-generic"
PROFILED = {"launches": None, "time_pct": "%", "achieved_waves_per_cu": "waves/CU", "achieved_pct": "%"}
COMPILED = {"target": None, "max_workgroup_size": "work-items", "scratch_bytes": "B/work-item", "vgpr_spills": None,
            "sgpr_spills": None}  # fmt: skip


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


def from_numbers(gpu: str, numbers: dict[str, int]) -> Found:
    """One kernel described by the caller."""
    return Found("numbers", [Subject(gpu=gpu, **numbers)])


def from_workload(store: Store, reference: str, kernel: str | None, gpu: str | None, dynamic: int) -> Found:
    """The kernels of a workload, longest total time first; one row per kernel and launch configuration."""
    import duckdb

    manifest = store.resolve(reference)
    if gpu is not None and manifest.arch not in (None, gpu):
        raise BadArgument(f"gpu={gpu!r} contradicts the workload", f"it was taken on {manifest.arch}", "Leave gpu out")
    arch = manifest.arch or gpu
    if arch is None:
        raise BadInput(
            f"Workload {manifest.name!r} does not state its GPU", fix="Give gpu, or import it again with gpu="
        )
    with duckdb.connect() as con:
        selection = choose(con, store, manifest, kernel, None)
        rows = con.execute(
            "SELECT kernel, vgpr, agpr, sgpr, lds_bytes, workgroup_size, count(*), "
            "100 * sum(duration_ns) / sum(sum(duration_ns)) OVER (), median(grid) "
            f"FROM read_parquet({sql_literal(str(store.file(manifest, 'dispatches')))}) WHERE {selection.condition} "
            "GROUP BY ALL ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
        ).fetchall()
    if all(row[1] is None for row in rows):
        raise BadInput(
            f"Workload {manifest.name!r} does not state the registers of these kernels",
            "its profiler did not write them", "Give the numbers, or the code object",
        )  # fmt: skip
    achieved = _achieved(store, manifest, kernel)
    subjects = [
        Subject(arch, row[1], row[2] or 0, row[3] or 0, row[4] or 0, dynamic, row[5], row[0],
                more={"launches": row[6], "time_pct": row[7], **achieved.get(row[0], {})})
        for row in rows
    ]  # fmt: skip
    notes = _about_registers(arch, rows, dynamic, manifest.format)
    if len(rows) > len(selection.kernels) and achieved:
        notes.append("Kernels launched with several sizes have several rows; achieved figures are over all launches.")
    notes += _about_grid(manifest, rows[0])
    suggested = [
        NextCall(tool="compute_metrics", arguments={"workload": manifest.id, "metrics": ["6.2"]},
                 why="what kept work-groups from being placed, measured"),
    ] if achieved else []  # fmt: skip
    return Found(f"workload {manifest.id}", subjects, PROFILED, notes, suggested)


def from_code_object(path: str, kernel: str | None, gpu: str | None, dynamic: int, size: int | None) -> Found:
    """The kernels of a code object in its order; ``size`` is the work-group size of the launch, where it is known."""
    source = _existing(path)
    every = _of_target(read(source), gpu, source.name)
    kernels = _matching(every, kernel, source.name)
    subjects = [
        Subject(
            gpu=gpu if gpu and k.gpu.endswith(_GENERIC) else k.gpu,
            vgprs=k.vgprs, agprs=k.agprs, sgprs=k.sgprs, lds_bytes=k.lds_bytes, dynamic_lds_bytes=dynamic,
            workgroup_size=size or k.workgroup_size or k.max_workgroup_size, kernel=k.name,
            wave_size=k.wave_size, cu_mode=k.cu_mode,
            more={name: getattr(k, name) for name in COMPILED},
        )
        for k in kernels
    ]  # fmt: skip
    return Found(f"code object {source.name}", subjects, COMPILED, _about_code(kernels, size, dynamic))


def _achieved(store: Store, manifest: Manifest, kernel: str | None) -> dict[str, dict[str, float]]:
    """Kernel -> measured waves per CU and their share of the device's slots, where the counters were collected."""
    if manifest.arch not in catalog.with_metrics() or _ACHIEVED not in catalog.by_name(manifest.arch):
        return {}
    figures = engine.evaluate(store, manifest, [_ACHIEVED], kernel=kernel, by_kernel=True)
    slots = facts_of(manifest).get("max_waves_per_cu", 0)
    return {
        f.kernel: {"achieved_waves_per_cu": f.pct_of_peak * slots / 100, "achieved_pct": f.pct_of_peak}
        for f in figures
        if f.kernel and f.pct_of_peak is not None and f.status in ("ok", "suspect")
    }


def _about_registers(arch: str, rows: list[Any], dynamic: int, format: str) -> list[str]:
    """What the profiler's columns leave open."""
    notes = []
    if "rocpd" not in format and arch.startswith("gfx") and not dynamic:
        notes.append("Profiler CSV files hold static LDS only; give dynamic_lds_bytes where the launch adds LDS.")
    if any(row[2] is None for row in rows) and arch in ("gfx90a", "gfx942", "gfx950"):
        notes.append(
            "The profile has no column of accumulation registers: they are taken as 0, so occupancy may be lower."
        )
    if arch == "gfx950" and (halved := [row for row in rows if row[1] and not row[2]]):
        notes.append(
            f"{len(halved)} of {len(rows)} rows state no AGPRs: profilers of ROCm SDK 1.0 report half of the registers "
            "on gfx950. If this profile is one of theirs, double vgprs; the code object tells."
        )
    if arch == "gfx908" and any(row[2] for row in rows):
        notes.append(
            "On gfx908 profilers report agprs equal to vgprs; they have a file of their own and do not add up."
        )
    return notes


def _about_grid(manifest: Manifest, row: Any) -> list[str]:
    cus = manifest.facts.get("cu_per_gpu")
    if not cus or not row[8] or not row[5]:
        return []
    groups = row[8] / row[5] / cus
    return [f"The grid of the first kernel has only {groups:.2g} work-groups per CU: too few to keep it filled."] * (
        groups < 2
    )


def _about_code(kernels: list[CodeKernel], size: int | None, dynamic: int) -> list[str]:
    notes = []
    if size is None and any(k.workgroup_size is None for k in kernels):
        notes.append("workgroup_size is the most that a kernel was compiled for (1,024 if the source does not say); "
                     "give the size of the launch where it is smaller.")  # fmt: skip
    if not dynamic:
        notes.append(
            "A code object states static LDS only; give dynamic_lds_bytes where the launch adds LDS (Triton's is all dynamic)."
        )
    if spilling := sum(bool(k.vgpr_spills or k.sgpr_spills) for k in kernels):
        notes.append(
            f"{spilling} of {len(kernels)} kernels spill registers; what spills to scratch costs memory traffic."
        )
    if any(k.dynamic_stack for k in kernels):
        notes.append("Kernels with a dynamic stack (recursion, calls through pointers) need more scratch than stated.")
    if too_large := sum(1 for k in kernels if size and size > k.max_workgroup_size):
        notes.append(
            f"{too_large} of {len(kernels)} kernels were compiled for less than {size} work-items: such a launch fails."
        )
    return notes


def _of_target(kernels: list[CodeKernel], gpu: str | None, name: str) -> list[CodeKernel]:
    """The kernels for one GPU, or all; generic code counts for the GPU that the caller names."""
    if gpu is None:
        return kernels
    found = [k for k in kernels if gpu in (k.gpu, k.target)]
    found = found or [k for k in kernels if k.gpu.endswith(_GENERIC) and gpu in catalog.targets()]
    if not found:
        has = sorted({k.target for k in kernels})
        raise BadArgument(
            f"{name} has no code for {gpu}", f"it has code for {', '.join(has[:20])}", "Leave gpu out for all"
        )
    return found


def _matching(kernels: list[CodeKernel], pattern: str | None, name: str) -> list[CodeKernel]:
    """The kernels meant by a name, a regular expression, or #n for the n-th."""
    if pattern is None:
        return kernels
    if rank := _RANK.fullmatch(pattern.strip()):
        number = int(rank[1])
        if not 1 <= number <= len(kernels):
            raise NotFound(f"There is no kernel {pattern}", f"{name} has #1 to #{len(kernels)}")
        return [kernels[number - 1]]
    if exact := [k for k in kernels if k.name == pattern]:
        return exact
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadArgument(
            f"The kernel pattern {pattern!r} is no regular expression",
            str(error),
            "Escape special characters, or use #1",
        ) from error
    found = [k for k in kernels if compiled.search(k.name)]
    if not found:
        names = {k.name for k in kernels}
        raise NotFound(
            f"No kernel of {name} matches {pattern!r}", near(pattern, names) or f"It has {', '.join(sorted(names)[:5])}",
            "Names are as the linker sees them (mangled for C++); #1 works too",
        )  # fmt: skip
    return found


def _existing(path: str) -> Path:
    """A regular file; NotFound with near names where there is none."""
    try:
        source = Path(path).expanduser()
        if source.is_file():
            return source
        kind = "a folder" if source.is_dir() else "no regular file" if source.exists() else None
        beside = [p.name for p in islice(source.parent.iterdir(), _SIBLINGS)] if source.parent.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{path[:200]} cannot be read", getattr(error, "strerror", None) or str(error)) from error
    if kind:
        raise BadArgument(f"{path} is {kind}", fix="Give one .hsaco, .o, library or executable")
    raise NotFound(f"{path} does not exist", near(source.name, beside), "Give the path of a code object")
