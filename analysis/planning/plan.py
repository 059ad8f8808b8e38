"""Plan the passes of a profile: which counters, in how many passes, and which metrics are complete in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from ..base.problems import BadArgument
from ..base.text import count_text
from ..catalogue import metrics as catalog
from ..catalogue import targets
from ..catalogue.counter_names import (
    block_of,
    canonical,
    events_of,
    in_total,
    level_of,
    per_instance,
    spelling,
    why_not_countable,
)
from ..catalogue.metrics import Metric
from ..catalogue.search import select_metrics
from ..catalogue.work_formulas import OperationKind, WorkFormulas, WorkOperation, work_formulas
from .packing import Block, least_passes, pack, union

ROOFLINE = "roofline"
_INSTRUCTION = "instruction"
_EVENT = re.compile(r"(?=.*[-_:/.\d])[A-Za-z][\w.:/=+-]*")
"""Events such as LLC-load-misses, r1a8, sched:sched_switch; a plain word does not match, as it is likely a typo."""


@dataclass
class CounterSets:
    """Named sets of counters in the requested order, and what the target does not support, with the reason."""

    target: str
    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    optional: list[tuple[str, ...]] = field(default_factory=list)
    """Sets that were not requested but that explain the requested ones; they are measured if registers are left."""

    def add(self, name: str, counters: Iterable[str]) -> None:
        """Add a set, unless the target lacks one of its counters."""
        needed = tuple(counters)
        if reason := next((why for c in needed if (why := why_not_countable(self.target, c))), None):
            self.unsupported[name] = reason
        else:
            self.sets.setdefault(name, needed)

    def add_metrics(self, word: str) -> None:
        """Add the metrics that a word selects, one set each."""
        for metric in select_metrics(self.target, [word]):
            self.add(metric.name, counters_of(self.target, metric))

    def add_preset(self, names: Iterable[str]) -> None:
        """Add the metrics of a preset; those of other families are skipped."""
        for name in names:
            if reason := _only_elsewhere(self.target, name):
                self.unsupported[name] = reason
            elif name in catalog.by_name(self.target):
                self.add_metrics(name)

    def add_counter(self, word: str) -> None:
        """Add a counter by its name; only the profiler knows whether the hardware has it."""
        if not targets.gpu(self.target).counter_limits:
            self.sets.setdefault(word, (word,))
            return
        name = in_total(spelling(self.target, word))
        if word.startswith("SQ_ACCUM_PREV") or (name.endswith("_ACCUM") and not level_of(name)):
            self.unsupported[word] = "only level counters can be accumulated: write it as in SQ_LEVEL_WAVES_ACCUM"
        elif (ours := canonical(self.target, name)) != name:
            self.unsupported[word] = f"{self.target} calls it {ours}"
        else:
            self.sets.setdefault(name, (name,))

    def add_rooflines(self, word: str) -> None:
        """Add one set per data type and memory level, for one point of the roofline each. Integers only on request."""
        formulas = work_formulas(self.target)
        parts = word.split(".")[1:]
        instructions = _INSTRUCTION in parts
        levels = {v.name: v.transactions if instructions else v.bytes for v in formulas.level if v.bytes}
        past = {v.name: [v.past] if v.past else [] for v in formulas.level}
        types: dict[str, list[WorkOperation]] = {}
        kinds: tuple[OperationKind, ...] = ("inst",) if instructions else ("flop", "iop")
        for operation in formulas.operations(*kinds):
            types.setdefault(_INSTRUCTION if instructions else operation.datatype, []).append(operation)
        if not levels:
            raise BadArgument(
                f"No counters for a roofline of {self.target} are known", fix="Ask for metrics or counters"
            )
        if wrong := [part for part in parts if part not in types and part not in levels]:
            raise BadArgument(
                f"{word!r} is not a roofline of {self.target}",
                f"{wrong[0]!r} is neither a data type whose operations it counts nor a memory level",
                f"Data types: {', '.join(types) or 'none'}; levels: {', '.join(levels)}; or {_INSTRUCTION}",
            )
        floats = [t for t, operations in types.items() if instructions or operations[0].kind == "flop"]
        if not floats:
            self.unsupported[f"{ROOFLINE}.flop"] = (
                f"{self.target} does not count floating-point operations by data type"
            )
        for level in [v for v in levels if v in parts] or levels:
            for datatype in [t for t in types if t in parts] or floats or [""]:
                of_point = [levels[level], *past[level], *(o.count for o in types.get(datatype, []))]
                name = ".".join(part for part in (ROOFLINE, datatype, level) if part)
                self.add(name, catalog.counters_of(self.target, of_point))
        self.optional += _explaining_sets(self.target, formulas)


def resolve(target: str, wanted: Iterable[str]) -> CounterSets:
    """The counters needed for metrics, rooflines and counters on a target, in the target's spelling.

    Words are those of ``select_metrics``; ``roofline``, alone or restricted to data types and levels (roofline.f32.hbm,
    roofline.instruction); and counters. A metric is unsupported if only other targets of the family have it, or if the
    target lacks one of its counters. Raises BadArgument with similar names for an unknown word.
    """
    needed = CounterSets(target)
    for word in dict.fromkeys(word.strip() for word in wanted):
        preset = catalog.presets().get(word)
        needed.add_preset(preset or ())
        if word.split(".")[0] == ROOFLINE:
            needed.add_rooflines(word)
        elif reason := _only_elsewhere(target, word):
            needed.unsupported[word] = reason
        elif preset is None and _is_counter(target, word):
            needed.add_counter(word)
        elif preset is None:
            needed.add_metrics(word)
    return needed


def counters_of(target: str, metric: Metric) -> tuple[str, ...]:
    """The counters that a metric needs on a target, including those of the metrics that its ``finish`` uses."""
    here = catalog.by_name(target)
    names = {
        name for one in (metric, *map(here.get, metric.uses.values())) if one for name in _counters_read(target, one)
    }
    return tuple(sorted(names))


def _counters_read(target: str, metric: Metric) -> list[str]:
    """The counters that a metric's own formulas read, as they must be measured: in any pass, and per channel if the
    metric is per channel."""
    names = [name.split("@")[0] for name in catalog.counters(target, metric)]
    return [per_instance(name) for name in names] if metric.per == "l2_channel" else names


def _only_elsewhere(target: str, name: str) -> str | None:
    """Why a metric of other targets of the family does not exist on this one, or None if no target has it."""
    if name in catalog.by_name(target):
        return None
    relatives = [t for t in catalog.known_targets(name) if targets.gpu(t).family == targets.gpu(target).family]
    return f"{target} has no counters for it; known on {', '.join(relatives)}" if relatives else None


def _is_counter(target: str, word: str) -> bool:
    """Whether a word is a counter: of a block of the target, or, if its blocks have no names, one that its metrics use
    or that is spelled like an event of the profiler."""
    if limits := targets.gpu(target).counter_limits:
        return block_of(word) in limits
    if word in _in_formulas(target):
        return True
    metric_like = word.split(".")[0] in catalog.SUBSYSTEMS
    return bool(_EVENT.fullmatch(word)) and catalog.is_counter(target, word) and not metric_like


@cache
def _in_formulas(target: str) -> frozenset[str]:
    """Every counter that the metrics of a target use."""
    return frozenset(name for metric in catalog.metrics(target) for name in catalog.counters(target, metric))


def _explaining_sets(target: str, formulas: WorkFormulas) -> list[tuple[str, ...]]:
    """The counters that explain the position of a point: busy cycles of units, other work, instruction counts."""
    explaining = [[unit.busy, unit.cycles] for unit in formulas.busy]
    explaining += [[o.count] for o in formulas.operations("inst", "iop")]
    explaining += [[formula] for formula in formulas.extra.values()]
    sets = [tuple(catalog.counters_of(target, one)) for one in explaining]
    return [counters for counters in sets if not any(why_not_countable(target, c) for c in counters)]


@dataclass(frozen=True)
class PassPlan:
    """The passes that collect the requested metrics on one target.

    A metric is whole if one pass contains all its counters, so that numerator and denominator come from the same run of
    the program; a metric without counters is whole too. Counters requested by name are listed like metrics.
    """

    target: str
    passes: tuple[tuple[str, ...], ...] = ()
    """The counters of each pass in the target's spelling; ``X_sum``, ``X[*]`` and ``L_ACCUM`` as in events.py, the
    level counter L always directly before its integral. The passes with the most whole metrics come first."""
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Metric or counter -> the counters that it needs, for all that the passes collect."""
    unsupported: dict[str, str] = field(default_factory=dict)
    """Metric or word -> why the target does not support it."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Metric -> why it does not fit into ``max_passes``."""
    least_passes: int = 0
    """The lower bound, which the plan reaches: registers needed divided by registers available, of the scarcest
    block."""

    @cached_property
    def whole_in(self) -> dict[str, int]:
        """Whole metric -> the first pass, counted from 1, with all its counters; metrics without counters are not
        included."""
        passes = list(enumerate(map(set, self.passes), 1))
        places = {name: next((i for i, one in passes if one.issuperset(c)), 0) for name, c in self.sets.items() if c}
        return {name: place for name, place in places.items() if place}

    @property
    def whole(self) -> tuple[str, ...]:
        """The metrics that are whole."""
        return tuple(name for name, counters in self.sets.items() if name in self.whole_in or not counters)

    @property
    def split(self) -> tuple[str, ...]:
        """The metrics whose counters come from several passes."""
        return tuple(name for name, counters in self.sets.items() if counters and name not in self.whole_in)


