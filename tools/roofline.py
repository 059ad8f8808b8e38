"""compute_roofline: where kernels lie under the roofs of memory, arithmetic and instruction issue."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis import instruction_roofline, roofline, scene
from ..analysis.database import connect
from ..analysis.store import Store
from ..analysis.work import LEVELS, LevelName
from . import roofline_notes, roofline_tables
from .results import Result, Table


class RooflineResult(Result):
    """Points of kernels, the mixed-pipe view behind their verdict, and the ceilings they are held against.

    ``points`` has a row per kernel, memory level and data type. ``pipes`` has a row per kernel: the least time that
    each pipe and level needs, as a share of the run time; the greatest is the limit. ``operations`` lists the work by
    data type, ``walls`` the memory and bank-conflict walls of the instruction roofline.
    """

    workload: str
    name: str
    arch: str | None
    kind: str
    ceiling_source: str
    device: str
    ceilings: Table
    points: Table
    pipes: Table
    operations: Table | None = None
    walls: Table | None = None
    sweep: Table | None = None
    """In full: what the device reached at each intensity, where that was measured."""


def compute_roofline(
    store: Store,
    workload: Annotated[str, Field(description='id, name or "latest"')],
    kernel: Annotated[str | None, Field(description='regex, or "#1" = longest')] = None,
    kind: Literal["flop", "instruction"] = "flop",
    levels: list[LevelName] | None = None,
    datatype: Annotated[str | None, Field(description="default: total; iop, f16, i8, matrix.bf16, ..., all")] = None,
    ceiling_source: Annotated[
        Literal["empirical", "theoretical"], Field(description="empirical falls back to theory")
    ] = "empirical",
    by: Literal["kernel", "dispatch"] = "kernel",
    dispatches: Annotated[str | list[int] | None, Field(description='ids: "0,2,5-9"')] = None,
    ceilings: Annotated[dict[str, float], Field(description='by hand: {"hbm.bw": 1390}')] = {},  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=10_000, description="kernels")] = 2,
    offset: Annotated[int, Field(ge=0)] = 0,
    detail: Literal["summary", "full"] = "summary",
) -> RooflineResult:
    """Hierarchical roofline: intensity, achieved and attainable rate per kernel and memory level, and what bounds it
    (memory, compute, latency; the limiter), from all pipes and levels together."""
    manifest = store.resolve(workload)
    con = connect()
    try:
        found = scene.prepare(
            con, store, manifest, kernel, dispatches, by, ceiling_source, ceilings, limit, offset
        )  # fmt: skip
    finally:
        con.close()
    shown = [level for level in LEVELS if levels is None or level in levels]
    more = offset + limit < found.collected.total
    about = roofline_notes.common_notes(manifest, found, shown, limit, offset, by)
    common: dict[str, Any] = {
        "workload": manifest.id,
        "name": manifest.name,
        "arch": manifest.arch,
        "kind": kind,
        "ceiling_source": found.ceilings.kind,
        "device": found.ceilings.device,
        "ceilings": roofline_tables.ceilings(found.ceilings, found.theory, kind, detail),
        "sweep": roofline_tables.sweep(found.ceilings) if detail == "full" and found.ceilings.sweep else None,
    }
    if kind == "instruction":
        points, views, walls = instruction_roofline.points(found, shown)
        return RooflineResult(
            **common,
            points=roofline_tables.instruction_points(points, more),
            pipes=roofline_tables.pipes(views),
            walls=roofline_tables.walls(walls),
            notes=[roofline_notes.peak_note(found), *about],
            next=roofline_notes.next_calls(manifest, found, views, kind, datatype),
        )
    result = roofline.flop(found, shown, datatype)
    return RooflineResult(
        **common,
        points=roofline_tables.points(result.points, more),
        pipes=roofline_tables.pipes(result.views),
        operations=roofline_tables.operations(result.rates),
        notes=[*roofline_notes.flop_notes(found, result), *about],
        next=roofline_notes.next_calls(manifest, found, result.views, kind, datatype),
    )
