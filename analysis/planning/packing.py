"""Pack events into as few passes as the hardware allows, so that as many groups as possible fit completely in one pass.

Events are bits of an integer, so that a pass, a block and a group of events are each one number. There are few passes
and they are nearly full, which makes this a hard packing problem. Repeatedly emptying and refilling a few passes finds,
in a fraction of a second, the solution that an integer solver needs minutes to prove optimal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

_PATIENCE = 300
"""The search ends after this many attempts without improvement; the best result is usually found after 30."""


@dataclass(frozen=True)
class Block:
    """Events that share counter registers, and how many of them fit in one pass."""

    events: int
    limit: int


@dataclass(frozen=True)
class _EventGroup:
    """Events that should be in one pass, the weight of that, and the blocks that they use."""

    events: int
    weight: int
    loads: tuple[tuple[int, Block], ...]
    """Each block with its index."""


@dataclass(frozen=True)
class _PackingTask:
    groups: list[_EventGroup]
    blocks: Sequence[Block]
    fixed: list[int]
    """The events that each pass contains from the start."""
    spare: list[int]
    """Per block: the registers in all passes that remain after every event has been placed once."""


def least_passes(blocks: Iterable[Block], events: int) -> int:
    """The lower bound of the number of passes: no pass takes more events of a block than the block has registers."""
    return max((-(-(events & block.events).bit_count() // block.limit) for block in blocks), default=0)


def union(masks: Iterable[int]) -> int:
    """The union of all masks."""
    return reduce(or_, masks, 0)


def pack(
    blocks: Sequence[Block],
    groups: Iterable[tuple[int, int]],
    apart: Sequence[int] = (),
    optional: Iterable[int] = (),
) -> list[int]:
    """Return the fewest passes that contain every event of ``groups`` (pairs of events and weight).

    ``apart`` lists bundles of events; each bundle must be in one pass, and no two in the same pass, so there are at
    most as many bundles as passes. The search maximises the total weight of the groups that are complete in a pass,
    using spare registers to measure an event again; no event is repeated without need. ``optional`` groups get the
    remaining registers in the given order. The passes with the most complete groups come first. The result does not
    depend on the order of the groups.
    """
    wanted = sorted(groups)
    everything = union([*(events for events, _ in wanted), *apart])
    fixed = [*sorted(apart)] + [0] * (least_passes(blocks, everything) - len(apart))
    packable = [
        _EventGroup(events, weight, tuple((i, block) for i, block in enumerate(blocks) if events & block.events))
        for events, weight in wanted
        if weight and least_passes(blocks, events) <= 1
    ]
    spare = [block.limit * len(fixed) - (everything & block.events).bit_count() for block in blocks]
    passes = _search(_PackingTask(packable, blocks, fixed, spare))
    _fill(blocks, passes, everything & ~union(passes))
    _prune(passes, packable, fixed)
    for group in optional:
        _admit(blocks, passes, group)
    worth = {one: sum(g.weight for g in packable if not g.events & ~one) for one in passes}
    return sorted(passes, key=lambda one: (-worth[one], one))


def _search(puzzle: _PackingTask) -> list[int]:
    """The best passes found, without the events that no complete group needs."""
    chance = random.Random(0).random  # The only method whose sequence Python guarantees to be reproducible.
    groups, count = puzzle.groups, len(puzzle.fixed)
    passes, places = puzzle.fixed[:], [-1] * len(groups)
    order = sorted(range(len(groups)), key=lambda i: (-groups[i].events.bit_count(), -groups[i].weight, i))
    _place(puzzle, passes, places, order, chance)
    score, since = _score(groups, places), 0
    while since < _PATIENCE and (homeless := [i for i, at in enumerate(places) if at < 0]):
        since += 1
        target = homeless[int(chance() * len(homeless))]
        reopened = _pick_passes(passes, groups[target].events, 2 + int(chance() * 3), chance)
        candidate = [puzzle.fixed[p] if p in reopened else passes[p] for p in range(count)]
        candidate_places = [-1 if at in reopened else at for at in places]
        free = [i for i, at in enumerate(candidate_places) if at < 0]
        rank = {i: (0.3 + chance()) * -(groups[i].events.bit_count() + groups[i].weight / 2) for i in free}
        if chance() < 0.7:
            rank[target] = -float("inf")
        _place(puzzle, candidate, candidate_places, sorted(free, key=rank.__getitem__), chance)
        if (reached := _score(groups, candidate_places)) >= score:
            since = 0 if reached > score else since
            score, places = reached, candidate_places
            passes = [union([fixed, *(g.events for g, at in zip(groups, places, strict=True) if at == p)])
                      for p, fixed in enumerate(puzzle.fixed)]  # fmt: skip
    return passes


def _score(groups: Sequence[_EventGroup], places: Sequence[int]) -> int:
    return sum(group.weight for group, at in zip(groups, places, strict=True) if at >= 0)


def _pick_passes(passes: Sequence[int], group: int, number: int, chance: Callable[[], float]) -> set[int]:
    """The passes to empty: one or two that contain part of the group, and others at random."""
    related = sorted((chance(), p) for p, one in enumerate(passes) if one & group)[: 1 + int(chance() * 2)]
    others = sorted((chance(), p) for p in range(len(passes)))
    picked = [p for _, p in [*related, *others]]
    return set(list(dict.fromkeys(picked))[:number])


def _place(
    puzzle: _PackingTask, passes: list[int], places: list[int], order: Iterable[int], chance: Callable[[], float]
) -> None:
    """Put each group into the pass where it costs least; a group that fits nowhere is not placed."""
    placed = union(passes)
    spare = list(puzzle.spare)
    for i, block in enumerate(puzzle.blocks):
        spare[i] -= sum((one & block.events).bit_count() for one in passes) - (placed & block.events).bit_count()
    for index in order:
        group, best, lowest = puzzle.groups[index], -1, float("inf")
        for p, one in enumerate(passes):
            if not group.events & ~one:
                best = p
                break
            price = _price(group, one, placed, spare)
            if price is not None and (price := price + 0.3 * chance()) < lowest:
                best, lowest = p, price
        places[index] = best
        if best >= 0 and (added := group.events & ~passes[best]):
            for i, block in group.loads:
                spare[i] -= (added & placed & block.events).bit_count()
            passes[best] |= added
            placed |= added


def _price(group: _EventGroup, one: int, placed: int, spare: Sequence[int]) -> float | None:
    """The cost of completing a group in the pass ``one``, as shares of blocks, or None if it does not fit."""
    added, price = group.events & ~one, 0.0
    for i, block in group.loads:
        if new := added & block.events:
            again = (new & placed).bit_count()
            if again > spare[i] or (one & block.events | new).bit_count() > block.limit:
                return None
            price += new.bit_count() / block.limit + 4 * again / (spare[i] + 1)
    return price


def _fill(blocks: Sequence[Block], passes: list[int], rest: int) -> None:
    """Put single events into the passes where their block has most room."""
    while rest:
        event = rest & -rest
        rest ^= event
        room = [min(b.limit - (one & b.events).bit_count() for b in blocks if b.events & event) for one in passes]
        passes[room.index(max(room))] |= event


def _prune(passes: list[int], groups: Sequence[_EventGroup], fixed: Sequence[int]) -> None:
    """Remove events from passes where no group needs them, or where the group is also complete in another pass."""
    for p, one in enumerate(passes):
        others = passes[:p] + passes[p + 1 :]
        needed = fixed[p] | one & ~union(others)
        here = [g.events for g in groups if not g.events & ~one]
        passes[p] = needed | union(g for g in here if all(g & ~other for other in others))


def _admit(blocks: Sequence[Block], passes: list[int], group: int) -> None:
    """Add a group to the pass that lacks the least of it, or its events one by one, while registers are left."""
    room = [p for p, one in enumerate(passes) if least_passes(blocks, one | group) <= 1]
    if room:
        passes[min(room, key=lambda p: (group & ~passes[p]).bit_count())] |= group
        return
    rest = group & ~union(passes)
    while rest:
        event = rest & -rest
        rest ^= event
        if at := next((p for p, one in enumerate(passes, 1) if least_passes(blocks, one | event) <= 1), 0):
            passes[at - 1] |= event
