"""The counters of a pass as rocprofv3 is asked for them, and the definitions of those that it must be taught."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .....analysis.catalogue.events import events_of, level_of, why_not_countable
from .....analysis.catalogue.targets import find_target, gpu
from .....analysis.catalogue.targets import targets as known_targets
from ...request import ProfileRequest, channels, per_channel
from .features import Rocprofv3Features


@dataclass(frozen=True)
class TranslatedPass:
    """The counters of one pass as rocprofv3 is asked for them, and the definitions that it needs for them."""

    counters: tuple[str, ...]
    """As in the plan, without what this rocprofv3 cannot count, and without levels that it integrates only."""
    names: tuple[str, ...]
    """As rocprofv3 is asked for them."""
    expressions: dict[str, str]
    """Name -> the expression that defines it."""
    left_out: dict[str, str]
    """Counter of the plan -> why it is not among them."""


def translate_pass(request: ProfileRequest, counters: tuple[str, ...], features: Rocprofv3Features) -> TranslatedPass:
    """One pass of a plan in rocprofv3's terms.

    A level counter that stands there for its integral alone is not asked for: accumulate() selects it itself.
    """
    refusals = {c: reason for c in counters if (reason := _refusal(request, c, features))}
    integrated = {level: c for c in counters if (level := level_of(c))}
    remaining: list[str] = []
    names: list[str] = []
    expressions: dict[str, str] = {}
    for counter in counters:
        if counter in integrated or counter in refusals:
            continue
        remaining.append(counter)
        if level := level_of(counter):
            expressions[counter] = f"reduce(accumulate({level},HIGH_RES),sum)"
        elif event := per_channel(counter):
            selections = _channel_selections(request, event)
            expressions |= selections
            names += selections
            continue
        names.append(counter)
    return TranslatedPass(
        tuple(remaining), tuple(names), expressions, {c: r for c, r in refusals.items() if c not in integrated}
    )


def definitions_text(request: ProfileRequest, expressions: Mapping[str, str], features: Rocprofv3Features) -> str:
    """The YAML file for --extra-counters in the schema of this version."""
    targets = [request.target] if request.target else [t for t in known_targets() if gpu(t).counter_limits]
    if features.definitions == "map":
        return "".join(
            f"{name}:\n  architectures:\n    {'/'.join(targets)}:\n      expression: {text}\n  description: ''\n"
            for name, text in expressions.items()
        )
    # One line each: rocprofv3 hands the file on in one environment variable, which Linux limits to 128 KiB.
    return "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n" + "".join(
        f"  - {{name: '{name}', description: '', properties: [], definitions: "
        f"[{{architectures: [{', '.join(targets)}], expression: '{text}'}}]}}\n"
        for name, text in expressions.items()
    )


def _refusal(request: ProfileRequest, counter: str, features: Rocprofv3Features) -> str | None:
    """Why this rocprofv3 cannot count ``counter`` on the target, or None."""
    for event in dict.fromkeys([level_of(counter) or counter, *events_of(counter)]):
        if level_of(event) is None and (reason := _why_unknown(request.target, event, features)):
            return reason
    if not (level_of(counter) or per_channel(counter)):
        return None
    if features.definitions is None:
        return f"rocprofv3 {features.version} cannot be taught counters, and it has none for this"
    if level_of(counter):
        known = find_target(request.target)
        return known.without_integrals.get("rocprofv3") if known else None
    if channels(request) is None:
        return "how many XCDs the device has is not known; name the product (MI300X) as gpu"
    return None


def _why_unknown(target: str, event: str, features: Rocprofv3Features) -> str | None:
    if features.counters:
        known = event in features.counters
        return None if known else f"rocprofv3 {features.version} of this machine lists no such counter"
    return why_not_countable(target, event)


def _channel_selections(request: ProfileRequest, event: str) -> dict[str, str]:
    """``EVENT[i]`` for every channel, counted through all XCDs, and the expression that selects it."""
    known = channels(request)
    assert known is not None
    xcds, each = known
    return {
        f"{event}[{xcd * each + i}]": f"select({event},[DIMENSION_XCC=[{xcd}],DIMENSION_INSTANCE=[{i}]])"
        for xcd in range(xcds)
        for i in range(each)
    }
