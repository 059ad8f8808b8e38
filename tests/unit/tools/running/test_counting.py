"""The run for times of a PyTorch training step on an H200, and what is counted after it."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.analysis.planning.plan import plan
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import DATA
from rooflens.tools.running import counting
from rooflens.tools.running.counting import plan_counting, timed_launches
from rooflens.tools.running.drivers.ncu import command as ncu_run
from rooflens.tools.running.request import ProfileRequest, Replay
from rooflens.tools.running.run_state import ProfileRun, RunState, read_record, write
from rooflens.tools.running.saving import import_timing

TIMES = DATA / "ncu" / "h200_training_step_times.csv.gz"
"""674 launches with their times, kernels under their mangled names."""
TOOK_S = 12.0
PASSES = plan("sm_90", ["diagnosis", "roofline"]).passes
IMPORTED: dict[bytes, tuple[Store, str]] = {}
"""The store and the workload of each page of times, which is read once."""


@pytest.fixture(autouse=True)
def _each_page_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    def imported(folder: Path, run: ProfileRun, state: RunState) -> tuple[Store, str]:
        if not (page := folder / run.out / "timing" / "raw.csv").exists():
            return import_timing(folder, run, state)
        if page.read_bytes() not in IMPORTED:
            kept = shutil.copytree(folder, tmp_path_factory.mktemp("timing") / "run")
            IMPORTED[page.read_bytes()] = import_timing(Path(kept), run, state)
        return IMPORTED[page.read_bytes()]

    monkeypatch.setattr(counting, "import_timing", imported)


class Run:
    """A run whose times are there."""

    def __init__(self, root: Path, own: bool = False) -> None:
        self.store, self.id = Store(root / "store"), "run-0000000000000000"
        folder = self.store.new_run(self.id)
        write(folder, ProfileRun(run_id=self.id, name="step", timeout_s=60, out="out/step"))
        write(folder, RunState())
        self.timing = folder / "out" / "step" / "timing"
        self.timing.mkdir(parents=True)
        text = gzip.decompress(TIMES.read_bytes())
        for library, name in ((b"nvjet", b"products"), (b"_ZN2at6native", b"_ZN2my6native")) if own else ():
            text = text.replace(library, name)
        (self.timing / "raw.csv").write_bytes(text)

    def launches(self) -> counting.TimedLaunches:
        folder = self.store.run_folder(self.id)
        run = read_record(folder)
        assert isinstance(run, ProfileRun)
        place, workload = counting.import_timing(folder, run, RunState())
        with Workload.open(place, workload) as timing:
            return timed_launches(timing)

    def planned(
        self,
        took_s: float = TOOK_S,
        kernel: str | None = None,
        replay: Replay = "kernel",
        timeline: bool = False,
        hotspots: bool = False,
        **asked: Any,
    ) -> dict[str, Any]:
        request = ProfileRequest(
            (), PASSES, kernel=kernel, replay=replay, target="sm_90", timeline=timeline, hotspots=hotspots
        )
        folder = self.store.run_folder(self.id)
        about = {
            "budget_s": None,
            "launches": None,
            "profiler": "ncu",
            "features": {"version": [2025, 3]},
            "metrics": ["diagnosis"],
            "profiler_path": "ncu",
        }
        write(folder, read_record(folder).model_copy(update={**about, "request": request, **asked}))
        selection = {"kernel": kernel, "range": None}
        return plan_counting(self.store, lambda *_: None, self.id, selection, took_s)  # type: ignore[arg-type]


def test_kernels_of_libraries_have_no_hot_lines_unless_they_are_named(run: Run) -> None:
    usual = run.planned(kernel="nvjet", hotspots=True, usual=True)
    assert [step["name"] for step in usual["steps"]] == ["pass_1"]
    assert "Hot lines were not collected, because the kernels that matter most belong to libraries." in usual["remarks"]
    named = run.planned(kernel="nvjet", hotspots=True, usual=False)
    assert [step["name"] for step in named["steps"]] == ["pass_1", "hotspots"]


def test_hot_lines_that_nobody_named_give_way_to_counters_that_need_the_time(tmp_path: Path) -> None:
    """They are kept for few kernels, and as an extra step whose failure leaves the counters."""
    own = Run(tmp_path / "own", own=True)
    few = own.planned(kernel="products", hotspots=True, usual=True)
    assert [(step["name"], step["extra"]) for step in few["steps"]] == [("pass_1", False), ("hotspots", True)]
    budget_s = counting._LEAST_S - TOOK_S - 2 * counting._AROUND_S
    assert sum(step["within_s"] for step in few["steps"]) == pytest.approx(budget_s)
    many = own.planned(hotspots=True, usual=True, took_s=20)
    assert [step["name"] for step in many["steps"]] == ["pass_1"]
    assert any(remark.startswith("Hot lines were not collected, because the counters") for remark in many["remarks"])
    named = own.planned(hotspots=True, usual=False, took_s=20)
    assert [(step["name"], step["extra"]) for step in named["steps"]] == [("pass_1", False), ("hotspots", False)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def option(step: dict[str, Any], name: str) -> str:
    return str(step["argv"][step["argv"].index(name) + 1])


def counted(step: dict[str, Any], launches: counting.TimedLaunches) -> tuple[set[str], int]:
    """The kernels that the step's filter lets pass, and the launches that ncu then counts."""
    pattern, each = re.compile(option(step, "--kernel-name").removeprefix("regex:")), option(step, "--launch-count")
    mine = [c for c in launches.configurations if pattern.search(c.kernel)]
    return {c.kernel for c in mine}, sum(min(int(each), c.launches) for c in mine)


