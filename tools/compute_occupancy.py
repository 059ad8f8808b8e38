"""The tool compute_occupancy: resident waves from registers, LDS and work-group size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ..analysis.base.notes import Note
from ..analysis.base.problems import BadArgument, BadInput, Problem
from ..analysis.base.text import count_text
from ..analysis.catalogue import targets
from ..analysis.catalogue.metrics import targets_with_metrics
from ..analysis.catalogue.thresholds import threshold
from ..analysis.diagnosis.findings import diagnose
from ..analysis.diagnosis.gains import MORE_WAVES, expected_gain, least_of
from ..analysis.occupancy import RESOURCES, Occupancy, occupancy
from ..analysis.occupancy.binding_limits import Binding, binding, words_of
from ..analysis.occupancy.launches import ACHIEVED, LaunchConfiguration, configurations, profile_notes, repeats_vgprs
from ..analysis.occupancy.rule import LaunchResources, Mode, registers
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from .answers.next_calls import next_call
from .base.parameters import Bytes, FilePath, KernelName, Offset, Reference, Registers
from .base.results import NextCall, Result, Table, TextBlock, table

if TYPE_CHECKING:
    from .code_objects.kernels import CodeKernel

_WAYS = "Give gpu, vgprs and workgroup_size, or workload, or code_object; kernel is for the last two only"
_COMPILER_MODE = (
    "Compiler mode gives the figure of clang's remark kernel-resource-usage: the lowest limit per SIMD, without LDS "
    "blocks. The hardware places whole work-groups and may hold fewer waves."
)
_ONE_RULE = "On NVIDIA both modes use the rule of the CUDA occupancy calculator."
_MARGIN = threshold("occupancy.margin")

_PROFILED = {
    **dict.fromkeys(("number", "configuration", "launches")),
    "time_pct": "%",
    "achieved_waves_per_cu": "waves",
    "achieved_pct": "%",
    **dict.fromkeys(("status", "reason")),
}
_COMPILED = {
    "target": None,
    "max_workgroup_size": "work-items",
    "scratch_bytes": "bytes",
    "vgpr_spills": None,
    "sgpr_spills": None,
}
"""Columns added for a workload or a code object, with their units: fields of LaunchConfiguration and CodeKernel."""
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


@dataclass(frozen=True)
class OccupancyKernel:
    """One kernel with its resources; ``profiled`` or ``compiled`` is the source that they were read from."""

    gpu: str
    launch: LaunchResources
    name: str | None = None
    wave_size: int | None = None
    cu_mode: bool = False
    profiled: LaunchConfiguration | None = None
    compiled: CodeKernel | None = None
    cus: float | None = None
    """Compute units (SMs) of the device that ran it."""

    def binding_limit(self, figure: Occupancy) -> Binding | None:
        """What limits the occupancy of its launches, if it was profiled."""
        return binding(figure, self.profiled, self.cus) if self.profiled else None

    def limiters(self, figure: Occupancy) -> list[str]:
        """What keeps its launches from more waves: the grid if it is the limit, or else resources."""
        bound = self.binding_limit(figure)
        return ["grid"] if bound and bound.by == "grid" else list(figure.limiters)

    @property
    def stated_sgprs(self) -> int | None:
        """The scalar registers of a wave, or None if they were not stated and therefore count as 0."""
        # Every wave uses scalar registers, so 0 means not stated; NVIDIA has none.
        return (self.profiled or self.launch).sgprs or (0 if self.compiled else None)

    def occupancy(self, mode: Mode) -> Occupancy | Problem:
        """Its occupancy, or why it cannot be computed."""
        if self.profiled and None in (self.profiled.vgprs, self.profiled.workgroup_size):
            return BadInput("The profile does not state the registers or the work-group size of this kernel")
        try:
            return occupancy(self.gpu, **asdict(self.launch), mode=mode, wave_size=self.wave_size, cu_mode=self.cu_mode)
        except Problem as problem:
            return problem


@dataclass(frozen=True)
class Kernels:
    """The kernels of one source, the most important first, with notes on them."""

    source: str
    kernels: list[OccupancyKernel]
    columns: dict[str, str | None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    next: list[NextCall] = field(default_factory=list)
    informative: bool = False
    """Whether the kernels are worth an answer even if no occupancy can be computed."""


class OccupancyResult(Result):
    """Waves (warps) that are resident at once on one CU; ``cu`` says what a CU is. The figures outside of ``kernels``
    are those of its first row; waves and occupancy_pct are what resources allow. ``limits``: the waves that each
    resource alone would allow, and those in the grid if it is the limit. ``what_if``: changes that give more waves
    (those of one option are made together); for a workload, the column helps says whether the launch would benefit (no,
    doubtful, perhaps: if the kernel is bound by latency). ``achieved`` figures are measured if counters allow:
    averages over the cycles of SMs with work on NVIDIA (occupancy.achieved_pct), over the whole kernel on AMD
    (occupancy.waves). Resources given with a workload replace those of its kernel."""

    answer: str | None = None
    """What limits the launches of the first kernel, or why that is unknown."""
    bound_by: str | None = None
    """grid, uneven (waves end at different times) or resources (``limiters``); null if the profile does not show it."""
    source: str
    gpu: str
    cu: str
    mode: str
    kernel: str | None = None
    waves_per_simd: float | None = None
    waves_per_cu: int | None = None
    max_waves_per_cu: int | None = None
    occupancy_pct: float | None = None
    limiters: list[str]
    achieved_waves_per_cu: float | None = None
    achieved_pct: float | None = None
    """The average share of the device's wave slots in use, in percent."""
    status: str = "ok"
    """suspect if the profile's registers or counters are doubted; ``notes`` say why."""
    limits: Table
    what_if: Table
    kernels: Table

    def blocks(self) -> list[TextBlock]:
        """Return the figures of the first kernel in one line, then the tables that have more to say."""
        about = [f"source: {self.source} ({self.gpu}, mode {self.mode}, {self.cu})"]
        if self.waves_per_cu is not None:
            achieved = "" if self.achieved_pct is None else f"; achieved {self.achieved_pct:.4g} %"
            kernel = f"kernel: {self.kernel}; " if self.kernel else ""
            about.append(
                f"{kernel}{self.waves_per_cu} of {self.max_waves_per_cu} waves per CU allowed "
                f"({self.occupancy_pct:.4g} %), by {', '.join(self.limiters)}{achieved}; status {self.status}"
            )
        several = len(self.kernels.rows) > 1 or self.waves_per_cu is None
        tables = {"limits": self.limits, "what_if": self.what_if, **({"kernels": self.kernels} if several else {})}
        return [TextBlock("", about), *(TextBlock(name, shown) for name, shown in tables.items() if shown.rows)]