def plan(target: str, wanted: Iterable[str], *, max_passes: int | None = None) -> PassPlan:
    """Plan the passes for metrics (names, ids, tables, panels, subsystems, presets, ``*``), rooflines and counters.

    The passes do not depend on the order of ``wanted``, unless not everything fits into ``max_passes``: then the words
    that come first are kept. A target without counter limits has a profiler that schedules counters itself and gets
    one pass. Raises BadArgument for an unknown word, NotFound for an unknown target.
    """
    if max_passes is not None and max_passes < 1:
        raise BadArgument(f"max_passes is {max_passes}", "counters need at least one pass", "Give 1 or more")
    limits = targets.gpu(target).counter_limits
    needed = resolve(target, wanted)
    if not limits and not catalog.metrics(target):
        raise BadArgument(
            f"No counters of {target} are known", fix=f"Known: {', '.join(catalog.targets_with_metrics())}"
        )
    if not limits:
        names = sorted({counter for counters in needed.sets.values() for counter in counters})
        only = [tuple(names)] if names else []
        return PassPlan(target, tuple(only), needed.sets, needed.unsupported, least_passes=len(only))
    _drop_unknown_blocks(needed, limits)
    bits, blocks = _registers(needed, limits)
    sets, left_out = _fit_into_passes(needed.sets, bits, blocks, max_passes)
    masks = {name: _mask(bits, counters) for name, counters in sets.items()}
    integrals = {_mask(bits, [c]) for counters in sets.values() for c in counters if level_of(c)}
    groups: dict[int, int] = {}
    for name, mask in masks.items():
        groups[mask] = groups.get(mask, 0) + int(len(sets[name]) > 1)
    packed = pack(blocks, groups.items(), sorted(integrals), [_mask(bits, counters) for counters in needed.optional])
    names = sorted({c for counters in (*sets.values(), *needed.optional) for c in counters})
    passes = tuple(_counters(names, bits, one) for one in packed)
    return PassPlan(target, passes, sets, needed.unsupported, left_out, least_passes(blocks, union(masks.values())))


