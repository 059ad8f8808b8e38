"""Events that no profiler would write: every share stays a share, every idle ns has one cause, nothing fails."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rooflens.analysis.timeline.timeline import Timeline
from rooflens.tests.support.timelines import Made
from rooflens.tests.unit.analysis.timeline.test_made import told

LARGEST = 2**63 - 1


def holds(found: Timeline) -> None:
    total = found.total
    assert 0 <= total.any <= total.wall and 0 <= total.exposed_copies <= total.memory
    assert sum(idle.ns for idle, _ in found.causes) == total.idle
    assert all(idle.ns > 0 for idle, _ in found.causes)


def test_one_kernel_that_takes_no_time_and_times_and_ids_at_the_ends_of_their_types(tmp_path: Path) -> None:
    made = Made()
    made.add("kernel", "k", 5, 5, device_id=0)
    found = told(tmp_path / "nothing", made, steady=False)
    holds(found)
    assert found.wall_ns == 0 and found.verdict.confidence == 0
    made = Made()
    made.add("copy", "c", -(10**18), 3 * 10**18, device_id=0, bytes=-5)
    made.add("kernel", "k", -4 * 10**18, 4 * 10**18, device_id=2**31 - 1, rank=2**31 - 1, stream=-LARGEST,
             pid=-LARGEST, correlation=LARGEST)  # fmt: skip
    made.host("hipMalloc", 0, 1, pid=LARGEST, correlation=-LARGEST)
    holds(told(tmp_path, made, steady=False))


@pytest.mark.parametrize("seed", range(2))
def test_random_events_with_holes(tmp_path: Path, seed: int) -> None:
    dice, made = random.Random(seed), Made()
    made.add("kernel", "k", 0, 7, device_id=0)
    for _ in range(dice.choice([3, 50, 300])):
        start = dice.choice([0, 1, dice.randrange(10**6), -dice.randrange(10**12), dice.randrange(4 * 10**18)])
        kind = dice.choice(["kernel", "copy", "fill", "api", "sync", "alloc", "sample", "strange"])
        name = dice.choice(["k", "hipMalloc", "cudaMemcpy", "nccl", "", None, "hipGraphInstantiate", "'; DROP x"])
        made.add(kind, name, start, start + dice.choice([0, 5, 10**6, -3]), device_id=dice.choice([None, 0, 1, -5]),
                 rank=dice.choice([None, 0, -1]), pid=dice.choice([None, 1, 2, -LARGEST]),
                 thread=dice.choice([None, 1, 2]), stream=dice.choice([None, 1]), bytes=dice.choice([None, 0, 2**62]),
                 correlation=dice.choice([None, 1, 2, 3, dice.randrange(-LARGEST, LARGEST)]),
                 direction=dice.choice([None, "h2d"]), category=dice.choice([None, "profiler"]))  # fmt: skip
    for _ in range(dice.choice([0, 5, 30])):
        start = dice.randrange(10**6)
        made.range(dice.choice(["r", "r 1", "", "a'b"]), start, start + dice.choice([0, 100, -5]), path=None,
                   depth=dice.choice([None, 0, 3]), source=dice.choice([None, "torch", "user"]),
                   pid=dice.choice([None, 1]), thread=dice.choice([None, 1]))  # fmt: skip
    holds(told(tmp_path, made, steady=False))