def compute_occupancy(
    store: Store,
    gpu: Annotated[Reference | None, Field(description="target (gfx90a) or product (MI250X)")] = None,
    vgprs: Annotated[Registers | None, Field(description="VGPRs per work-item (registers per thread)")] = None,
    agprs: Annotated[Registers, Field(description="accumulation VGPRs per work-item")] = 0,
    sgprs: Annotated[Registers, Field(description="scalar registers per wave")] = 0,
    lds_bytes: Annotated[Bytes, Field(description="static LDS (shared memory) per work-group")] = 0,
    dynamic_lds_bytes: Annotated[Bytes, Field(description="LDS added at launch")] = 0,
    workgroup_size: Annotated[
        Registers | None, Field(description="work-items per work-group (threads per block)")
    ] = None,
    workload: Annotated[Reference | None, Field(description="use its kernels instead of numbers")] = None,
    kernel: KernelName = None,
    code_object: Annotated[FilePath | None, Field(description="AMD .hsaco, .o, library or program to read")] = None,
    mode: Annotated[
        Literal["hardware", "compiler"], Field(description="compiler: the figure of clang's remark")
    ] = "hardware",
    limit: Annotated[int, Field(ge=1, le=100000, description="most kernels")] = 20,
    offset: Offset = 0,
) -> OccupancyResult:
    """Occupancy of kernels: resident waves, what limits them, the smallest change for more, spills. Give gpu, vgprs,
    workgroup_size, ... or workload, or code_object."""
    # A code object may be for a target that the catalogue lacks.
    if gpu is not None and not (code_object and gpu.startswith("gfx")):
        gpu = targets.resolve_gpu(gpu)[0]
    stated = {"vgprs": vgprs, "agprs": agprs or None, "sgprs": sgprs or None, "lds_bytes": lds_bytes or None}
    given = {n: v for n, v in (stated | {"workgroup_size": workgroup_size}).items() if v is not None}
    if workload is not None and code_object is not None:
        raise BadArgument("workload and code_object exclude each other", fix=_WAYS)
    if workload is not None:
        with Workload.open(store, workload) as opened:
            kernels = of_workload(opened, kernel, gpu, dynamic_lds_bytes)
            if given:
                return _changed_launch(opened, kernels, given, mode)
    elif code_object is not None:
        from .code_objects.kernels import select

        if refused := [name for name in stated if name in given]:
            why = "the code_object states it"
            raise BadArgument(f"{', '.join(refused)} cannot be given with code_object", why, _WAYS)
        name, compiled = select(code_object, gpu, kernel)
        kernels = _of_code_object(name, compiled, gpu, dynamic_lds_bytes, workgroup_size)
    else:
        if kernel is not None:
            raise BadArgument("kernel needs a workload or a code_object", fix=_WAYS)
        if gpu is None or vgprs is None or workgroup_size is None:
            lacking = [n for n, v in (("gpu", gpu), ("vgprs", vgprs), ("workgroup_size", workgroup_size)) if v is None]
            raise BadArgument("The kernel is not fully described", f"Missing: {', '.join(lacking)}", _WAYS)
        launch = LaunchResources(vgprs, agprs, sgprs, lds_bytes, dynamic_lds_bytes, workgroup_size)
        kernels = Kernels("numbers", [OccupancyKernel(gpu, launch)])
    return _answer(kernels, mode, limit, offset)


