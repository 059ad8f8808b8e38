"""The tool compute_occupancy: resident waves from registers, LDS and work-group size."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from ..analysis.base.notes import Note
from ..analysis.base.problems import BadArgument, BadInput, Problem
from ..analysis.catalogue import targets
from ..analysis.catalogue.metrics import targets_with_metrics
from ..analysis.catalogue.thresholds import threshold
from ..analysis.catalogue.vocabulary import in_vendor_terms, limiter_words
from ..analysis.diagnosis.findings import diagnose
from ..analysis.diagnosis.gains import MORE_WAVES, expected_gain, least_of
from ..analysis.occupancy import Occupancy, occupancy
from ..analysis.occupancy.binding_limits import Binding, binding
from ..analysis.occupancy.launches import ACHIEVED, LaunchConfiguration, configurations, profile_notes, repeats_vgprs
from ..analysis.occupancy.rule import LaunchResources, Mode, registers
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from .answers.next_calls import next_call
from .answers.sentences import note, optional_sentence, present, sentence
from .answers.tables import Row, table_from
from .base.parameters import Bytes, FilePath, Pattern, Reference, Registers
from .base.results import NextCall, Result, Table, TextBlock

if TYPE_CHECKING:
    from .code_objects.kernels import CodeKernel

_WAYS = "Give gpu, vgprs and workgroup_size, or workload, or code_object; kernel is for the last two only"
_MARGIN = threshold("occupancy.margin")

_FIGURES = ("waves_per_simd", "waves_per_cu", "occupancy_pct")
_KERNELS = ("rank", "kernel", "gpu", "vgprs", "agprs", "sgprs", "lds_bytes", "workgroup_size", *_FIGURES, "limiters")
_PROFILED = (
    "number", "configuration", "launches", "time_pct", "achieved_waves_per_cu", "achieved_pct", "status", "reason"
)  # fmt: skip
_COMPILED = ("target", "max_workgroup_size", "scratch_bytes", "vgpr_spills", "sgpr_spills")
"""Columns of kernels, and those added for a workload or a code object."""


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
    columns: tuple[str, ...] = ()
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
        about = [sentence("occupancy.source", result=self)]
        if self.waves_per_cu is not None:
            achieved = "" if self.achieved_pct is None else sentence("occupancy.achieved", result=self)
            kernel = optional_sentence("occupancy.kernel", kernel=self.kernel)
            about.append(sentence("occupancy.first", self.gpu, kernel=kernel, result=self, achieved=achieved))
        one = len(self.kernels.rows) == 1 and self.waves_per_cu is not None
        names = ["limits", "what_if", *([] if one else ["kernels"])]
        return [TextBlock("", about), *(TextBlock(n, shown) for n in names if (shown := getattr(self, n)).rows)]


def compute_occupancy(
    store: Store,
    gpu: Reference | None = None,
    vgprs: Registers | None = None,
    agprs: Registers = 0,
    sgprs: Registers = 0,
    lds_bytes: Bytes = 0,
    dynamic_lds_bytes: Bytes = 0,
    workgroup_size: Registers | None = None,
    workload: Reference | None = None,
    kernel: Pattern | None = None,
    code_object: FilePath | None = None,
    mode: Literal["hardware", "compiler"] = "hardware",
    limit: int = 20,
    offset: int = 0,
) -> OccupancyResult:
    """Occupancy of kernels: resident waves, what limits them, the smallest change for more, spills. Give gpu, vgprs,
    workgroup_size, ... or workload, or code_object."""
    # A code object may be for a target that the catalogue lacks.
    if gpu is not None and not (code_object and gpu.startswith("gfx")):
        gpu = targets.resolve_gpu(gpu)[0]
    required = {"gpu": gpu, "vgprs": vgprs, "workgroup_size": workgroup_size}
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

        if refused := ", ".join(name for name in stated if name in given):
            raise BadArgument(f"{refused} cannot be given with code_object", "the code_object states it", _WAYS)
        name, compiled = select(code_object, gpu, kernel)
        kernels = _of_code_object(name, compiled, gpu, dynamic_lds_bytes, workgroup_size)
    else:
        if kernel is not None:
            raise BadArgument("kernel needs a workload or a code_object", fix=_WAYS)
        if gpu is None or vgprs is None or workgroup_size is None:
            lacking = ", ".join(name for name, value in required.items() if value is None)
            raise BadArgument("The kernel is not fully described", f"Missing: {lacking}", _WAYS)
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
    what = [f"{name} {value} instead of {getattr(first.launch, name)}" for name, value in given.items()]
    payoff = _payoff(workload, first, now, then)
    answer.answer = sentence("occupancy.changed", then.gpu, what=what, now=now, then=then, payoff=payoff)
    answer.notes += [each.text for each in source.notes]
    return answer


def _payoff(workload: Workload, kernel: OccupancyKernel, now: Occupancy, then: Occupancy) -> str:
    """Whether other waves would pay off, in a sentence: by the grid, and by what the kernel waits for."""
    if not now.waves_per_cu or then.waves_per_cu <= now.waves_per_cu:
        return sentence("occupancy.no_more")
    factor = then.waves_per_cu / now.waves_per_cu
    bound = kernel.binding_limit(now)
    if bound and bound.offered is not None:
        return sentence("occupancy.no_gain", why=bound.text)
    assert kernel.profiled is not None
    try:
        with Workload(workload.store, workload.manifest, "launch") as by_launch:
            (one, *_), _ = diagnose(by_launch, kernel=kernel.profiled.number)
    except BadInput as problem:
        return sentence("occupancy.unknown_gain", why=problem.what)
    waiting = next((gain for gain in one.changes if gain.change == MORE_WAVES), None)
    if waiting is None:
        return sentence("occupancy.no_waiting")
    at_most = least_of(factor, waiting.at_most)
    expected = expected_gain(waiting.part_pct, at_most)
    return sentence("occupancy.gain", waiting=waiting, at_most=at_most, expected=expected)


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
        notes.append(note("occupancy.achieved_unknown", metric=ACHIEVED, why=lacking))
    return Kernels(
        f"workload {manifest.id}",
        [_profiled_kernel(arch, row, dynamic, manifest.facts.get("cu_per_gpu")) for row in launched.rows],
        _PROFILED,
        notes,
        [_measurement(workload, lacking is None)] if lacking is None or arch in targets_with_metrics() else [],
        informative=lacking is None,
    )


def _profiled_kernel(arch: str, row: LaunchConfiguration, dynamic: int, cus: float | None) -> OccupancyKernel:
    launch = _resources(row, dynamic)
    launch = replace(launch, agprs=0) if repeats_vgprs(arch, row) else launch
    return OccupancyKernel(arch, launch, row.kernel, profiled=row, cus=cus)


def _resources(of: LaunchConfiguration | CodeKernel, dynamic: int) -> LaunchResources:
    """The resources that a profile or a code object states; 0 for those that it does not state."""
    stated = {each.name: getattr(of, each.name, None) or 0 for each in fields(LaunchResources)}
    return LaunchResources(**stated | {"dynamic_lds_bytes": dynamic})


def _measurement(workload: Workload, achieved: bool) -> NextCall:
    if achieved:
        return next_call(
            "compute_metrics",
            in_vendor_terms("measured reasons why work-groups could not be placed", workload.arch),
            workload=workload.id,
            metrics=["6.2"],
        )
    return next_call(
        "plan_profile", "how to measure the achieved occupancy", gpu=workload.arch, metrics=[ACHIEVED, "6.2"]
    )


def _of_code_object(name: str, compiled: list[CodeKernel], gpu: str | None, dynamic: int, size: int | None) -> Kernels:
    """The kernels of a code object in its order; ``size`` is the work-group size of the launch, if known."""
    from .code_objects.kernels import GENERIC

    kernels = [
        OccupancyKernel(
            gpu if gpu and k.gpu.endswith(GENERIC) else k.gpu,
            replace(
                _resources(k, dynamic),
                workgroup_size=size if size is not None else k.workgroup_size or k.max_workgroup_size,
            ),
            k.name,
            k.wave_size,
            k.cu_mode,
            compiled=k,
        )
        for k in compiled
    ]
    foreign = any(k.gpu not in targets.targets() for k in kernels)
    return Kernels(f"code object {name}", kernels, _COMPILED, _about(compiled, size, dynamic), informative=foreign)


def _about(kernels: list[CodeKernel], size: int | None, dynamic: int) -> list[Note]:
    """Notes on what a code object does not state about its launches."""
    affected = {
        "occupancy.compiled_size": size is None and any(k.workgroup_size is None for k in kernels),
        "occupancy.static_lds_only": not dynamic,
        "occupancy.spills": sum(bool(k.vgpr_spills or k.sgpr_spills) for k in kernels),
        "occupancy.dynamic_stack": any(k.dynamic_stack for k in kernels),
        "occupancy.too_large": sum(bool(size and size > k.max_workgroup_size) for k in kernels),
    }
    return [note(code, n=n, every=len(kernels), size=size) for code, n in affected.items() if n]


def _answer(source: Kernels, mode: Mode, limit: int, offset: int) -> OccupancyResult:
    """The occupancy of every kernel; if one cannot be computed, its row says why, or the error is raised if none
    can."""
    figures = [kernel.occupancy(mode) for kernel in source.kernels]
    first, lead = source.kernels[0], figures[0]
    failed = sum(isinstance(figure, Problem) for figure in figures)
    if isinstance(lead, Problem) and not source.informative and failed == len(figures):
        raise lead
    known = lead if isinstance(lead, Occupancy) else None
    bound = first.binding_limit(known) if known else None
    helps = bound.helps if bound else None
    changes: list[Row] = [
        {"option": option, "change": change, "then": then, "helps": helps}
        for option, then in enumerate(known.what_if if known else (), 1)
        for change in then.changes
    ]
    columns = dict.fromkeys((*_KERNELS, *source.columns, *(["reason"] if failed else [])))
    rows = [_row(i, k, f) for i, (k, f) in enumerate(zip(source.kernels, figures, strict=True), 1)]
    shown: dict[str, Any] = {name: getattr(known, name, None) for name in (*_FIGURES, "max_waves_per_cu")}
    shown |= {name: getattr(first.profiled, name, None) for name in ("achieved_waves_per_cu", "achieved_pct")}
    return OccupancyResult(
        answer=(bound.text if bound else _unbound(first, known)) if known else None,
        bound_by=bound.by if bound else None,
        source=source.source,
        gpu=first.gpu,
        cu=known.unit if known else "CU",
        mode=mode,
        kernel=first.name,
        **shown,
        limiters=first.limiters(known) if known else [],
        status=getattr(first.profiled, "status", "ok"),
        limits=table_from("limits", _limits(first, known, bound) if known else []),
        what_if=table_from("what_if", changes, without=() if helps else ("helps",)),
        kernels=table_from("occupancies", rows, only=columns, limit=limit, offset=offset),
        notes=present(
            *(each.text for each in (kernel_notes(first, known) if known else [])),
            optional_sentence("occupancy.failed", failed=failed, every=len(figures)),
            *(each.text for each in source.notes),
        ),
        next=[*_next(source, known), *source.next],
    )


def _row(rank: int, kernel: OccupancyKernel, figure: Occupancy | Problem) -> Row:
    """What the columns of one kernel are taken from; what a profile states of registers comes before what counts."""
    known = figure if isinstance(figure, Occupancy) else None
    return {
        "rank": rank,
        "kernel": kernel,
        "stated": kernel.profiled or kernel.launch,
        "figure": known,
        "limiters": ", ".join(kernel.limiters(known)) if known else None,
        "reason": figure.text if isinstance(figure, Problem) else kernel.profiled and kernel.profiled.reason,
    }


def _unbound(kernel: OccupancyKernel, figure: Occupancy) -> str | None:
    """What resources allow, and why it is unknown whether a launch reaches it; notes report contradictions and
    failures."""
    achieved = kernel.profiled and kernel.profiled.achieved_waves_per_cu
    if not figure.waves_per_cu:
        return None
    reasons = {
        "occupancy.unexplained": achieved is not None,
        "occupancy.no_grid": not kernel.profiled,
        "occupancy.not_measured_grid": kernel.cus and getattr(kernel.profiled, "grid", None),
        "occupancy.unknown_grid": True,
    }
    code = next(code for code, applies in reasons.items() if applies)
    unknown, limiters = sentence(code, achieved=achieved), limiter_words(figure.limiters, figure.gpu)
    return sentence("occupancy.allowed", figure.gpu, limiters=limiters, figure=figure, unknown=unknown)


def _limits(kernel: OccupancyKernel, figure: Occupancy, bound: Binding | None) -> list[Row]:
    """One row per resource: its use, and the waves per CU that it alone would allow; finally the grid if it is the
    limit."""
    rule, launch, n = figure.rule, figure.launch, figure.waves_per_workgroup
    amd = targets.gpu(figure.gpu).vendor == "amd"
    of_unit, lane = ("of a CU", "of a SIMD lane") if amd else ("of an SM", "of a lane")
    limiters = kernel.limiters(figure)
    uses = {
        "wave_slots": (n, n, rule.slots, f"waves per work-group, {of_unit}"),
        "workgroup_slots": (1, 1, rule.groups, f"work-groups, {of_unit}"),
        "vgprs": (registers(rule, launch), figure.allocated_vgprs, rule.lane_vgprs, f"per work-item, {lane}"),
        "sgprs": (kernel.stated_sgprs, None, None, "per wave"),
        "lds": (launch.lds, figure.allocated_lds_bytes, rule.lds, f"bytes per work-group, {of_unit}"),
        "grid": (None, None, None, f"waves, {of_unit}"),
    }
    offered = bound and bound.offered
    lacking = {"sgprs": not amd, "grid": offered is None}
    return [
        {"resource": name, "waves": figure.limits.get(name, offered), "limits": name in limiters}
        | {"used": used, "allocated": allocated, "available": available, "unit": in_vendor_terms(unit, figure.gpu)}
        for name, (used, allocated, available, unit) in uses.items()
        if not lacking.get(name)
    ]


def kernel_notes(kernel: OccupancyKernel, figure: Occupancy) -> list[Note]:
    """Notes on one kernel's figure: its mode, what does not fit, and how it compares with measured occupancy."""
    achieved = getattr(kernel.profiled, "achieved_pct", None)
    amd, hardware = targets.gpu(figure.gpu).vendor == "amd", figure.mode == "hardware"
    left, possible = figure.max_waves_per_cu - figure.waves_per_cu, figure.occupancy_pct
    applies = {
        "occupancy.mode": not hardware,
        "occupancy.does_not_fit": not possible,
        "occupancy.empty_slots": possible and hardware and figure.limiters == ("wave_slots",) and left,
        "occupancy.workgroup_processor": figure.unit.startswith("work-group processor"),
        "occupancy.not_measured": amd and hardware,
        "occupancy.doubted": getattr(kernel.profiled, "doubt", None),
        "occupancy.measured": achieved and possible and achieved > possible * _MARGIN,
    }
    values = {
        "figure": figure,
        "possible": possible,
        "left": left,
        "achieved": achieved,
        "limiters": limiter_words(figure.limiters, figure.gpu),
        "mode": sentence("occupancy.compiler_mode" if amd else "occupancy.one_rule"),
        "so": sentence("occupancy.yet_it_ran" if kernel.profiled else "occupancy.launch_fails"),
        "why": getattr(kernel.profiled, "reason", None),
    }
    return [note(code, figure.gpu, **values) for code, applying in applies.items() if applying]


def _next(source: Kernels, figure: Occupancy | None) -> list[NextCall]:
    """The first option of what_if as a call, if the caller gave numbers, to try out a design."""
    if figure is None or source.source != "numbers" or not figure.what_if:
        return []
    smallest = figure.what_if[0]
    launch = asdict(figure.launch) | {c.argument: c.to for c in smallest.changes}
    stated = {name: value for name, value in launch.items() if value or name == "vgprs"}
    why = f"the occupancy after the smallest change, {smallest.occupancy_pct:.3g} %"
    return [next_call("compute_occupancy", why, gpu=figure.gpu, **stated, mode=figure.mode)]
