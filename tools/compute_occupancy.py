"""The tool compute_occupancy: resident waves by registers, LDS and work-group size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.engine import evaluation as engine
from ..analysis.notes import Note
from ..analysis.occupancy import RESOURCES, Occupancy, occupancy
from ..analysis.occupancy.rule import Mode, registers
from ..analysis.occupancy.simplified import Simplified, error, simplified
from ..analysis.problems import BadArgument, BadInput, NotFound, Problem, near
from ..analysis.store import Manifest, Store
from ..analysis.workload import Workload
from .codeobject.kernels import CodeKernel, read
from .results import NextCall, Result, Table, table

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
    notes: list[Note] = field(default_factory=list)
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
        text = f"Achieved occupancy ({_ACHIEVED}) is not known for this workload: {lacking}."
        notes.append(Note("achieved_unknown", text))
    elif len(rows) > kernels:
        text = "Kernels launched with several sizes have several rows; achieved figures are over all launches."
        notes.append(Note("several_sizes", text))
    return Found(
        f"workload {manifest.id}",
        subjects,
        PROFILED,
        notes,
        _next_of_workload(manifest, bool(achieved)),
        bool(achieved),
    )


def _next_of_workload(manifest: Manifest, achieved: bool) -> list[NextCall]:
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
    with Workload(store, manifest) as opened:
        selection = opened.select(kernel)
        rows = opened.rows(
            "SELECT kernel, vgpr, agpr, sgpr, lds_bytes, workgroup_size, count(*), "
            "100 * sum(duration_ns) / sum(sum(duration_ns)) OVER (), median(grid) "
            f"FROM {opened.relation('dispatches')} d "
            f"WHERE {selection.condition('d')} "
            "GROUP BY ALL ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
        )
    return rows, len(selection.kernels)


def _achieved(store: Store, manifest: Manifest, kernel: str | None) -> tuple[dict[str, dict[str, float]], str | None]:
    """Kernel -> measured waves per CU and their share of the device's slots; else why there are none."""
    if manifest.arch not in catalog.with_metrics() or _ACHIEVED not in catalog.by_name(manifest.arch):
        return {}, f"no metric for it is known on {manifest.arch}"
    with Workload(store, manifest) as opened:
        figures = engine.figures(opened, [_ACHIEVED], engine.View(kernel, by_kernel=True))
        slots = opened.facts.get("max_waves_per_cu", 0)
    found = {
        f.kernel: {"achieved_waves_per_cu": f.pct_of_peak * slots / 100, "achieved_pct": f.pct_of_peak}
        for f in figures
        if f.kernel and f.pct_of_peak is not None and f.status in ("ok", "suspect")
    }
    return found, None if found else next((f.reason.text for f in figures if f.reason), "the counters hold no value")


def _about_registers(arch: str, rows: list[Any], dynamic: int, format: str) -> list[Note]:
    """What the profile's columns leave open."""
    notes = []
    if arch.startswith("gfx") and not dynamic:
        which = "CSV files of rocprofv3 from ROCm 7.0 on" if format == "rocprofv3" else "Profiler CSV files"
        text = f"{which} hold static LDS only; give dynamic_lds_bytes where the launch adds LDS."
        notes.append(Note("static_lds_only", text))
    if any(row[2] is None for row in rows) and arch in _UNIFIED:
        text = "The profile has no column of accumulation registers; with any, occupancy may be lower."
        notes.append(Note("no_agpr_column", text))
    if arch == "gfx950" and (halved := sum(bool(row[1] and not row[2]) for row in rows)):
        text = (
            f"{halved} of {len(rows)} rows state no AGPRs: profilers of ROCm SDK 1.0 report half of the registers "
            "on gfx950. If this profile is one of theirs, vgprs must be doubled; the code object tells."
        )
        notes.append(Note("halved_registers", text))
    if any(_repeated(arch, row) for row in rows):
        text = "Profilers repeat vgprs as agprs on gfx908, where they do not add up: such agprs are taken as 0."
        notes.append(Note("repeated_registers", text))
    return notes


def _about_grid(manifest: Manifest, row: Any) -> list[Note]:
    cus = manifest.facts.get("cu_per_gpu")
    if not cus or not row[8] or not row[5] or (groups := row[8] / row[5] / cus) >= _FEW_GROUPS:
        return []
    text = f"The grid of the first kernel has only {groups:.2g} work-groups per CU: too few to keep it filled."
    return [Note("small_grid", text)]


