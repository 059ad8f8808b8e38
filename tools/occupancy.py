"""compute_occupancy: resident waves from numbers, from the kernels of a workload, or from an AMD code object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.occupancy import RESOURCES, Mode, Occupancy, occupancy
from ..analysis.occupancy_rule import registers
from ..analysis.occupancy_simplified import Simplified, simplified
from ..analysis.problems import BadArgument, BadInput, Problem
from ..analysis.store import Store
from .occupancy_notes import occupancy_notes
from .occupancy_sources import Found, Subject, from_numbers, from_workload
from .results import NextCall, Result, Table, table

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
        from .occupancy_code import from_code_object

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
    figures = [_figure(s, mode, model) for s in found.subjects]
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
        notes=[*occupancy_notes(first, lead, figures), *found.notes],
        next=[*_next(found, exact), *found.next],
    )


def _figure(subject: Subject, mode: Mode, model: Model) -> Occupancy | Simplified | Problem:
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
