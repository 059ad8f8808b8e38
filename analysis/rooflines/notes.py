"""Notes on a roofline: what was not counted, where its ceilings come from, and how reliable it is."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.notes import Note
from ..catalogue import targets
from .flop import FlopRoofline
from .inputs import RooflineInputs
from .instruction import InstructionRoofline

_REASONS = 4
"""How many operations without counters are listed with the reason."""
Roofline = FlopRoofline | InstructionRoofline


def notes(roofline: Roofline, levels: Sequence[str]) -> list[Note]:
    """The notes on a roofline shown at ``levels``: first those on the work, then those on the ceilings."""
    inputs = roofline.inputs
    own = _of_instructions(inputs) if isinstance(roofline, InstructionRoofline) else _of_operations(roofline)
    return [*own, *_bypassed_level_notes(roofline), *_of_inputs(inputs, levels)]


def _bypassed_level_notes(roofline: Roofline) -> list[Note]:
    """Notes on the levels without a point because most bytes bypass them."""
    ranks: dict[str, set[int]] = {}
    for point in roofline.points:
        if point.status == "bypassed":
            ranks.setdefault(point.level, set()).add(point.rank)
    by = {level.name: level.past_by for level in roofline.inputs.formulas.level}
    words = {level: f"No point at {level} for {len(of_level)} of the kernels" for level, of_level in ranks.items()}
    return [Note("bypassed", f"{text}: most of their bytes bypass it through {by[at]}.") for at, text in words.items()]


def _of_instructions(inputs: RooflineInputs) -> list[Note]:
    issue = inputs.theory.known.get("issue")
    if issue is None:
        return [
            Note(
                "no_issue_peak", "The peak of instruction issue is unknown, because the profile does not state a clock."
            )
        ]
    words = inputs.formulas.words
    text = (
        f"Theoretical peak {issue.value:.2f} GIPS = {words.units} x schedulers x IPC x clock. Instructions are "
        f"{words.instructions}."
    )
    return [Note("issue_peak", text)]


def _of_operations(roofline: FlopRoofline) -> list[Note]:
    inputs, sentences = roofline.inputs, []
    if not inputs.formulas.operations(inputs.target, "flop"):
        text = (
            f"{inputs.target} has no counters of floating-point operations: no FLOP roofline is possible. "
            'kind="instruction" works; bandwidths and the bound below come from bytes and instructions.'
        )
        sentences.append(Note("no_flop_counters", text))
    if roofline.not_counted:
        none = all(point.operations is None for point in roofline.points)
        totals = "operations are unknown" if none else "totals are lower bounds"
        sentences.append(Note("not_counted", f"Not counted: {', '.join(roofline.not_counted)}; {totals}."))
        parts = [f"{name}: {why}" for name, why in list(roofline.not_counted.items())[:_REASONS]]
        more = len(roofline.not_counted) - len(parts)
        listed = f"{'; '.join(parts)}{f'; and {more} more' if more > 0 else ''}"
        sentences.append(Note("why_not_counted", f"Reasons: {listed}."))
    done = {r.operation for r in roofline.rates}
    about = dict.fromkeys(o.note for o in inputs.formulas.operation if o.note and o.name in done)
    sentences += [Note("about_operations", text) for text in about]
    if any(p.datatype == "flop" and p.operations == 0 for p in roofline.points):
        text = "Kernels without floating-point work are judged by bandwidth and integer operations (datatype iop)."
        sentences.append(Note("without_flop", text))
    if any(p.status == "impossible" for p in roofline.points):
        text = "Points with status impossible contradict the hardware or themselves: do not draw conclusions from them."
        sentences.append(Note("impossible_points", text))
    return sentences


def _of_inputs(inputs: RooflineInputs, levels: Sequence[str]) -> list[Note]:
    sentences = list(inputs.ceilings.notes)
    if inputs.ceilings.kind == "theoretical" and inputs.ceilings.missing:
        sentences.append(Note("no_ceiling", f"No ceiling for {without_ceiling(inputs, 'of them')}"))
    sentences += [
        Note("about_level", level.note) for level in inputs.formulas.level if level.note and level.name in levels
    ]
    if apart := [name for name in inputs.scattered if name in levels]:
        text = f"Operations and bytes of {', '.join(apart)} come from different passes, whose runs may differ."
        sentences.append(Note("scattered", text))
    asked, total = inputs.asked, inputs.collected.total
    if total > asked.offset + asked.limit:
        plural = asked.called or ("Kernels" if asked.by == "kernel" else "Dispatches")
        text = f"{plural} {asked.offset + 1} to {asked.offset + asked.limit} of {total}, by time; offset= for more."
        sentences.append(Note("page", text))
    if not (gpu := targets.gpu(inputs.target)).validated_on_hardware:
        text = f"{inputs.target}: based on documents and {gpu.checked_on}, not validated on hardware."
        sentences.append(Note("not_validated", text))
    return sentences


def without_ceiling(inputs: RooflineInputs, what: str) -> str:
    """How many ceilings have no value and why, as the end of a sentence."""
    missing = inputs.ceilings.missing
    why = sorted({reason.text for reason in missing.values()})
    return f"{len(missing)} {what} ({', '.join(why[:3])}); pass measured ones with ceilings=."