COMPILED = {
    "target": None,
    "max_workgroup_size": "work-items",
    "scratch_bytes": "bytes",
    "vgpr_spills": None,
    "sgpr_spills": None,
}
_RANK = re.compile(r"#(\d{1,9})")
_SIBLINGS = 2000
_GENERIC = "-generic"


def from_code_object(path: str, kernel: str | None, gpu: str | None, dynamic: int, size: int | None) -> Found:
    """The kernels of a code object in its order; ``size`` is the work-group size of the launch, where it is known."""
    source = _existing(path)
    kernels = _matching(_of_target(read(source), gpu, source.name), kernel, source.name)
    subjects = [
        Subject(
            gpu=gpu if gpu and k.gpu.endswith(_GENERIC) else k.gpu,
            vgprs=k.vgprs,
            agprs=k.agprs,
            sgprs=k.sgprs,
            lds_bytes=k.lds_bytes,
            dynamic_lds_bytes=dynamic,
            workgroup_size=size if size is not None else k.workgroup_size or k.max_workgroup_size,
            kernel=k.name,
            wave_size=k.wave_size,
            cu_mode=k.cu_mode,
            more={name: getattr(k, name) for name in COMPILED},
        )
        for k in kernels
    ]
    foreign = any(s.gpu not in targets.targets() for s in subjects)
    notes = [Note("code_object", text) for text in _about(kernels, size, dynamic)]
    return Found(f"code object {source.name}", subjects, COMPILED, notes, informative=foreign)


def _about(kernels: list[CodeKernel], size: int | None, dynamic: int) -> list[str]:
    notes, every = [], len(kernels)
    if size is None and any(k.workgroup_size is None for k in kernels):
        notes.append(
            "workgroup_size is the most that a kernel was compiled for (1,024 if the source does not say); "
            "give the size of the launch where it is smaller."
        )
    if not dynamic:
        notes.append(
            "A code object states static LDS only; give dynamic_lds_bytes where the launch adds LDS "
            "(all LDS of Triton kernels is added so)."
        )
    if spilling := sum(bool(k.vgpr_spills or k.sgpr_spills) for k in kernels):
        notes.append(f"{spilling} of {every} kernels spill registers; VGPRs spilled to scratch cost memory traffic.")
    if any(k.dynamic_stack for k in kernels):
        notes.append("Kernels with a dynamic stack (recursion, calls through pointers) need more scratch than stated.")
    if small := sum(1 for k in kernels if size and size > k.max_workgroup_size):
        notes.append(f"{small} of {every} kernels were compiled for less than {size} work-items: such a launch fails.")
    return notes


def _of_target(kernels: list[CodeKernel], gpu: str | None, name: str) -> list[CodeKernel]:
    """The kernels for one GPU, or all; generic code counts for the GPU that the caller names."""
    if gpu is None:
        return kernels
    found = [k for k in kernels if gpu in (k.gpu, k.target)]
    found = found or [k for k in kernels if k.gpu.endswith(_GENERIC) and gpu in targets.targets()]
    if not found:
        has = ", ".join(sorted({k.target for k in kernels})[:20])
        raise BadArgument(f"{name} has no code for {gpu}", f"it has code for {has}", "Leave gpu out for all")
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
            f"The kernel pattern {pattern!r} is no regular expression", str(error), "Escape it, or use #1"
        ) from error
    found = [k for k in kernels if compiled.search(k.name)]
    if not found:
        names = sorted({k.name for k in kernels})
        raise NotFound(
            f"No kernel of {name} matches {pattern!r}",
            near(pattern, names) or f"It has {', '.join(names[:5])}",
            "Names are as the linker sees them (mangled for C++); #1 works too",
        )
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


Figure = Occupancy | Simplified | Problem
_COMPILER_MODE = (
    "Compiler mode is the figure of clang's remark kernel-resource-usage: the least limit per SIMD, without LDS "
    "blocks. Hardware places whole work-groups and may hold fewer waves."
)
_ONE_RULE = "NVIDIA has one rule for both modes, that of the CUDA occupancy calculator."
_FAR_BELOW = 0.5
_MARGIN = 1.05


def occupancy_notes(subject: Subject, lead: Figure, figures: Sequence[Figure]) -> list[Note]:
    """Notes on the first kernel's figure, and on those that could not be computed."""
    notes = []
    if isinstance(lead, Simplified):
        notes += [Note("simplified", text) for text in _of_simplified(subject, lead)]
    elif isinstance(lead, Occupancy):
        notes += [Note("exact", text) for text in _of_exact(subject, lead)]
        notes += [Note("measured", text) for text in _of_achieved(subject, lead)]
    if lacking := sum(isinstance(f, Problem) for f in figures):
        text = f"{lacking} of {len(figures)} kernels could not be computed; the column reason says why."
        notes.append(Note("not_computed", text))
    return notes


