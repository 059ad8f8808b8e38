"""What counting took is kept per device and version and corrects the next estimate; a lost file harms nobody."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.analysis.planning.sampling import Cost
from rooflens.analysis.store.store import Store
from rooflens.tests.tools.profiles.test_counting import Run, run  # noqa: F401  a fixture
from rooflens.tools.running.counting import FOLDER, corrected_estimate, learn
from rooflens.tools.running.drivers.ncu import command as ncu_run
from rooflens.tools.running.request import ProfileRequest
from rooflens.tools.running.run_state import ProfileRun, RunState, write

METRICS = [f"metric_{i}" for i in range(12)]
ALONE_S = 10.0
PROGRAM_S = 2.0 + 1.2 * ALONE_S
"""What the program itself takes under ncu, as is built in; 12 metrics take 0.13 s for each launch."""


def profiled(**more: Any) -> ProfileRun:
    request = ProfileRequest(replay=more.pop("replay", "kernel"), target=more.pop("target", ""))
    known = {"profiler": "ncu", "profiler_version": "2025.3", "request": request, "device_uuid": "GPU-1", **more}
    return ProfileRun(
        run_id="run-0000000000000000", name="x", timeout_s=1, **{"counters": {"pass_1": METRICS}, **known}
    )


def merged(launches: int, *names: str) -> Any:
    passes = [
        SimpleNamespace(name=n, table=SimpleNamespace(rows=launches)) for n in ("timing", *(names or ("pass_1",)))
    ]
    return SimpleNamespace(passes=passes)


def state(spent_s: float, **more: Any) -> RunState:
    return RunState(took_s={"timing": ALONE_S, "pass_1": spent_s}, **more)


def estimate(run: ProfileRun, store: Store) -> Cost:  # noqa: F811
    return corrected_estimate(store, run, ncu_run.cost(ProfileRequest((), (tuple(METRICS),), replay="kernel"), ALONE_S))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.mark.parametrize(("metrics", "seconds"), [(1, 0.01), (12, 0.13), (81, 0.37), (105, 0.44)])
def test_without_a_measurement_the_figures_of_an_h200_hold(metrics: int, seconds: float) -> None:
    asked = ProfileRequest((), (tuple(f"m{i}" for i in range(metrics)),), replay="kernel")
    found = ncu_run.cost(asked, ALONE_S)
    assert found.launch_s == pytest.approx(seconds) and found.run_s == pytest.approx(PROGRAM_S)
    assert "H200" in found.known_by
    between = [ncu_run.cost(ProfileRequest((), (tuple(map(str, range(n))),)), 0.0).launch_s for n in range(1, 150)]
    assert between == sorted(between) and between[0] > 0


def test_what_a_launch_took_here_is_the_estimate_of_the_next(store: Store) -> None:
    assert estimate(profiled(), store).launch_s == pytest.approx(0.13)
    assert learn(store, profiled(), state(PROGRAM_S + 40 * 0.05), merged(40)) == pytest.approx(0.05 / 0.13)
    found = estimate(profiled(), store)
    assert found.launch_s == pytest.approx(0.05) and found.run_s == pytest.approx(PROGRAM_S)
    assert found.known_by == "measured on this device in 1 run"
    for _ in range(2):
        learn(store, profiled(), state(PROGRAM_S + 40 * 0.26), merged(40))
    assert estimate(profiled(), store).launch_s == pytest.approx(0.26), "the median of three"


@pytest.mark.parametrize("other", [{"device_uuid": "GPU-2"}, {"profiler_version": "2026.1"}, {"replay": "application"}])
def test_another_device_version_or_replay_learns_for_itself(store: Store, other: dict[str, str]) -> None:
    learn(store, profiled(), state(PROGRAM_S + 20), merged(40))
    assert "this device" not in estimate(profiled(**other), store).known_by


@pytest.mark.parametrize(
    ("how", "launches"),
    [(state(PROGRAM_S - 3), 40), (state(PROGRAM_S + 0.5), 40), (state(PROGRAM_S + 20), 3), (state(PROGRAM_S + 1e9), 40),
     (state(PROGRAM_S + 20, cut=["timing"]), 40), (RunState(took_s={"pass_1": 50.0}), 40)],
)  # fmt: skip
def test_a_run_that_tells_too_little_is_not_kept(store: Store, how: RunState, launches: int) -> None:
    assert learn(store, profiled(), how, merged(launches)) is None
    assert not (store.root / FOLDER).exists()


def test_where_every_pass_is_a_run_the_runs_are_corrected(store: Store) -> None:
    counters = {"pass_1": ["SQ_WAVES"], "pass_2": ["GRBM_COUNT"]}
    amd = profiled(profiler="rocprofv3", replay="application", counters=counters)
    took = RunState(took_s={"timing": 10.0, "pass_1": 30.0, "pass_2": 36.0})
    assert learn(store, amd, took, merged(0, "pass_1", "pass_2")) == pytest.approx(66 / 22)
    assert corrected_estimate(store, amd, Cost(22.0, 0.001)).run_s == pytest.approx(66.0)


@pytest.mark.parametrize("text", ["", "{", '{"profiler": "ncu", "runs": [{"factor": 0}]}', '{"runs": 3}', "[" * 9000])
def test_a_damaged_file_is_as_good_as_none_and_is_replaced(store: Store, text: str) -> None:
    learn(store, profiled(), state(PROGRAM_S + 20), merged(40))
    (file,) = (store.root / FOLDER).iterdir()
    file.write_text(text)
    assert "H200" in estimate(profiled(), store).known_by
    learn(store, profiled(), state(PROGRAM_S + 20), merged(40))
    assert "this device" in estimate(profiled(), store).known_by


def test_only_the_newest_runs_are_kept_and_the_store_knows_the_folder(store: Store) -> None:
    for _ in range(20):
        learn(store, profiled(), state(PROGRAM_S + 20), merged(40))
    assert estimate(profiled(), store).known_by == "measured on this device in 9 runs"
    assert store.scan() == ([], [])


def test_a_store_that_cannot_be_written_to_keeps_nothing_and_nobody_suffers(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / FOLDER).write_text("in the way")
    assert learn(Store(tmp_path / "store"), profiled(), state(PROGRAM_S + 20), merged(40)) is None


def test_the_plan_counts_more_where_launches_were_cheap_and_says_what_it_rests_on(run: Run) -> None:  # noqa: F811
    few = run.planned(budget_s=40)
    mine = profiled(profiler_version=None, device_uuid=None, target="sm_90", out="out/step")
    write(run.store.run_folder(run.id), mine)
    learn(run.store, mine, state(PROGRAM_S + 1000 * 0.013), merged(1000))
    more = run.planned(budget_s=40)
    assert more["steps"][0]["launches"] > 3 * few["steps"][0]["launches"]
    assert "(as measured on one H200" in few["remarks"][0]
    assert "(measured on this device in 1 run)" in more["remarks"][0]