def _changed_launch(workload: Workload, source: Kernels, given: dict[str, int], mode: Mode) -> OccupancyResult:
    """The occupancy of the first kernel with other resources, and what the additional waves could gain."""
    first = source.kernels[0]
    now = first.occupancy(mode)
    changed = replace(first, launch=replace(first.launch, **given), profiled=None)
    then = changed.occupancy(mode)
    for figure in (now, then):
        if isinstance(figure, Problem):
            raise figure
    assert isinstance(now, Occupancy) and isinstance(then, Occupancy)
    answer = _answer(Kernels(source.source, [changed]), mode, 1, 0)
    what = ", ".join(f"{name} {value} instead of {getattr(first.launch, name)}" for name, value in given.items())
    words = words_of(then.gpu)
    counts = f"With {what}, resources allow {then.waves_per_cu} {words.wave}s per {words.unit} instead of "
    told = f"{counts}{now.waves_per_cu}. {_payoff(workload, first, now, then)}"
    return answer.model_copy(update={"answer": told, "notes": [*answer.notes, *(n.text for n in source.notes)]})


def _payoff(workload: Workload, kernel: OccupancyKernel, now: Occupancy, then: Occupancy) -> str:
    """Whether other waves would pay off, in a sentence: by the grid, and by what the kernel waits for."""
    if not now.waves_per_cu or then.waves_per_cu <= now.waves_per_cu:
        return "No gain is expected: there would not be more of them."
    factor = then.waves_per_cu / now.waves_per_cu
    bound = kernel.binding_limit(now)
    if bound and bound.offered is not None:
        return f"No gain is expected: {bound.text}"
    assert kernel.profiled is not None
    try:
        with Workload(workload.store, workload.manifest, "launch") as by_launch:
            (one, *_), _ = diagnose(by_launch, kernel=kernel.profiled.number)
    except BadInput as problem:
        return f"What that gains is unknown: {problem.what}."
    waiting = next((gain for gain in one.changes if gain.change == MORE_WAVES), None)
    if waiting is None:
        return "No gain is expected: its waves hardly wait for results, which is what more of them would hide."
    at_most = least_of(factor, waiting.at_most)
    return (
        f"Its waves wait for results for {waiting.part_pct:.3g} % of their lifetime: at most {at_most:.3g} times as "
        f"fast, expected {expected_gain(waiting.part_pct, at_most):.3g}."
    )