def test_the_launches_are_told_apart_by_kernel_and_configuration(run: Run) -> None:
    launches = run.launches()
    assert sum(c.launches for c in launches.configurations) == 674
    assert len(launches.readable) == 43 and len(launches.configurations) > 60
    assert all(name.startswith(("_Z", "nvjet", "cudnn")) for name in launches.readable)
    assert any("reduce_kernel<128, 4" in text for text in launches.readable.values())


def share_of_time(kernels: set[str], launches: counting.TimedLaunches) -> float:
    total = sum(c.total_ns for c in launches.configurations)
    return sum(c.total_ns for c in launches.configurations if c.kernel in kernels) / total


def test_by_default_the_kernels_of_90_percent_of_the_time_are_counted(run: Run) -> None:
    answer = run.planned()
    (step,) = answer["steps"]
    assert [step["name"] for step in run.planned(timeline=True)["steps"]] == [step["name"]]
    assert step["files"] == {"pass_1/sample.json": '{"skip": 1}'} and option(step, "--launch-skip") == "1"
    launches = run.launches()
    kernels, count = counted(step, launches)
    assert share_of_time(kernels, launches) >= 0.90
    assert count == step["launches"] == step["enough"] < len(launches.configurations)
    assert step["estimate_s"] + TOOK_S < counting._LEAST_S
    assert re.search(
        rf"Counted: {count} launches, up to 1 of each of {count} launch configurations", answer["remarks"][0]
    )


def test_a_default_run_takes_three_times_the_program_and_says_what_the_rest_would_take(run: Run) -> None:
    answer = run.planned(took_s=26)
    (step,) = answer["steps"]
    launches = run.launches()
    kernels, _ = counted(step, launches)
    assert step["estimate_s"] + 26 < 3 * 26 and share_of_time(kernels, launches) < 0.90
    needed = re.search(r"90 % of the time takes budget_s=(\d+)", answer["remarks"][0])
    assert needed and int(needed[1]) > 3 * 26


def test_a_filter_lets_no_other_kernel_pass_and_few_are_counted_more_than_once(run: Run) -> None:
    launches = run.launches()
    longest = max(launches.configurations, key=lambda c: c.total_ns)
    (step,) = run.planned(kernel=f"^{re.escape(longest.kernel)}$")["steps"]
    assert int(option(step, "--launch-count")) > 1
    (step,) = run.planned(kernel="layer_norm|flash")["steps"]
    kernels, _ = counted(step, launches)
    assert kernels and all(re.search("layer_norm|flash", k) for k in kernels)
    assert option(step, "--kernel-name-base") == option(step, "--print-kernel-base") == "mangled"


