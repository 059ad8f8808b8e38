"""One counter or the times of a launch four times too large or small, drawn by chance: no verdict turns to another."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.damage import every
from rooflens.tests.support.recordings import stored
from rooflens.tests.unit.tools.profiles.test_damaged_counters import SAMPLE, misled

LANES = ("SQ_THREAD_CYCLES_VALU", "smsp__thread_inst_executed")
"""A quarter of the lanes is what a kernel that diverges has: nothing contradicts it."""


@pytest.mark.parametrize("vendor", ["amd", "nvidia"])
def test_a_sample_of_damage_misleads_no_verdict(vendor: str, shared: Path, tmp_path: Path) -> None:
    store, path = Store(tmp_path / "store"), SAMPLE if vendor == "nvidia" else shared / "workloads" / "vcopy" / "MI200"
    with Workload(store, stored(store, path)) as workload:
        tried = [d for d in every(workload) if d.counter not in LANES]
    some = random.Random(20).sample(tried, min(5, len(tried)))
    assert misled(store, path, some, tmp_path / "damaged") == []