def _of_exact(subject: Subject, figure: Occupancy) -> list[str]:
    notes = []
    amd = targets.gpu(figure.gpu).vendor == "amd"
    n, most = figure.waves_per_workgroup, figure.max_waves_per_cu
    if figure.mode == "compiler":
        notes.append(_COMPILER_MODE if amd else _ONE_RULE)
    if figure.waves_per_cu == 0:
        so = "yet it ran, so the profile or the rule is wrong" if "launches" in subject.more else "such a launch fails"
        notes.append(f"Not one work-group of {n} waves fits ({', '.join(figure.limiters)}): {so}.")
    elif figure.mode == "hardware" and figure.limiters == ("wave_slots",) and figure.waves_per_cu < most:
        left = most - figure.waves_per_cu
        notes.append(f"{left} of {most} wave slots stay empty: no whole work-group of {n} waves fits there.")
    if figure.unit.startswith("work-group processor"):
        notes.append("A CU is a work-group processor here: two compute units that share LDS and work-groups.")
    if figure.mode == "hardware" and amd:
        notes.append("The hardware rule follows the documented allocation; rooflens has not measured it on a GPU.")
    return notes


def _of_achieved(subject: Subject, figure: Occupancy) -> list[str]:
    achieved, possible = subject.more.get("achieved_pct"), figure.occupancy_pct
    if achieved is None or not possible:
        return []
    if achieved > possible * _MARGIN:
        return [
            f"Measured occupancy ({achieved:.3g} %) is above what the profile's registers and LDS allow "
            f"({possible:.3g} %): one of the two is wrong."
        ]
    if achieved < possible * _FAR_BELOW:
        return [
            f"Measured occupancy ({achieved:.3g} %) is far below the possible {possible:.3g} %: look at the size of "
            "the grid, at waves that end at different times and at launch cost before registers or LDS."
        ]
    return []


def _of_simplified(subject: Subject, figure: Simplified) -> list[str]:
    """How far the formula is from the hardware rule, here and on this target in general."""
    exact = occupancy(
        subject.gpu,
        vgprs=subject.vgprs or 0,
        agprs=subject.agprs,
        sgprs=subject.sgprs,
        lds_bytes=subject.lds_bytes,
        dynamic_lds_bytes=subject.dynamic_lds_bytes,
        workgroup_size=subject.workgroup_size or 1,
    )
    notes = [
        f"Simplified formula of the EmPRiSM report: {figure.waves_per_cu} of {figure.max_waves_per_cu} waves per CU. "
        f"The hardware rule gives {exact.waves_per_cu} of {exact.max_waves_per_cu} ({exact.occupancy_pct:.3g} %, "
        f"limited by {', '.join(exact.limiters)}).",
        error(subject.gpu).text(subject.gpu),
    ]
    if subject.agprs:
        notes.append("The formula knows no accumulation registers; agprs were left out of it.")
    return notes


Model = Literal["exact", "simplified"]
_WAYS = "Give either gpu, vgprs and workgroup_size, or workload, or code_object; kernel goes with the last two"

_FIGURES = {"waves_per_simd": "waves", "waves_per_cu": "waves", "occupancy_pct": "%"}
_KERNELS: dict[str, str | None] = {
    **dict.fromkeys(("rank", "kernel", "gpu", "vgprs", "agprs", "sgprs")),
    "lds_bytes": "bytes",
    "workgroup_size": "work-items",
    **_FIGURES,
    "limiters": None,
}
_LIMITS: dict[str, str | None] = {
    **dict.fromkeys(("resource", "used", "allocated", "available", "unit")),
    "waves_per_cu": "waves",
    "limits": None,
}
_WHAT_IF: dict[str, str | None] = {**dict.fromkeys(("option", "argument", "now", "to", "less")), **_FIGURES}


