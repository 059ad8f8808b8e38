"""The counters behind a question: words turned into named sets of counters, each of which should lie in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import catalog
from .catalog import Metric
from .events import absent, block_of, in_total, level_of, per_instance
from .problems import BadArgument
from .work import Family, Kind, Operation, family

ROOFLINE = "roofline"
_INSTRUCTION = "instruction"
_EVENT = re.compile(r"(?=.*[-_:/.\d])[A-Za-z][\w.:/=+-]*")
"""Events such as LLC-load-misses, r1a8, sched:sched_switch: more than a plain word, which is rather a misspelt one."""


@dataclass
class CounterSets:
    """Named sets of counters in the order asked for, and what the target cannot give, with the reason."""

    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    welcome: list[tuple[str, ...]] = field(default_factory=list)
    """Sets that nobody asked for but that explain what was asked for, to be measured where registers are left."""


def resolve(target: str, wanted: Iterable[str]) -> CounterSets:
    """The counters that metrics, rooflines and counters need on a target, as the target spells them.

    Words are those of catalog.select; ``roofline``, alone or narrowed by data types and levels (roofline.f32.hbm,
    roofline.instruction); and counters. A metric is unsupported where only other targets of the family have it, or
    where the target lacks one of its counters. Raises BadArgument with near names for a word that means nothing.
    """
    found = CounterSets()
    for word in dict.fromkeys(word.strip() for word in wanted):
        preset = catalog.presets().get(word)
        for name in preset or ():
            _add_of_preset(target, name, found)
        if word.split(".")[0] == ROOFLINE:
            _add_rooflines(target, word, found)
        elif reason := _only_elsewhere(target, word):
            found.unsupported[word] = reason
        elif preset is None and _is_counter(target, word):
            _add_counter(target, word, found)
        elif preset is None:
            _add_metrics(target, word, found)
    return found


def counters_of(target: str, metric: Metric) -> tuple[str, ...]:
    """The counters that a metric needs on a target, with those of the metrics that its ``finish`` uses."""
    known = catalog.by_name(target)
    names = {name for one in (metric, *map(known.get, metric.uses.values())) if one for name in _read(target, one)}
    return tuple(sorted(names))


def _read(target: str, metric: Metric) -> list[str]:
    """What a metric's own formulas read, each counter as it must be measured: in whatever pass, and per channel
    where the metric is."""
    names = [name.split("@")[0] for name in catalog.counters(target, metric)]
    return [per_instance(name) for name in names] if metric.per == "l2_channel" else names


def _add_metrics(target: str, word: str, found: CounterSets) -> None:
    for metric in catalog.select(target, [word]):
        _add(target, metric.name, counters_of(target, metric), found)


def _add_of_preset(target: str, name: str, found: CounterSets) -> None:
    if reason := _only_elsewhere(target, name):
        found.unsupported[name] = reason
    elif name in catalog.by_name(target):
        _add_metrics(target, name, found)


def _add(target: str, name: str, counters: Iterable[str], found: CounterSets) -> None:
    """A set, unless the target lacks one of its counters."""
    known = tuple(counters)
    if reason := next((why for c in known if (why := absent(target, c))), None):
        found.unsupported[name] = reason
    else:
        found.sets.setdefault(name, known)


def _only_elsewhere(target: str, name: str) -> str | None:
    """Why a metric that other targets of the family have is not there on this one."""
    if name in catalog.by_name(target):
        return None
    ours = catalog.gpu(target).family
    known = [t for t in catalog.known_targets(name) if catalog.gpu(t).family == ours]
    return f"{target} has no counters for it; known on {', '.join(known)}" if known else None


def _is_counter(target: str, word: str) -> bool:
    """Whether a word is a counter: of a block of the target, or, where those have no names, one that its metrics use or
    that is spelled like an event of the profiler and like nothing else."""
    if limits := catalog.gpu(target).counter_limits:
        return block_of(word) in limits
    if any(word in catalog.counters(target, metric) for metric in catalog.metrics(target)):
        return True
    metric_like = word.split(".")[0] in catalog.SUBSYSTEMS
    return bool(_EVENT.fullmatch(word)) and catalog.is_counter(target, word) and not metric_like


def _add_counter(target: str, word: str, found: CounterSets) -> None:
    """A counter asked for by name; whether the hardware has it, only the profiler can tell."""
    if not catalog.gpu(target).counter_limits:
        found.sets.setdefault(word, (word,))
        return
    name = in_total(catalog.spelling(target, word))
    if word.startswith("SQ_ACCUM_PREV") or (name.endswith("_ACCUM") and not level_of(name)):
        found.unsupported[word] = "only level counters are accumulated: ask for one as in SQ_LEVEL_WAVES_ACCUM"
    elif ours := _our_spelling(target, name):
        found.unsupported[word] = f"{target} calls it {ours}"
    else:
        found.sets.setdefault(name, (name,))


def _our_spelling(target: str, name: str) -> str | None:
    """What a target calls a counter that is spelled as on another target."""
    for other in catalog.with_metrics():
        for formula, actual in catalog.renames(other).items():
            if name.startswith(actual) and actual not in catalog.renames(target).values():
                return formula + name.removeprefix(actual)
    return None


def _add_rooflines(target: str, word: str, found: CounterSets) -> None:
    """One set per data type and level of memory: what one point of the roofline is made of. Integers on request."""
    known = family(catalog.gpu(target).family, target)
    parts = word.split(".")[1:]
    instructions = _INSTRUCTION in parts
    levels = {v.name: v.transactions if instructions else v.bytes for v in known.level if v.bytes}
    types: dict[str, list[Operation]] = {}
    kinds: tuple[Kind, ...] = ("inst",) if instructions else ("flop", "iop")
    for operation in known.operations(target, *kinds):
        types.setdefault(_INSTRUCTION if instructions else operation.datatype, []).append(operation)
    if not levels:
        raise BadArgument(f"No counters for a roofline of {target} are known", fix="Ask for metrics or counters")
    if wrong := [part for part in parts if part not in types and part not in levels]:
        raise BadArgument(
            f"{word!r} is no roofline of {target}",
            f"{wrong[0]!r} is no data type whose operations it counts, nor a level of memory",
            f"Data types: {', '.join(types) or 'none'}; levels: {', '.join(levels)}; or {_INSTRUCTION}",
        )
    floats = [t for t, operations in types.items() if instructions or operations[0].kind == "flop"]
    if not floats:
        found.unsupported[f"{ROOFLINE}.flop"] = f"{target} counts no floating-point operations by data type"
    for level in [v for v in levels if v in parts] or levels:
        for datatype in [t for t in types if t in parts] or floats or [""]:
            formulas = [levels[level], *(o.count for o in types.get(datatype, []))]
            name = ".".join(part for part in (ROOFLINE, datatype, level) if part)
            _add(target, name, catalog.counters_of(target, formulas), found)
    found.welcome += _explaining(target, known)


def _explaining(target: str, known: Family) -> list[tuple[str, ...]]:
    """What tells why a point lies where it does: busy cycles of units, other work, counts of instructions."""
    formulas = [[unit.busy, unit.cycles] for unit in known.busy if unit.gpus is None or target in unit.gpus]
    formulas += [[o.count] for o in known.operations(target, "inst", "iop")] + [[f] for f in known.extra.values()]
    sets = [tuple(catalog.counters_of(target, one)) for one in formulas]
    return [counters for counters in sets if not any(absent(target, c) for c in counters)]
