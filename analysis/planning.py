"""Which counters to measure in which run of a program: as few runs as can be, with metrics whole within one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import catalog
from .counter_sets import CounterSets, resolve
from .events import block_of, events_of, level_of
from .packing import Block, least_passes, pack, union
from .problems import BadArgument


@dataclass(frozen=True)
class PassPlan:
    """The passes that answer a question on one target.

    A metric is whole where one pass holds all of its counters, so that numerator and denominator come from the same
    run of the program; one that reads no counter is whole too. Counters asked for by name are listed like metrics.
    """

    target: str
    passes: tuple[tuple[str, ...], ...]
    """Counters of each pass, spelled as on the target; ``X_sum``, ``X[*]`` and ``L_ACCUM`` as in events.py, the level
    counter L always directly before its integral. The passes with most whole metrics come first."""
    whole: tuple[str, ...]
    split: tuple[str, ...]
    unsupported: dict[str, str]
    """Metric or word -> why the target cannot give it."""
    left_out: dict[str, str]
    """Metric -> why ``max_passes`` leaves no room for it."""
    least_passes: int
    """Lower bound, which the plan reaches: registers needed over registers there are, of the scarcest block."""
    whole_in: dict[str, int]
    """Whole metric -> the first pass, from 1, that holds all of its counters; none for a metric without counters."""


def plan(target: str, wanted: Iterable[str], *, max_passes: int | None = None) -> PassPlan:
    """Plan the passes for metrics (names, ids, tables, panels, subsystems, presets, ``*``), rooflines and counters.

    The passes do not depend on the order of ``wanted``, unless ``max_passes`` leaves no room for all: then what was
    asked for first is kept. A target without counter limits has a profiler that schedules counters itself and gets
    one pass. Raises BadArgument for a word that means nothing there, NotFound for an unknown target.
    """
    if max_passes is not None and max_passes < 1:
        raise BadArgument(f"max_passes is {max_passes}", "counters take at least one pass", "Give 1 or more")
    limits = catalog.gpu(target).counter_limits
    found = resolve(target, wanted)
    if not limits and not catalog.metrics(target):
        raise BadArgument(f"No counters of {target} are known", fix=f"Known: {', '.join(catalog.with_metrics())}")
    if not limits:
        names = sorted({counter for counters in found.sets.values() for counter in counters})
        return _plan(target, [tuple(names)] if names else [], found, found.sets, {}, min(1, len(names)))
    _refuse_unknown_blocks(found, limits)
    bits, blocks = _registers(found, limits)
    kept, left_out = _within(found.sets, bits, blocks, max_passes)
    masks = {name: _mask(bits, counters) for name, counters in kept.items()}
    integrals = {_mask(bits, [c]) for counters in kept.values() for c in counters if level_of(c)}
    groups: dict[int, int] = {}
    for name, mask in masks.items():
        groups[mask] = groups.get(mask, 0) + int(len(kept[name]) > 1)
    packed = pack(blocks, groups.items(), sorted(integrals), [_mask(bits, counters) for counters in found.welcome])
    names = sorted({c for counters in (*kept.values(), *found.welcome) for c in counters})
    passes = [_counters(names, bits, one) for one in packed]
    return _plan(target, passes, found, kept, left_out, least_passes(blocks, union(masks.values())))


def _plan(
    target: str,
    passes: Sequence[tuple[str, ...]],
    found: CounterSets,
    kept: dict[str, tuple[str, ...]],
    left_out: dict[str, str],
    least: int,
) -> PassPlan:
    """The plan with every metric told to be whole or split."""
    held = [set(one) for one in passes]
    places = {name: next((i for i, one in enumerate(held, 1) if one.issuperset(c)), 0) for name, c in kept.items()}
    return PassPlan(
        target=target,
        passes=tuple(passes),
        whole=tuple(name for name, counters in kept.items() if places[name] or not counters),
        split=tuple(name for name, counters in kept.items() if counters and not places[name]),
        unsupported=found.unsupported,
        left_out=left_out,
        least_passes=least,
        whole_in={name: place for name, place in places.items() if place and kept[name]},
    )


def _refuse_unknown_blocks(found: CounterSets, limits: dict[str, int]) -> None:
    """Move sets with a counter that no block can hold to ``unsupported``; nobody misses those that were welcome."""
    found.welcome = [counters for counters in found.welcome if all(limits.get(block_of(c) or "") for c in counters)]
    for name, counters in list(found.sets.items()):
        if bad := next((c for c in counters if not limits.get(block_of(c) or "")), None):
            del found.sets[name]
            found.unsupported[name] = f"no counter registers are known for {bad}"


def _registers(found: CounterSets, limits: dict[str, int]) -> tuple[dict[str, int], list[Block]]:
    """A bit for every event, and the blocks; that a pass holds one integral is a block with one register."""
    counters = {c for found_in in (*found.sets.values(), *found.welcome) for c in found_in}
    bits = {event: 1 << i for i, event in enumerate(sorted({e for c in counters for e in events_of(c)}))}
    members: dict[str, int] = {}
    for event, bit in bits.items():
        block = block_of(event) or ""
        members[block] = members.get(block, 0) | bit
    blocks = [Block(events, limits.get(block, 0)) for block, events in sorted(members.items())]
    return bits, [*blocks, Block(union(bit for event, bit in bits.items() if level_of(event)), 1)]


def _within(
    sets: dict[str, tuple[str, ...]], bits: dict[str, int], blocks: list[Block], max_passes: int | None
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The sets that fit into ``max_passes``, first come first served, and why the others do not."""
    if max_passes is None:
        return sets, {}
    kept: dict[str, tuple[str, ...]] = {}
    left: dict[str, str] = {}
    events = 0
    for name, counters in sets.items():
        mask = _mask(bits, counters)
        if (needed := least_passes(blocks, events | mask)) <= max_passes:
            events |= mask
            kept[name] = counters
        elif (alone := least_passes(blocks, mask)) > max_passes:
            left[name] = f"it needs {alone} passes, max_passes is {max_passes}"
        else:
            left[name] = f"it would make {needed} passes with what was asked for before, max_passes is {max_passes}"
    return kept, left


def _mask(bits: dict[str, int], counters: Iterable[str]) -> int:
    return union(bits[event] for counter in counters for event in events_of(counter))


def _counters(names: Sequence[str], bits: dict[str, int], one: int) -> tuple[str, ...]:
    """The counters of one pass by block and name, a level directly before its integral."""
    here = {c for c in names if not _mask(bits, [c]) & ~one}
    here |= {level for c in here if (level := level_of(c))}
    return tuple(sorted(here, key=lambda c: (block_of(c) or "", *events_of(c), c)))
