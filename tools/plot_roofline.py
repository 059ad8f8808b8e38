"""What the picture of a roofline shows, taken from the result of compute_roofline, so that both say the same."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any, Literal

from ..analysis.catalogue import targets
from ..analysis.catalogue.work import family
from ..analysis.database import connect, sql_path
from ..analysis.plot import scene
from ..analysis.plot import scene as scenes
from ..analysis.plot.style import NAMES, number, ranges
from ..analysis.problems import BadInput
from ..analysis.store import Manifest, Store
from .compute_roofline import RooflineResult, compute_roofline
from .results import Table

Kind = Literal["flop", "instruction"]
_DOUBTFUL = ("suspect", "impossible")


def roofline_scene(
    store: Store, manifest: Manifest, kernel: str | None, datatype: str | None, kind: Kind | None,
    source: Literal["empirical", "theoretical"], kernels: int, ceilings: dict[str, float] | None,
) -> tuple[scenes.Scene, list[str]]:  # fmt: skip
    """The roofline of a workload's longest kernels, and the facts in words.

    Left open, ``kind`` is instruction where the GPU counts no floating-point operations.
    """
    result = compute_roofline(
        store, manifest.id, kernel=kernel, kind=kind or "flop", datatype=datatype, ceiling_source=source, limit=kernels,
        ceilings=ceilings or {}, detail="full",
    )  # fmt: skip
    points = records(result.points)
    if kind is None and points and all(p["status"] == "not_supported" for p in points):
        scene, facts = roofline_scene(store, manifest, kernel, None, "instruction", source, kernels, ceilings)
        note = f"{manifest.arch} has no counters of floating-point operations: this is the instruction roofline."
        return replace(scene, statements=[note, *scene.statements]), [note, *facts]
    dots = [_dot(p) for p in points]
    unit = "GIPS" if kind == "instruction" else _unit(points)
    roofs = _roofs(result, unit, datatype)
    if not roofs and not any(d.drawn for d in dots):
        raise BadInput(
            f"There is nothing to draw in the roofline of {manifest.name!r}",
            "; ".join(dict.fromkeys(str(p["reason"]) for p in points if p["reason"])) or "it has no kernels",
            "compute_roofline says which counters and device facts are missing",
        )
    shares = _shares(store, manifest)
    listed = [_kernel(rank, points, shares) for rank in dict.fromkeys(p["rank"] for p in points)]
    statements = _missing(points, dots, result.notes, {"GB/s", *unit.split(" or ")} <= {r.unit for r in roofs})
    sweeps = _sweeps(result, unit)
    if sweeps:
        statements.append("Small crosses: the roof as measured, by kernels of rising intensity (hbm).")
    what = {"instruction": "Instruction roofline"}.get(kind or "", "Roofline")
    scene = scenes.Scene(
        title=f"{what} of {manifest.name}",
        device=f"{result.device}; {_ceilings(result, roofs)}" + (f"; data type {datatype}" if datatype else ""),
        unit=unit,
        intensity_unit=f"{_wave(manifest)} instructions / byte" if unit == "GIPS" else "operations / byte",
        roofs=roofs,
        dots=dots,
        kernels=listed,
        statements=statements,
        sweeps=sweeps,
    )
    facts = [_point_words(p, shares) for p in points]
    facts += [
        f"Ceiling {r['ceiling']}: {number(r['value'])} {r['unit']} ({r['source']})." for r in _chosen(result, roofs)
    ]
    return scene, [*facts, *statements]


def _unit(points: list[dict[str, Any]]) -> str:
    units = {p["unit"] for p in points if p["performance"]}
    return " or ".join(sorted(units)) if units else "GFLOP/s"


def _dot(p: dict[str, Any]) -> scene.Dot:
    return scene.Dot(
        p["rank"], p["level"], p.get("datatype", "inst"), p["intensity"], p["performance"], p.get("bandwidth"),
        p["status"] in _DOUBTFUL,
    )  # fmt: skip


def _chosen(result: RooflineResult, roofs: list[scene.Roof]) -> list[dict[str, Any]]:
    names = {r.name for r in roofs}
    return [r for r in records(result.ceilings) if r["ceiling"] in names]


def _roofs(result: RooflineResult, unit: str, datatype: str | None) -> list[scene.Roof]:
    """Bandwidths, and the compute ceilings in the units of the points (of one data type, where one was asked for)."""
    known = [r for r in records(result.ceilings) if r["unit"] == "GB/s" or r["unit"] in unit]
    if datatype and (word := datatype.lower().replace("fp", "f")) not in ("all", "flop", "total", "iop", "int"):
        kept = [
            r for r in known
            if r["unit"] == "GB/s" or word in (r["ceiling"], r["ceiling"].partition(".")[2].removesuffix("_packed"))
        ]  # fmt: skip
        known = kept if any(r["unit"] != "GB/s" for r in kept) else known
    plain = {r["ceiling"]: r["value"] for r in known}
    known = [r for r in known if plain.get(r["ceiling"].removesuffix("_packed")) != r["value"] or not _packed(r)]
    return [scene.Roof(r["ceiling"], r["value"], r["unit"], _origin(r["source"], result)) for r in known]


def _sweeps(result: RooflineResult, unit: str) -> list[list[tuple[float, float]]]:
    """The measured roofs in the unit of the picture."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in records(result.sweep) if result.sweep else []:
        if point["unit"] in unit.split(" or "):
            lines.setdefault(point["ceiling"], []).append((point["intensity"], point["value"]))
    return list(lines.values())


