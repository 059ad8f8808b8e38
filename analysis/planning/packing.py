"""Events packed into as few passes as the hardware allows, so that as many groups as possible lie whole in one pass.

Events are bits of an integer, so that a pass, a block and a group of events are each one number. Passes are few and
nearly full, which makes this a hard packing problem; taking a few passes apart and filling them anew, over and over,
finds in a fraction of a second what an integer solver proves to be the best in minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

_PATIENCE = 300
"""Attempts without any gain after which the search ends; the best is usually there after 30."""


@dataclass(frozen=True)
class Block:
    """Events that share counter registers, and how many of them one pass can hold."""

    events: int
    limit: int


@dataclass(frozen=True)
class _EventGroup:
    """Events that should lie in one pass, what that is worth, and the blocks that they load."""

    events: int
    weight: int
    loads: tuple[tuple[int, Block], ...]
    """Each block with its position."""


@dataclass(frozen=True)
class _PackingTask:
    groups: list[_EventGroup]
    blocks: Sequence[Block]
    fixed: list[int]
    """What each pass holds from the start."""
    spare: list[int]
    """Per block: registers over all passes beyond those that the events need once."""


def least_passes(blocks: Iterable[Block], events: int) -> int:
    """The fewest passes that can hold all events: no pass holds more of a block than it has registers."""
    return max((-(-(events & block.events).bit_count() // block.limit) for block in blocks), default=0)


def union(masks: Iterable[int]) -> int:
    """The events of all masks together."""
    return reduce(or_, masks, 0)


def pack(
    blocks: Sequence[Block],
    groups: Iterable[tuple[int, int]],
    apart: Sequence[int] = (),
    optional: Iterable[int] = (),
) -> list[int]:
    """Passes that hold every event of ``groups`` (pairs of events and weight), in the least number of passes.

    ``apart`` lists bundles of events, each of which must lie in one pass and no two in the same; at most as many as
    there are passes. The summed weight of the groups that are whole in some pass is made as large as the search can
    make it, for which spare registers measure an event again; no event is measured again without need. Groups that
    are ``optional`` get the registers that are left, first come first served. The passes with most whole groups come
    first. The same blocks and groups give the same passes, in whatever order the groups are.
    """
    wanted = sorted(groups)
    everything = union([*(events for events, _ in wanted), *apart])
    fixed = [*sorted(apart)] + [0] * (least_passes(blocks, everything) - len(apart))
    packable = [_group(blocks, *group) for group in wanted if group[1] and least_passes(blocks, group[0]) <= 1]
    spare = [block.limit * len(fixed) - (everything & block.events).bit_count() for block in blocks]
    passes = _search(_PackingTask(packable, blocks, fixed, spare))
    _fill(blocks, passes, everything & ~union(passes))
    _prune(passes, packable, fixed)
    for group in optional:
        _admit(blocks, passes, group)
    worth = {one: sum(g.weight for g in packable if not g.events & ~one) for one in passes}
    return sorted(passes, key=lambda one: (-worth[one], one))


def _group(blocks: Sequence[Block], events: int, weight: int) -> _EventGroup:
    return _EventGroup(events, weight, tuple((i, b) for i, b in enumerate(blocks) if events & b.events))


def _search(puzzle: _PackingTask) -> list[int]:
    """The best passes found, not yet with the events that no whole group needs."""
    chance = random.Random(0).random  # The one method whose sequence Python promises to keep.
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
    """Passes to take apart: one or two that hold a part of the group, and others by chance."""
    related = sorted((chance(), p) for p, one in enumerate(passes) if one & group)[: 1 + int(chance() * 2)]
    others = sorted((chance(), p) for p in range(len(passes)))
    picked = [p for _, p in [*related, *others]]
    return set(list(dict.fromkeys(picked))[:number])


def _place(
    puzzle: _PackingTask, passes: list[int], places: list[int], order: Iterable[int], chance: Callable[[], float]
) -> None:
    """Put groups, one by one, into the pass that each costs least; one that fits nowhere stays homeless."""
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
    """What it takes to complete a group in the pass ``one``, in parts of blocks; None where it does not fit."""
    added, price = group.events & ~one, 0.0
    for i, block in group.loads:
        if new := added & block.events:
            again = (new & placed).bit_count()
            if again > spare[i] or (one & block.events | new).bit_count() > block.limit:
                return None
            price += new.bit_count() / block.limit + 4 * again / (spare[i] + 1)
    return price


def _fill(blocks: Sequence[Block], passes: list[int], rest: int) -> None:
    """Put single events where their block has most room."""
    while rest:
        event = rest & -rest
        rest ^= event
        room = [min(b.limit - (one & b.events).bit_count() for b in blocks if b.events & event) for one in passes]
        passes[room.index(max(room))] |= event


def _prune(passes: list[int], groups: Sequence[_EventGroup], fixed: Sequence[int]) -> None:
    """Drop events from passes where no group needs them that is not whole in another pass as well."""
    for p, one in enumerate(passes):
        others = passes[:p] + passes[p + 1 :]
        needed = fixed[p] | one & ~union(others)
        here = [g.events for g in groups if not g.events & ~one]
        passes[p] = needed | union(g for g in here if all(g & ~other for other in others))


def _admit(blocks: Sequence[Block], passes: list[int], group: int) -> None:
    """Add a group to the pass that lacks least of it, or its events one by one, as far as registers are left."""
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
