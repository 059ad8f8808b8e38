"""The packer against exhaustive search on small instances, and its promises on any instance."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflens.analysis.planning.packing import Block, least_passes, pack, union


def score(passes: list[int], groups: list[tuple[int, int]]) -> int:
    return sum(weight for events, weight in groups if any(events & one == events for one in passes))


def best_by_trying_all(blocks: list[Block], groups: list[tuple[int, int]], count: int) -> int:
    """The most weight that ``count`` passes can hold whole, over all sets of passes that hold every event."""
    everything = union(events for events, _ in groups)
    possible = [
        one for one in range(everything + 1)
        if not one & ~everything and all((one & b.events).bit_count() <= b.limit for b in blocks)
    ]  # fmt: skip
    full = [one for one in possible if not any(one != more and one & more == one for more in possible)]
    covering = (c for c in itertools.combinations_with_replacement(full, count) if union(c) == everything)
    return max(score(list(passes), groups) for passes in covering)


@pytest.mark.parametrize("seed", range(12))
def test_small_instances_are_packed_as_well_as_by_trying_all(seed: int) -> None:
    chance = random.Random(seed)
    blocks = [Block(0b0011111, chance.choice((2, 3))), Block(0b1100000, 1)]
    groups = [(1 << i, 0) for i in range(7)]
    for _ in range(chance.randint(3, 9)):
        events = union(1 << i for i in chance.sample(range(7), chance.choice((2, 2, 3))))
        groups.append((events, chance.randint(1, 4)))
    passes = pack(blocks, groups)
    assert score(passes, groups) == best_by_trying_all(blocks, groups, len(passes))


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[Block], list[tuple[int, int]]]:
    sizes = draw(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), min_size=1, max_size=4))
    blocks, first = [], 0
    for size, limit in sizes:
        blocks.append(Block(((1 << size) - 1) << first, limit))
        first += size
    group = st.tuples(st.sets(st.integers(0, first - 1), min_size=1, max_size=6), st.integers(0, 3))
    groups = [(union(1 << i for i in events), weight) for events, weight in draw(st.lists(group, max_size=25))]
    return blocks, groups


@settings(deadline=None, max_examples=20)
@given(instances(), st.randoms(use_true_random=False))
def test_passes_hold_every_event_within_the_limits_in_the_least_number(
    instance: tuple[list[Block], list[tuple[int, int]]], chance: random.Random
) -> None:
    blocks, groups = instance
    passes = pack(blocks, groups)
    everything = union(events for events, _ in groups)
    assert union(passes) == everything
    assert all((one & block.events).bit_count() <= block.limit for one in passes for block in blocks)
    assert len(passes) == least_passes(blocks, everything)
    chance.shuffle(groups)
    assert pack(blocks, groups) == passes


@settings(deadline=None, max_examples=20)
@given(instances())
def test_no_event_is_measured_again_without_making_a_group_whole(
    instance: tuple[list[Block], list[tuple[int, int]]],
) -> None:
    blocks, groups = instance
    passes = pack(blocks, groups)
    whole = score(passes, groups)
    for at, one in enumerate(passes):
        others = passes[:at] + passes[at + 1 :]
        for event in (1 << i for i in range(one.bit_length()) if one >> i & 1):
            if event & union(others):
                assert score([*others, one ^ event], groups) < whole


def test_bundles_lie_in_passes_of_their_own() -> None:
    blocks = [Block(0b111111, 4), Block(0b101010, 1)]
    bundles = [0b000011, 0b001100, 0b110000]
    passes = pack(blocks, [(bundle, 0) for bundle in bundles], bundles)
    assert len(passes) == 3
    assert all(sum(bundle & one == bundle for bundle in bundles) == 1 for one in passes)


def test_an_optional_group_takes_only_registers_that_are_left() -> None:
    blocks = [Block(0b1111, 3)]
    assert pack(blocks, [(0b0011, 1)], optional=[0b1100, 0b1000]) == [0b0111]
    assert pack(blocks, [(0b0111, 1)], optional=[0b1000]) == [0b0111]
    assert pack(blocks, [(0b0001, 1)], optional=[0b0110, 0b1000]) == [0b0111]


def test_nothing_wanted_needs_no_pass() -> None:
    assert pack([Block(0b11, 1)], []) == []
    assert pack([Block(0b11, 1)], [], optional=[0b01]) == []