def _packed(row: dict[str, Any]) -> bool:
    return str(row["ceiling"]).endswith("_packed")


def _wave(manifest: Manifest) -> str:
    target = targets.gpu(manifest.arch or "")
    return family(target.family, target.target).words.wave


def _ceilings(result: RooflineResult, roofs: list[scene.Roof]) -> str:
    if not roofs:
        return "no ceilings are known"
    return "measured ceilings" if result.ceiling_source == "empirical" else "theoretical ceilings"


def _origin(source: str, result: RooflineResult) -> str:
    if result.ceiling_source == "theoretical":
        return f"theoretical, units x rate x clock of {result.device}, which no kernel quite reaches"
    if source.startswith("like "):
        return "derived from a measured ceiling"
    return source.replace(" ()", "") if source.startswith("given") else f"measured, {source.replace(' ()', '')}"


def _shares(store: Store, manifest: Manifest) -> dict[str, float]:
    """Each kernel's percentage of the time of the whole workload."""
    path = store.file(manifest, "dispatches")
    if path is None:
        return {}
    with closing(connect()) as con:
        rows = con.execute(
            "SELECT kernel, 100 * sum(duration_ns) / sum(sum(duration_ns)) OVER () "
            f"FROM read_parquet({sql_path(path)}) GROUP BY kernel"
        ).fetchall()
    return {kernel: share for kernel, share in rows if share is not None}


def _kernel(rank: int, points: list[dict[str, Any]], shares: dict[str, float]) -> scene.Kernel:
    mine = [p for p in points if p["rank"] == rank]
    best = max((p["pct_of_attainable"] for p in mine if p["pct_of_attainable"] is not None), default=None)
    limiter = mine[0]["limiter"]
    verdict = mine[0]["bound"] + (f" ({limiter})" if limiter and limiter != mine[0]["bound"] else "")
    drawn = best is not None and any(_dot(p).drawn for p in mine)
    verdict += f", {number(best)} % of its roof" if drawn and best is not None else ""
    return scene.Kernel(rank, mine[0]["kernel"], shares.get(mine[0]["kernel"]), verdict)