def _drop_unknown_blocks(needed: CounterSets, limits: dict[str, int]) -> None:
    """Move sets with a counter of an unknown block to ``unsupported``; drop such optional sets."""
    needed.optional = [counters for counters in needed.optional if all(limits.get(block_of(c) or "") for c in counters)]
    for name, counters in list(needed.sets.items()):
        if bad := next((c for c in counters if not limits.get(block_of(c) or "")), None):
            del needed.sets[name]
            needed.unsupported[name] = f"no counter registers are known for {bad}"


def _registers(needed: CounterSets, limits: dict[str, int]) -> tuple[dict[str, int], list[Block]]:
    """A bit for every event, and the blocks; the limit of one integral per pass is modelled as a block with one
    register."""
    counters = {c for one in (*needed.sets.values(), *needed.optional) for c in one}
    bits = {event: 1 << i for i, event in enumerate(sorted({e for c in counters for e in events_of(c)}))}
    members: dict[str, int] = {}
    for event, bit in bits.items():
        block = block_of(event) or ""
        members[block] = members.get(block, 0) | bit
    blocks = [Block(events, limits.get(block, 0)) for block, events in sorted(members.items())]
    return bits, [*blocks, Block(union(bit for event, bit in bits.items() if level_of(event)), 1)]


def _fit_into_passes(
    sets: dict[str, tuple[str, ...]], bits: dict[str, int], blocks: list[Block], max_passes: int | None
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The sets that fit into ``max_passes``, in the requested order, and why the others do not."""
    if max_passes is None:
        return sets, {}
    fitting: dict[str, tuple[str, ...]] = {}
    left_out: dict[str, str] = {}
    events = 0
    for name, counters in sets.items():
        mask = _mask(bits, counters)
        if (needed := least_passes(blocks, events | mask)) <= max_passes:
            events |= mask
            fitting[name] = counters
        elif (alone := least_passes(blocks, mask)) > max_passes:
            left_out[name] = f"it needs {count_text(alone, 'pass')}, max_passes is {max_passes}"
        else:
            left_out[name] = (
                f"it would need {count_text(needed, 'pass')} together with those before it, max_passes is {max_passes}"
            )
    return fitting, left_out


def _mask(bits: dict[str, int], counters: Iterable[str]) -> int:
    return union(bits[event] for counter in counters for event in events_of(counter))


def _counters(names: Sequence[str], bits: dict[str, int], one: int) -> tuple[str, ...]:
    """The counters of one pass by block and name, a level directly before its integral."""
    here = {c for c in names if not _mask(bits, [c]) & ~one}
    here |= {level for c in here if (level := level_of(c))}
    return tuple(sorted(here, key=lambda c: (block_of(c) or "", *events_of(c), c)))
