"""Notes on a roofline: what was not counted, where its ceilings come from, and how reliable it is."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.notes import Note
from ..catalogue import targets
from .inputs import RooflineInputs
from .roofline import Roofline
from .wording import note, sentence

_REASONS = 4
"""How many operations without counters are listed with the reason."""


def notes(roofline: Roofline, levels: Sequence[str]) -> list[Note]:
    """The notes on a roofline shown at ``levels``: first those on the work, then those on the ceilings."""
    inputs = roofline.inputs
    own = _of_instructions(inputs) if roofline.kind == "instruction" else _of_operations(roofline)
    return [*own, *_bypassed_level_notes(roofline), *_of_inputs(inputs, levels)]


def _bypassed_level_notes(roofline: Roofline) -> list[Note]:
    """Notes on the levels without a point because most bytes bypass them."""
    ranks: dict[str, set[int]] = {}
    for point in roofline.points:
        if point.status == "bypassed":
            ranks.setdefault(point.level, set()).add(point.rank)
    by = {level.name: level.past_by for level in roofline.inputs.formulas.level}
    return [note("bypassed", level=at, kernels=len(of_level), by=by[at]) for at, of_level in ranks.items()]


def _of_instructions(inputs: RooflineInputs) -> list[Note]:
    issue = inputs.theory.known.get("issue")
    if issue is None:
        return [note("no_issue_peak")]
    return [note("issue_peak", issue=issue, words=inputs.formulas.words)]


def _of_operations(roofline: Roofline) -> list[Note]:
    inputs, sentences = roofline.inputs, []
    if not inputs.formulas.operations("flop"):
        sentences.append(note("no_flop_counters", inputs=inputs))
    if roofline.not_counted:
        unknown = all(point.operations is None for point in roofline.points)
        code = "unknown.not_counted" if unknown else "not_counted"
        sentences.append(note(code, operations=list(roofline.not_counted)))
        parts = [f"{name}: {why}" for name, why in list(roofline.not_counted.items())[:_REASONS]]
        more = len(roofline.not_counted) - len(parts)
        listed = f"{'; '.join(parts)}{f'; and {more} more' if more > 0 else ''}"
        sentences.append(note("why_not_counted", listed=listed))
    done = {r.operation for r in roofline.rates}
    about = dict.fromkeys(o.note for o in inputs.formulas.operation if o.note and o.name in done)
    sentences += [Note("about_operations", text) for text in about]
    if any(p.datatype == "flop" and p.operations == 0 for p in roofline.points):
        sentences.append(note("without_flop"))
    if any(p.status == "impossible" for p in roofline.points):
        sentences.append(note("impossible_points"))
    return sentences


def _of_inputs(inputs: RooflineInputs, levels: Sequence[str]) -> list[Note]:
    sentences = list(inputs.ceilings.notes)
    if inputs.ceilings.kind == "theoretical" and inputs.ceilings.missing:
        sentences.append(note("no_ceiling", missing=without_ceiling(inputs, "of them")))
    sentences += [
        Note("about_level", level.note) for level in inputs.formulas.level if level.note and level.name in levels
    ]
    if apart := [name for name in inputs.scattered if name in levels]:
        sentences.append(note("scattered", levels=apart))
    asked, total = inputs.asked, inputs.collected.total
    if total > asked.offset + asked.limit:
        plural = asked.called or ("Kernels" if asked.by == "kernel" else "Dispatches")
        first, last = asked.offset + 1, asked.offset + asked.limit
        sentences.append(note("page", plural=plural, first=first, last=last, total=total))
    if not (gpu := targets.gpu(inputs.target)).validated_on_hardware:
        sentences.append(note("not_validated", inputs=inputs, gpu=gpu))
    return sentences


def without_ceiling(inputs: RooflineInputs, what: str) -> str:
    """How many ceilings have no value and why, as the end of a sentence."""
    missing = inputs.ceilings.missing
    why = sorted({reason.text for reason in missing.values()})[:3]
    return sentence("without_ceiling", count=len(missing), what=what, why=why)