def of_workload(workload: Workload, kernel: str | None, gpu: str | None = None, dynamic: int = 0) -> Kernels:
    """The kernels of a workload, longest total time first; one row per kernel and launch configuration."""
    manifest = workload.manifest
    if gpu is not None and manifest.arch not in (None, gpu):
        raise BadArgument(f"gpu={gpu!r} contradicts the workload", f"it was profiled on {manifest.arch}", "Omit gpu")
    arch = manifest.arch or gpu
    if arch is None:
        raise BadInput(f"Workload {manifest.name!r} does not state its GPU", fix="Give gpu as well")
    launched = configurations(workload, kernel)
    lacking = launched.not_achieved
    if lacking and all(row.vgprs is None for row in launched.rows):
        raise BadInput(
            f"Workload {manifest.name!r} does not state the registers of these kernels",
            f"its profiler did not write them; the achieved occupancy is unknown too: {lacking}",
            "Give the numbers, or the code object",
        )
    notes = profile_notes(workload, arch, launched.rows, dynamic)
    if lacking:
        text = f"The achieved occupancy ({ACHIEVED}) is unknown for this workload: {lacking}."
        notes.append(Note("achieved_unknown", text))
    return Kernels(
        f"workload {manifest.id}",
        [_profiled_kernel(arch, row, dynamic, manifest.facts.get("cu_per_gpu")) for row in launched.rows],
        _PROFILED,
        notes,
        _next_of_workload(workload, lacking is None),
        informative=lacking is None,
    )


def _profiled_kernel(arch: str, row: LaunchConfiguration, dynamic: int, cus: float | None) -> OccupancyKernel:
    agprs = 0 if repeats_vgprs(arch, row) else row.agprs or 0
    launch = LaunchResources(
        row.vgprs or 0, agprs, row.sgprs or 0, row.lds_bytes or 0, dynamic, row.workgroup_size or 0
    )
    return OccupancyKernel(arch, launch, row.kernel, profiled=row, cus=cus)


def _next_of_workload(workload: Workload, achieved: bool) -> list[NextCall]:
    if achieved:
        why = "measured reasons why work-groups could not be placed"
        return [next_call("compute_metrics", why, workload=workload.id, metrics=["6.2"])]
    if workload.arch not in targets_with_metrics():
        return []
    why = "how to measure the achieved occupancy"
    return [next_call("plan_profile", why, gpu=workload.arch, metrics=[ACHIEVED, "6.2"])]


def _of_code_object(name: str, compiled: list[CodeKernel], gpu: str | None, dynamic: int, size: int | None) -> Kernels:
    """The kernels of a code object in its order; ``size`` is the work-group size of the launch, if known."""
    from .code_objects.kernels import GENERIC

    kernels = [
        OccupancyKernel(
            gpu if gpu and k.gpu.endswith(GENERIC) else k.gpu,
            LaunchResources(
                k.vgprs,
                k.agprs,
                k.sgprs,
                k.lds_bytes,
                dynamic,
                size if size is not None else k.workgroup_size or k.max_workgroup_size,
            ),
            k.name,
            k.wave_size,
            k.cu_mode,
            compiled=k,
        )
        for k in compiled
    ]
    foreign = any(k.gpu not in targets.targets() for k in kernels)
    return Kernels(f"code object {name}", kernels, _COMPILED, [*_about(compiled, size, dynamic)], informative=foreign)


def _about(kernels: list[CodeKernel], size: int | None, dynamic: int) -> Iterator[Note]:
    """Notes on what a code object does not state about its launches."""
    every = len(kernels)
    if size is None and any(k.workgroup_size is None for k in kernels):
        yield Note(
            "compiled_size",
            "workgroup_size is the maximum that a kernel was compiled for (1,024 if the source does not say); "
            "pass the size of the launch if it is smaller.",
        )
    if not dynamic:
        yield Note(
            "static_lds_only",
            "A code object states only static LDS; pass dynamic_lds_bytes if the launch adds LDS "
            "(Triton kernels add all their LDS this way).",
        )
    if spilling := sum(bool(k.vgpr_spills or k.sgpr_spills) for k in kernels):
        yield Note(
            "spills",
            f"{spilling} of {count_text(every, 'kernel spills', 'kernels spill')} registers; VGPRs spilled to "
            "scratch cause memory traffic.",
        )
    if any(k.dynamic_stack for k in kernels):
        yield Note(
            "dynamic_stack",
            "Kernels with a dynamic stack (recursion, calls through pointers) need more scratch than stated.",
        )
    if small := sum(1 for k in kernels if size and size > k.max_workgroup_size):
        yield Note(
            "too_large",
            f"{small} of {count_text(every, 'kernel was', 'kernels were')} compiled for fewer than {size} "
            "work-items: this launch fails.",
        )