def _missing(points: list[dict[str, Any]], dots: list[scene.Dot], notes: list[str], bounded: bool) -> list[str]:
    """What the picture cannot show, in words; the first of the notes that say why."""
    found = []
    drawn = {d.kernel for d in dots if d.drawn}
    absent = sorted({d.kernel for d in dots} - drawn)
    if absent:
        mine = [p for p in points if p["rank"] in absent]
        found.append(f"No point for kernel {ranges(absent)}: {_why(mine)}.")
        if all(p["status"] == "not_supported" for p in mine):
            found.append('The instruction roofline needs no such counters: roofline_kind="instruction".')
        found += _bandwidths([p for p in mine if p["rank"] == absent[0]])
    for level in NAMES:
        lost = [p for p, d in zip(points, dots, strict=True) if d.level == level and not d.drawn and d.kernel in drawn]
        lost = [p for p in lost if not any(d.drawn and (d.kernel, d.level) == (p["rank"], level) for d in dots)]
        if lost:
            reason = _short(_why(lost), 110)
            ranks = ranges(sorted({p["rank"] for p in lost}))
            found.append(f"No point at {NAMES[level]} for kernel {ranks}: {reason}.")
    if any(d.doubtful and d.drawn for d in dots):
        found.append("Hollow points are doubtful (suspect or impossible counts).")
    over = [
        p for p, d in zip(points, dots, strict=True) if d.drawn and (p["pct_of_attainable"] or 0) > 100 and p["reason"]
    ]
    if over:
        found.append(
            f"Over 100 % (kernel {ranges(sorted({p['rank'] for p in over}))}): {_short(over[0]['reason'], 150)}."
        )
    keep = ["The ceilings are", "A packed"]
    keep += ["Not counted"] if drawn else []
    keep += ["No measured"] if bounded else ["No ceiling"]
    told = [n for n in notes if n.startswith(tuple(keep))]
    found += [n.replace("No ceiling for", "No value for").replace(" of them", " ceilings") for n in told]
    return [_short(f, 260) for f in found]


def _bandwidths(points: list[dict[str, Any]]) -> list[str]:
    """What a kernel without a point moves at each level."""
    parts = [
        f"{NAMES[p['level']]} {number(p['bandwidth'])} GB/s"
        + (f" ({number(p['pct_of_bandwidth'])} %)" if p["pct_of_bandwidth"] is not None else "")
        for p in {p["level"]: p for p in points}.values()
        if (p.get("bandwidth") or 0) > 0
    ]
    if not parts:
        return []
    lies = " It lies somewhere on the thin dashed lines of those colours." if points[0]["performance"] is None else ""
    return [f"Kernel {points[0]['rank']} moves {', '.join(parts)}.{lies}"]


def _why(points: list[dict[str, Any]]) -> str:
    """The first reason why points have no place; without traffic, that is the reason."""
    some = [p for p in points if p["performance"] or p["performance"] is None] or points
    if all(p["bytes"] == 0 for p in some):
        return "no traffic at this level"
    return next((str(p["reason"]).removesuffix(" ...") for p in some if p["reason"]), "no value")


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 2].rpartition(", ")[0] + " and more"


def _point_words(p: dict[str, Any], shares: dict[str, float]) -> str:
    head = f"{p['rank']}. {p['kernel']} at {NAMES[p['level']]}" + (f" ({p['datatype']})" if p.get("datatype") else "")
    if not _dot(p).drawn:
        rate = p.get("bandwidth")
        moved = f", {number(rate)} GB/s" if rate else ""
        return f"{head}: no point ({p['reason'] or 'no value'}){moved}; bound: {p['bound']}."
    share = shares.get(p["kernel"])
    roof = p["pct_of_attainable"]
    return (
        f"{head}: {number(p['intensity'])} per byte, {number(p['performance'])} {p['unit']}"
        + (f", {number(roof)} % of attainable" if roof is not None else "")
        + f"; bound: {p['bound']}{_aside(p['limiter'])}"
        + (f"; {number(share)} % of the time" if share is not None else "")
        + f"; {p['status']}{_aside(p['reason'])}."
    )


def _aside(words: str | None) -> str:
    return f" ({words})" if words else ""


def records(found: Table) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries."""
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
