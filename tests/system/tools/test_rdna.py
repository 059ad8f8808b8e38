"""The tools on a recorded profile of a Radeon 8050S (gfx1151): what its counters tell, and what they do not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.catalogue import targets
from rooflens.analysis.catalogue.counter_names import block_of, events_of
from rooflens.analysis.planning.plan import plan
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile

COPIED = 3 * 2 * 8 * 2**20
"""Bytes that the three launches of the vector copy read and write."""


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    path = shared / "workloads38" / "vcopy__RDNA35_HALO"
    if not path.exists():
        pytest.skip("needs ../shared/workloads38, which the project does not ship")
    return path


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("store"))
    import_profile(made, str(folder), name="copy")
    return made


def rows(table: Any) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_every_level_from_gl1_to_memory_moves_the_bytes_of_the_copy(store: Store) -> None:
    points = {row["level"]: row for row in rows(compute_roofline(store, "copy", detail="full").points)}
    assert list(points) == ["hbm", "l2", "gl1", "vl1d", "lds"]
    assert points["gl1"]["bytes"] == pytest.approx(COPIED, rel=1e-3)
    assert points["l2"]["bytes"] == pytest.approx(COPIED, rel=1e-3)
    assert 0.95 * COPIED < points["hbm"]["bytes"] < COPIED, "a part stays in GL2"
    assert points["vl1d"]["bytes"] is None, "its counter is dead: unknown, not zero"


def test_there_is_no_flop_roofline_and_the_reason_is_given(store: Store) -> None:
    done = compute_roofline(store, "copy")
    assert {(row["status"], row["operations"]) for row in rows(done.points)} == {("not_supported", None)}
    assert any("no counters of floating-point operations" in str(note) for note in done.notes)
    instructions = {row["level"]: row for row in rows(compute_roofline(store, "copy", kind="instruction").points)}
    assert instructions["gl1"]["operations"] == 265_792 + 263_872 + 265_024


def test_more_than_the_memory_delivers_is_the_infinity_cache_and_no_certain_verdict(store: Store) -> None:
    (pipes,) = rows(compute_roofline(store, "copy", detail="full").pipes)
    assert (pipes["hbm_pct"], pipes["bound"], pipes["limiter"]) == (None, "unknown", None)
    assert "the cache in front of it" in pipes["why"]
    (kernel,) = diagnose_bottleneck(store, "copy").kernels
    assert (kernel.verdict.subsystem, kernel.verdict.confidence) == ("latency", 0.45)
    assert any("the load of device memory" in text for text in kernel.undecided)
    assert any(f.subsystem == "latency" and "95.5 % of their life" in f.claim for f in kernel.findings)


def test_no_other_profile_is_offered_where_none_can_tell_more(store: Store, shared: Path, tmp_path: Path) -> None:
    """All counters were collected: one is dead, the GPU has none of its matrix unit, the memory's rate is not known."""
    for kind in ("flop", "instruction"):
        assert not [call for call in compute_roofline(store, "copy", kind=kind).next if call.tool == "plan_profile"]
    some = Store(tmp_path)
    import_profile(some, str(shared / "workloads38" / "ipblocks_CU__RDNA35_HALO"), name="some")
    assert [call for call in compute_roofline(some, "some").next if call.tool == "plan_profile"], "counters are missing"


def test_a_level_that_only_others_have_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    import_profile(made := Store(tmp_path), str(ROOT / "server/samples/yax_before"), name="w")
    with pytest.raises(BadArgument, match="no memory level 'gl1'.*hbm, l2, vl1d, lds"):
        compute_roofline(made, "w", levels=["gl1"])


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


@pytest.mark.parametrize("target", ["gfx1150", "gfx1151", "gfx1152"])
def test_all_metrics_take_one_pass_less_than_rocprof_compute_needs(target: str) -> None:
    found = plan(target, ["*"])
    limits = targets.gpu(target).counter_limits
    assert len(found.passes) == found.least_passes == 9
    assert all(n <= limits[block] for one in found.passes for block, n in registers(list(one)).items())
    assert found.unsupported == {}
    assert not any("DUAL_VALU" in counter for one in found.passes for counter in one), "not every release defines it"