def _answer(source: Kernels, mode: Mode, limit: int, offset: int) -> OccupancyResult:
    """The occupancy of every kernel; if one cannot be computed, its row says why, or the error is raised if none
    can."""
    figures = [kernel.occupancy(mode) for kernel in source.kernels]
    first, lead = source.kernels[0], figures[0]
    failed = [f for f in figures if isinstance(f, Problem)]
    if isinstance(lead, Problem) and not source.informative and len(failed) == len(figures):
        raise lead
    known = lead if isinstance(lead, Occupancy) else None
    bound = first.binding_limit(known) if known else None
    notes = [*kernel_notes(first, known)] if known else []
    if failed:
        text = f"{len(failed)} of {count_text(len(figures), 'kernel')} could not be computed; see the column reason."
        notes.append(Note("failed", text))
    columns = _KERNELS | source.columns | ({"reason": None} if failed else {})
    rows = [_row(i, k, f, columns) for i, (k, f) in enumerate(zip(source.kernels, figures, strict=True), 1)]
    return OccupancyResult(
        answer=(bound.text if bound else _unbound(first, known)) if known else None,
        bound_by=bound.by if bound else None,
        source=source.source,
        gpu=first.gpu,
        cu=known.unit if known else "CU",
        mode=mode,
        kernel=first.name,
        **{name: getattr(known, name, None) for name in (*_FIGURES, "max_waves_per_cu")},
        limiters=first.limiters(known) if known else [],
        achieved_waves_per_cu=first.profiled.achieved_waves_per_cu if first.profiled else None,
        achieved_pct=first.profiled.achieved_pct if first.profiled else None,
        status=first.profiled.status if first.profiled else "ok",
        limits=table(_LIMITS, _limits(first, known, bound) if known else []),
        what_if=_what_if(known, bound.helps if bound else None),
        kernels=table(columns, rows, limit=limit, offset=offset),
        notes=[note.text for note in (*notes, *source.notes)],
        next=[*_next(source, known), *source.next],
    )


def _row(rank: int, kernel: OccupancyKernel, figure: Occupancy | Problem, columns: Iterable[str]) -> list[Any]:
    """One kernel's values in the order of ``columns``."""
    values: dict[str, Any] = {"rank": rank, "kernel": kernel.name, "gpu": kernel.gpu, **asdict(kernel.launch)}
    values["sgprs"] = kernel.stated_sgprs
    values["lds_bytes"] = kernel.launch.lds
    if kernel.compiled:
        values |= {name: getattr(kernel.compiled, name) for name in _COMPILED}
    if kernel.profiled:
        values |= {name: getattr(kernel.profiled, name) for name in ("vgprs", "workgroup_size", *_PROFILED)}
    if isinstance(figure, Problem):
        values["reason"] = figure.text
    else:
        values |= {name: getattr(figure, name) for name in _FIGURES} | {"limiters": ", ".join(kernel.limiters(figure))}
    return [values.get(name) for name in columns]


def _unbound(kernel: OccupancyKernel, figure: Occupancy) -> str | None:
    """What resources allow, and why it is unknown whether a launch reaches it; notes report contradictions and
    failures."""
    achieved = kernel.profiled and kernel.profiled.achieved_waves_per_cu
    if not figure.waves_per_cu:
        return None
    words = words_of(figure.gpu)
    if achieved is not None:
        unknown = f"{achieved:.3g} were resident on average; what keeps the others away is not known"
    elif not kernel.profiled:
        unknown = "The grid is not known here: a launch that is too small to fill the device reaches less"
    elif kernel.cus and kernel.profiled.grid:
        unknown = "The grid would fill them; whether they stay filled was not measured"
    else:
        unknown = "Whether a launch reaches this is unknown: its grid or the size of the device is not stated"
    return (
        f"Resources ({words.limiter_names(figure.limiters)}) allow {figure.waves_per_cu} {words.wave}s per "
        f"{words.unit}, {figure.occupancy_pct:.3g} %. {unknown}."
    )


