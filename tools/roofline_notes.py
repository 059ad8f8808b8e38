"""What compute_roofline says in words: how far its figures can be trusted, and which calls are worth making next."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import catalog, roofline
from ..analysis.mixed import View
from ..analysis.scene import Scene
from ..analysis.store import Manifest
from .results import NextCall


def peak_note(found: Scene) -> str:
    issue = found.theory.known.get("issue")
    if issue is None:
        return "The peak of instruction issue is unknown: the profile states no clock."
    words = found.formulas.words
    return (
        f"Theoretical peak {issue.value:.2f} GIPS = {words.units} x schedulers x IPC x clock. Instructions are "
        f"{words.instructions}."
    )


def flop_notes(found: Scene, result: roofline.Roofline) -> list[str]:
    notes = []
    if not found.formulas.operations(found.target, "flop"):
        notes.append(
            f"{found.target} has no counters of floating-point operations: no FLOP roofline is possible. "
            'kind="instruction" works; bandwidths and the bound below come from bytes and instructions.'
        )
    if result.not_counted:
        parts = [f"{name} ({why})" for name, why in list(result.not_counted.items())[:4]]
        more = len(result.not_counted) - len(parts)
        notes.append(
            f"Not counted: {', '.join(parts)}{f' and {more} more' if more > 0 else ''}; totals are lower bounds."
        )
    done = {r.name for r in result.rates}
    notes += dict.fromkeys(o.note for o in found.formulas.operation if o.note and o.name in done)
    if any(p.datatype == "flop" and p.operations == 0 for p in result.points):
        notes.append("Kernels without floating point are judged by bandwidth and integer operations (datatype iop).")
    if any(p.status == "impossible" for p in result.points):
        notes.append("Points with status impossible contradict the hardware or themselves: do not draw conclusions.")
    return notes


def common_notes(manifest: Manifest, found: Scene, shown: Sequence[str], limit: int, offset: int, by: str) -> list[str]:
    notes = list(found.ceilings.notes)
    if found.ceilings.kind == "theoretical" and found.ceilings.missing:
        names = list(found.ceilings.missing)
        why = sorted(set(found.ceilings.missing.values()))
        notes.append(
            f"No ceiling for {len(names)} of them ({', '.join(why[:3])}); ceilings= takes measured ones by hand."
        )
    notes += [level.note for level in found.formulas.level if level.note and level.name in shown]
    if apart := [name for name in found.scattered if name in shown]:
        notes.append(f"Operations and bytes of {', '.join(apart)} come from different passes, whose runs can differ.")
    if found.collected.total > offset + limit:
        first = offset + 1
        plural = "kernels" if by == "kernel" else "dispatches"
        notes.append(
            f"{plural.capitalize()} {first} to {offset + limit} of {found.collected.total}, by time; offset= for more."
        )
    gpu = catalog.gpu(manifest.arch or "")
    if not gpu.validated_on_hardware:
        notes.append(f"Figures of {gpu.target} come from documents and recorded profiles; not validated on hardware.")
    return notes


def next_calls(manifest: Manifest, found: Scene, views: list[View], kind: str, datatype: str | None) -> list[NextCall]:
    suggested = []
    here = {"workload": manifest.id}
    if kind == "flop" and not found.formulas.operations(found.target, "flop"):
        suggested.append(
            NextCall(
                tool="compute_roofline",
                arguments={**here, "kind": "instruction"},
                why="the instruction roofline needs no FLOP counters",
            )
        )
    limiter = next((v.limiter for v in views if v.limiter in catalog.SUBSYSTEMS), None)
    if limiter:
        suggested.append(
            NextCall(
                tool="compute_metrics",
                arguments={**here, "metrics": [limiter], "kernel": "#1"},
                why=f"what {limiter} does in the longest kernel",
            )
        )
    if any(v.bound == "unknown" for v in views):
        suggested.append(NextCall(tool="list_workloads", arguments=here, why="which passes and counters exist"))
    if kind == "flop" and datatype is None and not suggested:
        suggested.append(
            NextCall(tool="compute_roofline", arguments={**here, "datatype": "all"}, why="points per data type")
        )
    return suggested
