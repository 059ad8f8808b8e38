"""RDNA: memory levels, and registers of counters as a recorded profile of a Radeon 8050S (gfx1151) uses them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.catalogue import targets
from rooflens.analysis.catalogue.counter_names import block_of, events_of
from rooflens.analysis.store.store import Store
from rooflens.tools.compute_roofline import compute_roofline


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    path = shared / "workloads38" / "vcopy__RDNA35_HALO"
    if not path.exists():
        pytest.skip("needs ../shared/workloads38, which the project does not ship")
    return path


def test_a_level_that_only_others_have_is_refused_with_those_that_there_are(samples: Store) -> None:
    with pytest.raises(BadArgument, match="no memory level 'gl1'.*hbm, l2, vl1d, lds"):
        compute_roofline(samples, "yax_before", levels=["gl1"])


def registers(counters: list[str]) -> Counter[str]:
    return Counter(block_of(event) or "" for event in {e for c in counters for e in events_of(c)})


def test_every_recorded_pass_fits_the_registers_that_are_stated(folder: Path) -> None:
    limits, most = targets.gpu("gfx1151").counter_limits, Counter[str]()
    for file in (folder / "perfmon").glob("*.yaml"):
        used = registers(re.findall(r"^  - (\w+)", file.read_text(), re.MULTILINE))
        assert {block: n for block, n in used.items() if n > limits[block]} == {}
        most |= used
    full = {block for block, n in most.items() if n == limits[block]}
    assert full == {"SQ", "GRBM", "CPC", "GCEA", "TCP", "GL1C", "GL2C"}, "so these limits are exact"