def _limits(kernel: OccupancyKernel, figure: Occupancy, bound: Binding | None) -> list[list[Any]]:
    """One row per resource: its use, and the waves per CU that it alone would allow; finally the grid if it is the
    limit."""
    rule, launch, n, words = figure.rule, figure.launch, figure.waves_per_workgroup, words_of(figure.gpu)
    of_unit, limiters = f"of a {words.unit}" if words.unit == "CU" else f"of an {words.unit}", kernel.limiters(figure)
    lane = "of a SIMD lane" if words.unit == "CU" else "of a lane"
    facts = {
        "wave_slots": (n, n, rule.slots, f"{words.wave}s per {words.group}, {of_unit}"),
        "workgroup_slots": (1, 1, rule.groups, f"{words.group}s, {of_unit}"),
        "vgprs": (registers(rule, launch), figure.allocated_vgprs, rule.lane_vgprs, f"per {words.item}, {lane}"),
        "sgprs": (kernel.stated_sgprs, None, None, f"per {words.wave}"),
        "lds": (launch.lds, figure.allocated_lds_bytes, rule.lds, f"bytes per {words.group}, {of_unit}"),
    }
    shown = [name for name in RESOURCES if name != "sgprs" or words.unit == "CU"]
    rows: list[list[Any]] = [[name, *facts[name], figure.limits.get(name), name in limiters] for name in shown]
    if bound and bound.offered is not None:
        rows.append(["grid", None, None, None, f"{words.wave}s, {of_unit}", bound.offered, True])
    return rows


def _what_if(figure: Occupancy | None, helps: str | None) -> Table:
    last = {"helps": helps} if helps else {}
    rows = [
        [option, c.argument, c.now, c.to, c.less, w.waves_per_simd, w.waves_per_cu, w.occupancy_pct, *last.values()]
        for option, w in enumerate(figure.what_if if figure else (), 1)
        for c in w.changes
    ]
    return table(_WHAT_IF | dict.fromkeys(last), rows)


def kernel_notes(kernel: OccupancyKernel, figure: Occupancy) -> Iterator[Note]:
    """Notes on one kernel's figure: its mode, what does not fit, and how it compares with measured occupancy."""
    words = words_of(figure.gpu)
    amd = targets.gpu(figure.gpu).vendor == "amd"
    n, most = figure.waves_per_workgroup, figure.max_waves_per_cu
    if figure.mode == "compiler":
        yield Note("mode", _COMPILER_MODE if amd else _ONE_RULE)
    if figure.waves_per_cu == 0:
        so = "yet it ran, so the profile or the rule is wrong" if kernel.profiled else "this launch fails"
        yield Note(
            "does_not_fit",
            f"Not one {words.group} of {n} {words.wave}s fits ({words.limiter_names(figure.limiters)}): {so}.",
        )
    elif figure.mode == "hardware" and figure.limiters == ("wave_slots",) and figure.waves_per_cu < most:
        left = most - figure.waves_per_cu
        slots = f"{left} of {most} {words.limiters['wave_slots']} stay empty"
        yield Note("empty_slots", f"{slots}: no whole {words.group} of {n} {words.wave}s fits there.")
    if figure.unit.startswith("work-group processor"):
        yield Note(
            "workgroup_processor",
            "Here a CU is a work-group processor: two compute units that share LDS and work-groups.",
        )
    if figure.mode == "hardware" and amd:
        yield Note(
            "not_measured",
            "The hardware rule follows the documented allocation; rooflens has not measured it on a GPU.",
        )
    if kernel.profiled and kernel.profiled.doubt:
        yield Note("doubted", f"Suspect: {kernel.profiled.doubt.text}.")
    achieved = kernel.profiled.achieved_pct if kernel.profiled else None
    possible = figure.occupancy_pct
    if achieved is not None and possible and achieved > possible * _MARGIN:
        yield Note(
            "measured",
            f"Measured occupancy ({achieved:.3g} %) is above what the profile's registers and "
            f"{words.limiters['lds']} allow ({possible:.3g} %): one of the two is wrong.",
        )


def _next(source: Kernels, figure: Occupancy | None) -> list[NextCall]:
    """The first option of what_if as a call, if the caller gave numbers, to try out a design."""
    if figure is None or source.source != "numbers" or not figure.what_if:
        return []
    smallest = figure.what_if[0]
    launch = asdict(figure.launch) | {c.argument: c.to for c in smallest.changes}
    stated = {name: value for name, value in launch.items() if value or name == "vgprs"}
    why = f"the occupancy after the smallest change, {smallest.occupancy_pct:.3g} %"
    return [next_call("compute_occupancy", why, gpu=figure.gpu, **stated, mode=figure.mode)]
