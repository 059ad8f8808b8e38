"""What the pictures show, taken from the results of the other tools, so that both always say the same."""

from __future__ import annotations

from typing import Any, Literal

from ..analysis import engine
from ..analysis.plot import compare, occupancy, roofline, speed_of_light
from ..analysis.plot.style import NAMES, number
from ..analysis.problems import BadInput
from ..analysis.store import Manifest, Store
from .occupancy import compute_occupancy
from .results import Table
from .roofline import RooflineResult, compute_roofline
from .workloads import list_workloads

Kind = Literal["flop", "instruction"]
_UNITS = {"flop": "GFLOP/s", "iop": "GIOP/s"}
_SPEED_OF_LIGHT = "2"
_TIME = "dispatch.duration_ns"
_DOUBTFUL = ("suspect", "impossible")


def roofline_scene(
    store: Store, manifest: Manifest, kernel: str | None, datatype: str | None, kind: Kind | None,
    source: Literal["empirical", "theoretical"], kernels: int,
) -> tuple[roofline.Scene, list[str]]:  # fmt: skip
    """The roofline of a workload's longest kernels, and the facts in words.

    Left open, ``kind`` is instruction where the GPU counts no floating-point operations.
    """
    result = compute_roofline(
        store, manifest.id, kernel=kernel, kind=kind or "flop", datatype=datatype, ceiling_source=source, limit=kernels,
        detail="full",
    )  # fmt: skip
    points = records(result.points)
    if kind is None and points and all(p["status"] == "not_supported" for p in points):
        scene, facts = roofline_scene(store, manifest, kernel, None, "instruction", source, kernels)
        note = f"{manifest.arch} has no counters of floating-point operations: this is the instruction roofline."
        return scene.__class__(**{**vars(scene), "statements": [note, *scene.statements]}), [note, *facts]
    dots = [_dot(p) for p in points]
    unit = "GIPS" if kind == "instruction" else _unit(points)
    dots = [d for d, p in zip(dots, points, strict=True) if not d.drawn or unit != "GFLOP/s or GIOP/s" or p["unit"]]
    roofs = _roofs(result, unit, datatype)
    if not roofs and not any(d.drawn for d in dots):
        raise BadInput(
            f"There is nothing to draw in the roofline of {manifest.name!r}",
            "; ".join(dict.fromkeys(str(p["reason"]) for p in points if p["reason"])) or "it has no kernels",
            "compute_roofline says which counters and device facts are missing",
        )
    shares = _shares(store, manifest)
    listed = [_kernel(rank, points, shares) for rank in dict.fromkeys(p["rank"] for p in points)]
    statements = _missing(points, dots, result.notes)
    what = {"instruction": "Instruction roofline"}.get(kind or "", "Roofline")
    scene = roofline.Scene(
        title=f"{what} of {manifest.name}",
        device=f"{result.device}; {'measured' if result.ceiling_source == 'empirical' else 'theoretical'} ceilings"
        + (f"; data type {datatype}" if datatype else ""),
        unit=unit,
        intensity_unit="wave instructions / byte" if unit == "GIPS" else "operations / byte",
        roofs=roofs,
        dots=dots,
        kernels=listed,
        statements=statements,
    )
    facts = [_point_words(p, shares) for p in points]
    facts += [f"Ceiling {r['ceiling']}: {number(r['value'])} {r['unit']} ({r['source']})." for r in _chosen(result, roofs)]
    return scene, [*facts, *statements]


def _unit(points: list[dict[str, Any]]) -> str:
    units = {p["unit"] for p in points if p["performance"]}
    return " or ".join(sorted(units)) if units else "GFLOP/s"


def _dot(p: dict[str, Any]) -> roofline.Dot:
    return roofline.Dot(
        p["rank"], p["level"], p.get("datatype", "inst"), p["intensity"], p["performance"], p.get("bandwidth"),
        p["status"] in _DOUBTFUL,
    )  # fmt: skip


def _chosen(result: RooflineResult, roofs: list[roofline.Roof]) -> list[dict[str, Any]]:
    names = {r.name for r in roofs}
    return [r for r in records(result.ceilings) if r["ceiling"] in names]


