"""A doubt about a counter or time reaches the figures built on it and no others, in old manifests too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflens.analysis.base.notes import Note
from rooflens.analysis.engine.evaluation import Figure, FigureRequest, figures
from rooflens.analysis.store.doubts import DURATION, EVERY_COUNTER, Doubt, Doubts
from rooflens.analysis.store.manifest import manifest_doubts
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import launches, workload
from rooflens.tests.support.rooflines import points, publish, scene

BUSY = {"GRBM_GUI_ACTIVE": 10_000.0, "SQ_ACTIVE_INST_VALU": 4_000.0, "SQ_WAVES": 64.0, "SQ_INSTS_SALU": 640.0}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("doubts"))


def evaluated(store: Store, doubts: list[Doubt], kernel: str | None = None) -> dict[str, Figure]:
    """Figures of two kernels with these doubts about their profile."""
    rows = [*launches("short", [1000.0], **BUSY), *launches("long", [9000.0], **BUSY)]
    made = workload(store, rows, doubts=doubts)
    wanted = ["valu.utilization_pct", "salu.instructions", "dispatch.duration_ns"]
    return {f.name: f for f in figures(Workload(store, made), wanted, FigureRequest(kernel))}


def test_only_what_reads_a_doubted_counter_is_suspect_and_says_why(store: Store) -> None:
    found = evaluated(store, [Doubt("clock", "GRBM_GUI_ACTIVE is too high", ("GRBM_GUI_ACTIVE",))])
    assert {name: f.status for name, f in found.items()} == {
        "valu.utilization_pct": "suspect", "salu.instructions": "ok", "dispatch.duration_ns": "ok",
    }  # fmt: skip
    reason = found["valu.utilization_pct"].reason
    assert reason is not None and (reason.code, reason.text) == ("doubted", "GRBM_GUI_ACTIVE is too high")


def test_a_doubted_time_leaves_counts_alone(store: Store) -> None:
    found = evaluated(store, [Doubt("clock", "times are wrong", times=True)])
    assert found["dispatch.duration_ns"].status == "suspect" and found["salu.instructions"].status == "ok"
    assert found["valu.utilization_pct"].status == "ok"


def test_every_counter_can_be_doubted_and_the_time_not(store: Store) -> None:
    found = evaluated(store, [Doubt("all_zero", "nothing was counted", (EVERY_COUNTER,))])
    assert found["salu.instructions"].status == "suspect" and found["dispatch.duration_ns"].status == "ok"


def test_a_doubt_concerns_the_kernels_it_was_seen_in_and_sums_over_them(store: Store) -> None:
    doubt = Doubt("clock", "too high", ("GRBM_GUI_ACTIVE",), kernels=("short",))
    assert evaluated(store, [doubt], "long")["valu.utilization_pct"].status == "ok"
    assert evaluated(store, [doubt], "short")["valu.utilization_pct"].status == "suspect"
    assert evaluated(store, [doubt])["valu.utilization_pct"].status == "suspect"
    assert doubt.seen_in(["short [65536/256 40r]"]) and not doubt.seen_in(["shorter"])


def test_replays_of_other_times_doubt_what_joins_them() -> None:
    passes = {"first": frozenset({"A", "B"}), "second": frozenset({"C", "D"})}
    known = Doubts([Doubt("replay_spread", "combines replays", across=True)], passes)
    for reads, joined in (
        ({"A", "B"}, False), ({"A", "C"}, True), ({"C", "D"}, False), ({"A", DURATION}, False), ({"C", DURATION}, True),
        ({"vgpr"}, False),
    ):  # fmt: skip
        assert bool(known.about(frozenset(reads), ["k"])) == joined, reads


def test_an_old_manifest_doubts_by_the_codes_of_its_warnings(store: Store) -> None:
    rows = launches("k", [1000.0], **BUSY)
    made = workload(store, rows, warnings=[Note("clock", "any words"), Note("recorded", "clock: other words")])
    data = json.loads(made.model_dump_json())
    del data["doubts"]
    old = Manifest.model_validate(data)
    assert old.doubts is None
    (doubt,) = manifest_doubts(old)
    assert doubt.counters == ("GRBM_GUI_ACTIVE",) and not doubt.times
    (figure,) = figures(Workload(store, old), ["valu.utilization_pct"])
    assert figure.status == "suspect" and "Import the profile again" in str(figure.reason)


def test_a_new_manifest_without_doubts_has_none_whatever_its_warnings_say(store: Store) -> None:
    assert manifest_doubts(workload(store, launches("k", [1.0]), warnings=[Note("clock", "x")], doubts=[])) == []


def test_points_and_pipes_of_a_roofline_are_suspect_by_what_they_are_made_of(tmp_path: Path) -> None:
    store = Store(tmp_path)
    row = {"kernel": "k", "duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": 1e5, "TCC_EA_RDREQ_sum": 1e4,
           "TCP_TOTAL_CACHE_ACCESSES_sum": 1e4, "GRBM_GUI_ACTIVE": 1e4}  # fmt: skip
    made = publish(store, [row], doubts=[Doubt("dead_counter", "did not count", ("TCP_TOTAL_CACHE_ACCESSES_sum",))])
    found = points(scene(store, made))
    assert found["k", "vl1d", "flop"].status == "suspect" and "did not count" in str(found["k", "vl1d", "flop"].reason)
    assert "did not count" not in str(found["k", "hbm", "flop"].reason)