class OccupancyResult(Result):
    """Waves (warps) that reside at once on one CU; ``cu`` says what a CU is. The figures outside of ``kernels`` are
    those of its first row. ``limits``: waves that each resource alone would allow. ``what_if``: changes, those of one
    option made together, that give more waves. ``achieved`` figures are measured, where counters allow."""

    source: str
    gpu: str
    cu: str
    mode: str
    model: str
    kernel: str | None = None
    waves_per_simd: float | None = None
    waves_per_cu: int | None = None
    max_waves_per_cu: int | None = None
    occupancy_pct: float | None = None
    limiters: list[str]
    achieved_waves_per_cu: float | None = None
    achieved_pct: float | None = None
    """Share of the device's wave slots that was in use on average."""
    limits: Table
    what_if: Table
    kernels: Table


def compute_occupancy(
    store: Store,
    gpu: Annotated[str | None, Field(description="gfx90a, sm_90, ...")] = None,
    vgprs: Annotated[int | None, Field(description="architectural, per work-item")] = None,
    agprs: int = 0,
    sgprs: Annotated[int, Field(description="per wave")] = 0,
    lds_bytes: Annotated[int, Field(description="static, per work-group")] = 0,
    dynamic_lds_bytes: Annotated[int, Field(description="added at launch")] = 0,
    workgroup_size: int | None = None,
    workload: str | None = None,
    kernel: str | None = None,
    code_object: Annotated[str | None, Field(description="AMD .hsaco, .o, library or program")] = None,
    mode: Annotated[Literal["hardware", "compiler"], Field(description="compiler: as clang's remark")] = "hardware",
    model: Literal["exact", "simplified"] = "exact",
    limit: Annotated[int, Field(ge=1, le=100_000)] = 20,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> OccupancyResult:
    """Occupancy of kernels: resident waves, what limits them (registers, LDS, work-group size, slots), how much less of
    it gives more waves, and spills. Give numbers (gpu, vgprs, workgroup_size, ...), or workload, or code_object."""
    if model == "simplified" and mode == "compiler":
        raise BadArgument("model='simplified' has no modes", fix="Leave mode out, or use model='exact'")
    stated = {"vgprs": vgprs, "agprs": agprs or None, "sgprs": sgprs or None, "lds_bytes": lds_bytes or None}
    if workload is not None and code_object is not None:
        raise BadArgument("workload and code_object exclude each other", fix=_WAYS)
    if workload is not None:
        _none_of(stated | {"workgroup_size": workgroup_size}, "workload")
        found = from_workload(store, workload, kernel, gpu, dynamic_lds_bytes)
    elif code_object is not None:
        _none_of(stated, "code_object")
        found = from_code_object(code_object, kernel, gpu, dynamic_lds_bytes, workgroup_size)
    else:
        if kernel is not None:
            raise BadArgument("kernel needs a workload or a code_object", fix=_WAYS)
        if gpu is None or vgprs is None or workgroup_size is None:
            lacking = [n for n, v in (("gpu", gpu), ("vgprs", vgprs), ("workgroup_size", workgroup_size)) if v is None]
            raise BadArgument("The kernel is not fully described", f"{', '.join(lacking)} missing", _WAYS)
        found = from_numbers(Subject(gpu, vgprs, agprs, sgprs, lds_bytes, dynamic_lds_bytes, workgroup_size))
    return _answer(found, mode, model, limit, offset)


def _none_of(stated: dict[str, int | None], source: str) -> None:
    if given := [name for name, value in stated.items() if value is not None]:
        raise BadArgument(f"{', '.join(given)} cannot be given with {source}", f"the {source} states it", _WAYS)


def _answer(found: Found, mode: Mode, model: Model, limit: int, offset: int) -> OccupancyResult:
    """Every kernel computed; one that cannot be says why in its row, or raises where nothing else is known."""
    figures = [figure_of(s, mode, model) for s in found.subjects]
    first, lead = found.subjects[0], figures[0]
    if isinstance(lead, Problem) and not found.informative and all(isinstance(f, Problem) for f in figures):
        raise lead
    exact = lead if isinstance(lead, Occupancy) else None
    known = None if isinstance(lead, Problem) else lead
    columns = _KERNELS | found.columns | ({"reason": None} if any(isinstance(f, Problem) for f in figures) else {})
    rows = [_row(i, s, f, columns) for i, (s, f) in enumerate(zip(found.subjects, figures, strict=True), 1)]
    return OccupancyResult(
        source=found.source,
        gpu=first.gpu,
        cu=exact.unit if exact else "CU",
        mode=mode,
        model=model,
        kernel=first.kernel,
        waves_per_simd=known.waves_per_simd if known else None,
        waves_per_cu=known.waves_per_cu if known else None,
        max_waves_per_cu=known.max_waves_per_cu if known else None,
        occupancy_pct=known.occupancy_pct if known else None,
        limiters=list(known.limiters) if known else [],
        achieved_waves_per_cu=first.more.get("achieved_waves_per_cu"),
        achieved_pct=first.more.get("achieved_pct"),
        limits=table(_LIMITS, _limits(known) if known else []),
        what_if=table(_WHAT_IF, _what_if(exact) if exact else []),
        kernels=table(columns, rows, limit=limit, offset=offset),
        notes=[note.text for note in (*occupancy_notes(first, lead, figures), *found.notes)],
        next=[*_next(found, exact), *found.next],
    )


def figure_of(subject: Subject, mode: Mode = "hardware", model: Model = "exact") -> Occupancy | Simplified | Problem:
    if subject.vgprs is None or subject.workgroup_size is None:
        return BadInput("The profile does not state the registers or the work-group size of this kernel")
    try:
        if model == "simplified":
            return simplified(
                subject.gpu, vgprs=subject.vgprs, sgprs=subject.sgprs,
                lds_bytes=subject.lds_bytes + subject.dynamic_lds_bytes, workgroup_size=subject.workgroup_size,
            )  # fmt: skip
        return occupancy(
            subject.gpu, vgprs=subject.vgprs, agprs=subject.agprs, sgprs=subject.sgprs, lds_bytes=subject.lds_bytes,
            dynamic_lds_bytes=subject.dynamic_lds_bytes, workgroup_size=subject.workgroup_size, mode=mode,
            wave_size=subject.wave_size, cu_mode=subject.cu_mode,
        )  # fmt: skip
    except Problem as problem:
        return problem


def _row(rank: int, subject: Subject, figure: Occupancy | Simplified | Problem, columns: Iterable[str]) -> list[Any]:
    values: dict[str, Any] = {
        "rank": rank, "kernel": subject.kernel, "gpu": subject.gpu, "vgprs": subject.vgprs, "agprs": subject.agprs,
        "sgprs": subject.sgprs, "lds_bytes": subject.lds_bytes + subject.dynamic_lds_bytes,
        "workgroup_size": subject.workgroup_size, **subject.more,
    }  # fmt: skip
    if isinstance(figure, Problem):
        values["reason"] = figure.text
    else:
        values |= {"waves_per_simd": figure.waves_per_simd, "waves_per_cu": figure.waves_per_cu,
                   "occupancy_pct": figure.occupancy_pct, "limiters": ", ".join(figure.limiters)}  # fmt: skip
    return [values.get(name) for name in columns]


def _limits(figure: Occupancy | Simplified) -> list[list[Any]]:
    """One row per resource: what is used of it, and the waves per CU that it alone would allow."""
    if isinstance(figure, Simplified):
        return [[name, None, None, None, None, waves, name in figure.limiters] for name, waves in figure.limits.items()]
    rule, launch, n = figure.rule, figure.launch, figure.waves_per_workgroup
    facts = {
        "wave_slots": (n, n, rule.slots, "waves per work-group, of a CU"),
        "workgroup_slots": (1, 1, rule.groups, "work-groups, of a CU"),
        "vgprs": (registers(rule, launch), figure.allocated_vgprs, rule.lane_vgprs, "per work-item, of a SIMD lane"),
        "sgprs": (launch.sgprs, None, None, "per wave"),
        "lds": (launch.lds, figure.allocated_lds_bytes, rule.lds, "bytes per work-group, of a CU"),
    }
    return [[name, *facts[name], figure.limits.get(name), name in figure.limiters] for name in RESOURCES]


def _what_if(figure: Occupancy) -> list[list[Any]]:
    return [
        [option, c.argument, c.now, c.to, c.less, w.waves_per_simd, w.waves_per_cu, w.occupancy_pct]
        for option, w in enumerate(figure.what_if, 1)
        for c in w.changes
    ]


def _next(found: Found, figure: Occupancy | None) -> list[NextCall]:
    """The first option of what_if as a call, where the caller gave numbers: a design can be tried out so."""
    if figure is None or found.source != "numbers" or not figure.what_if:
        return []
    arguments: dict[str, Any] = {"gpu": figure.gpu, **asdict(figure.launch)}
    arguments |= {c.argument: c.to for c in figure.what_if[0].changes}
    return [
        NextCall(
            tool="compute_occupancy",
            arguments={k: v for k, v in arguments.items() if v or k in ("gpu", "vgprs")} | {"mode": figure.mode},
            why=f"the occupancy after the smallest change, {figure.what_if[0].occupancy_pct:.3g} %",
        )
    ]