def _roofs(result: RooflineResult, unit: str, datatype: str | None) -> list[roofline.Roof]:
    """Bandwidths, and the compute ceilings in the units of the points (of one data type, where one was asked for)."""
    known = [r for r in records(result.ceilings) if r["unit"] == "GB/s" or r["unit"] in unit]
    if datatype and (word := datatype.lower().replace("fp", "f")) not in ("all", "flop", "total", "iop", "int"):
        kept = [
            r for r in known
            if r["unit"] == "GB/s" or word in (r["ceiling"], r["ceiling"].partition(".")[2].removesuffix("_packed"))
        ]  # fmt: skip
        known = kept if any(r["unit"] != "GB/s" for r in kept) else known
    return [roofline.Roof(r["ceiling"], r["value"], r["unit"], _origin(r["source"], result)) for r in known]


def _origin(source: str, result: RooflineResult) -> str:
    if result.ceiling_source == "theoretical":
        return f"theoretical, units x rate x clock of {result.device}, which no kernel quite reaches"
    if source.startswith("like "):
        return "derived from a measured ceiling"
    return source.replace(" ()", "") if source.startswith("given") else f"measured, {source.replace(' ()', '')}"


def _shares(store: Store, manifest: Manifest) -> dict[str, float]:
    found = list_workloads(store, manifest.id, limit=100_000)
    return {r["kernel"]: r["pct"] for r in records(found.table) if r["pct"] is not None}


def _kernel(rank: int, points: list[dict[str, Any]], shares: dict[str, float]) -> roofline.Kernel:
    mine = [p for p in points if p["rank"] == rank]
    best = max((p["pct_of_attainable"] for p in mine if p["pct_of_attainable"] is not None), default=None)
    limiter = mine[0]["limiter"]
    verdict = mine[0]["bound"] + (f" ({limiter})" if limiter and limiter != mine[0]["bound"] else "")
    drawn = best is not None and any(_dot(p).drawn for p in mine)
    verdict += f", {number(best)} % of its roof" if drawn and best is not None else ""
    return roofline.Kernel(rank, mine[0]["kernel"], shares.get(mine[0]["kernel"]), verdict)


def _missing(points: list[dict[str, Any]], dots: list[roofline.Dot], notes: list[str]) -> list[str]:
    """What the picture cannot show, in words; the first of the notes that say why."""
    found = []
    absent = sorted({d.kernel for d in dots} - {d.kernel for d in dots if d.drawn})
    if absent:
        mine = [p for p in points if p["rank"] in absent]
        reason = next((p["reason"] for p in mine if p["reason"]), "no value")
        found.append(f"No point for kernel {', '.join(map(str, absent))}: {reason}.")
        if rates := [p for p in mine if p["rank"] == absent[0] and (p.get("bandwidth") or 0) > 0]:
            parts = [
                f"{NAMES[p['level']]} {number(p['bandwidth'])} GB/s"
                + (f" ({number(p['pct_of_bandwidth'])} %)" if p["pct_of_bandwidth"] is not None else "")
                for p in rates
            ]
            lies = " It lies somewhere on the dotted lines." if mine[0]["performance"] is None else ""
            found.append(f"Kernel {absent[0]} moves {', '.join(parts)}.{lies}")
    partly = sorted({(d.kernel, NAMES[d.level]) for d in dots if not d.drawn and d.kernel not in absent})
    if partly:
        by_level: dict[str, list[int]] = {}
        for number_, level in partly:
            by_level.setdefault(level, []).append(number_)
        drawn = {(d.kernel, NAMES[d.level]) for d in dots if d.drawn}
        rest = {
            level: [k for k in ks if (k, level) not in drawn] for level, ks in by_level.items()
        }
        words = [f"{level} (kernel {', '.join(map(str, dict.fromkeys(ks)))})" for level, ks in rest.items() if ks]
        if words:
            found.append(f"No point, as there is no traffic or no count, at {', '.join(words)}.")
    if any(d.doubtful for d in dots):
        found.append("Hollow points are doubtful (suspect or impossible counts).")
    keep = ("No measured", "No ceiling", "Not counted", "The ceilings are", "A packed")
    found += [n for n in notes if n.startswith(keep)]
    return [f if len(f) < 260 else f[:250].rsplit(" ", 1)[0] + " …" for f in found]


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