def test_a_larger_budget_counts_more_and_a_number_of_launches_is_kept(run: Run) -> None:
    launches = run.launches()
    few, more = (counted(run.planned(budget_s=b)["steps"][0], launches)[1] for b in (40, 200))
    assert more > 2 * few
    (step,) = run.planned(budget_s=500, launches=2)["steps"]
    assert option(step, "--launch-count") == "2"


def test_a_budget_that_was_given_is_not_extended_and_ends_the_step(run: Run) -> None:
    (step,) = run.planned(budget_s=36)["steps"]
    assert step["estimate_s"] + TOOK_S <= 36
    assert share_of_time(counted(step, (launches := run.launches()))[0], launches) < 0.95
    assert step["within_s"] == pytest.approx(36 - TOOK_S - counting._AROUND_S)


def test_a_small_program_is_counted_whole(run: Run) -> None:
    page = (run.timing / "raw.csv").read_text().splitlines(keepends=True)
    (run.timing / "raw.csv").write_text("".join(page[:5]))
    answer = run.planned(took_s=1.0)
    (step,) = answer["steps"]
    assert counted(step, run.launches())[1] == 3
    assert answer["remarks"] == []


def test_kernels_that_wait_for_other_gpus_are_not_replayed(run: Run) -> None:
    page = (run.timing / "raw.csv").read_text()
    longest = run.launches().configurations
    name = max(longest, key=lambda c: c.total_ns).kernel
    (run.timing / "raw.csv").write_text(page.replace(name, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"))
    answer = run.planned()
    assert not any("nccl" in k for k in counted(answer["steps"][0], run.launches())[0])
    assert any("communication" in remark for remark in answer["remarks"])


def test_without_times_some_launches_of_everything_are_counted(run: Run) -> None:
    (run.timing / "raw.csv").unlink()
    answer = run.planned()
    (step,) = answer["steps"]
    assert "--kernel-name" not in step["argv"] and option(step, "--launch-count") == "5"
    assert "reported no launches" in answer["remarks"][0]


def test_a_pattern_that_fits_no_kernel_is_answered_with_the_longest_ones(run: Run) -> None:
    with pytest.raises(NotFound, match="No kernel of the program matches 'qqq") as told:
        run.planned(kernel="qqqqqqqqqqqqqqqqq")
    launches = run.launches()
    longest = max(launches.readable.values(), key=launches.time_of)
    assert told.value.why.startswith("the longest are ") and longest[:60] in told.value.why


def test_runs_of_the_whole_program_share_a_budget_that_was_given(run: Run) -> None:
    given = run.planned(replay="application", budget_s=100)
    assert given["within_s"] is not None and given["within_s"] < 100 - TOOK_S
    (step,) = given["steps"]
    assert step["within_s"] == pytest.approx(1.5 * given["within_s"]), "ended before its end it would leave nothing"
    assert run.planned(replay="application")["within_s"] is None and run.planned(budget_s=100)["within_s"] is None


def test_what_most_of_the_time_takes_is_said_where_less_of_it_is_counted(run: Run) -> None:
    said = run.planned(budget_s=25)["remarks"][0]
    least = int(re.search(r"90 % of the time takes budget_s=(\d+)", said)[1])  # type: ignore[index]
    enough = run.planned(budget_s=least)["remarks"][0]
    assert "takes budget_s" not in enough and float(re.search(r"make up ([\d.]+) %", enough)[1]) >= 90  # type: ignore[index]


ALONE_S = 10.0


@pytest.mark.parametrize(("metrics", "seconds"), [(1, 0.01), (12, 0.13), (81, 0.37), (105, 0.44)])
def test_the_estimate_of_a_launch_is_what_an_h200_took(metrics: int, seconds: float) -> None:
    asked = ProfileRequest((), (tuple(f"m{i}" for i in range(metrics)),), replay="kernel")
    found = ncu_run.cost(asked, ALONE_S)
    assert found.launch_s == pytest.approx(seconds) and found.run_s == pytest.approx(2.0 + 1.2 * ALONE_S)
    assert "H200" in found.known_by
    between = [ncu_run.cost(ProfileRequest((), (tuple(map(str, range(n))),)), 0.0).launch_s for n in range(1, 150)]
    assert between == sorted(between) and between[0] > 0
