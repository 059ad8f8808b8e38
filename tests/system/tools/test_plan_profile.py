"""plan_profile: the plan in numbers, commands that can be run as they stand, and answers of a bearable size."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool, NotFound
from rooflens.analysis.store.store import Store
from rooflens.tools.plan_profile import PlanResult, plan_profile
from rooflens.tools.rendering import render
from rooflens.tools.running.profiled_program import parse_run_metrics


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def characters(result: PlanResult) -> int:
    return len(json.dumps(render.structured_content(result)))


def test_full_detail_can_be_written_and_started_as_it_stands(store: Store, tmp_path: Path) -> None:
    command = ["./my app", "$(touch pwned)", "a;b"]
    found = plan_profile(store, "MI300X", ["overview"], command=command, kernel="gemm", detail="full")
    assert len(found.commands) == found.application_runs
    done = subprocess.run(
        ["bash", "-euc", f"ROCPROF_X=1; {found.prepare}; echo ${{ROCPROF_X:-gone}}"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "gone\n"
    texts = {name: text for name, _, text in found.files.rows}
    assert {f for c in found.commands for f in c.files} == texts.keys()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for one in found.commands:
        assert shlex.split(one.shell) == one.argv
        assert one.argv[one.argv.index("--") + 1 :] == command
        assert (tmp_path / one.argv[one.argv.index("--output-directory") + 1]).is_dir()
        if "--input" in one.argv:
            (job,) = json.loads((tmp_path / one.argv[one.argv.index("--input") + 1]).read_text())["jobs"]
            assert job["kernel_include_regex"] == "gemm"
    assert found.next[-1].tool == "import_profile"
    assert found.next[-1].arguments == {"path": "rooflens_run"}
    assert found.launchers["slurm"].startswith("srun --ntasks=RANKS rocprofv3 ")


def test_metrics_that_the_version_cannot_count_are_unsupported_with_the_reason(store: Store) -> None:
    new, old = (plan_profile(store, "gfx90a", ["occupancy.waves"], profiler_version=v) for v in ("7.0", "6.3"))
    assert new.whole == ["occupancy.waves"]
    assert old.whole == []
    assert "cannot define new counters" in old.unsupported["occupancy.waves"]


def test_max_passes_names_what_it_leaves_out(store: Store) -> None:
    found = plan_profile(store, "gfx942", ["everything"], max_passes=2)
    assert found.application_runs == 3
    assert found.left_out
    assert any("max_passes excludes" in note for note in found.notes)


@pytest.mark.parametrize(("gpu", "metrics"), [("gfx90a", None), ("MI350X", ["everything"])])
def test_a_default_answer_stays_near_two_thousand_tokens(store: Store, gpu: str, metrics: list[str] | None) -> None:
    assert characters(plan_profile(store, gpu, metrics)) < 8_000


def test_kernel_replay_is_refused_where_the_version_does_not_tell_it(store: Store) -> None:
    with pytest.raises(BadArgument, match="cannot replay kernels"):
        plan_profile(store, "gfx942", replay="kernel")


def test_a_range_becomes_filters_of_ncu_and_is_refused_where_there_are_none(store: Store) -> None:
    found = plan_profile(store, "H200", ["hbm.bw_gbs"], range="step/forward", detail="full")
    argv = found.commands[0].argv
    told = [argv[i + 1] for i, word in enumerate(argv) if word == "--nvtx-include"]
    assert told == ["step\\/forward/", "step\\/forward", "step/forward", "forward"]
    assert shlex.split(found.commands[0].shell or "") == argv
    assert any("restricted to the range" in note for note in found.notes)
    with pytest.raises(BadArgument, match="backslash"):
        plan_profile(store, "H200", range="a\\b")
    for gpu, told_why in (("MI300X", "profile_command selects by the launch numbers"), ("cpu", "no such option")):
        with pytest.raises(BadArgument, match=told_why):
            plan_profile(store, gpu, range="step")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"gpu": "gfx943"}, NotFound),
        ({"gpu": "gfx942", "profiler": "ncu"}, BadArgument),
        ({"gpu": "gfx942", "profiler": "nsys"}, NotFound),
        ({"gpu": "gfx942", "profiler_version": "6.0"}, MissingTool),
        ({"gpu": "gfx942", "profiler_version": "new"}, BadArgument),
        ({"gpu": "gfx942", "launches": [3]}, BadArgument),
        ({"gpu": "gfx942", "kernel": "("}, BadArgument),
        ({"gpu": "gfx942", "metrics": ["l2.hit_ratepct"]}, BadArgument),
        ({"gpu": "gfx942", "max_passes": 0}, BadArgument),
        ({"gpu": "gfx1030"}, BadArgument),
        ({"gpu": "gfx942", "command": []}, BadArgument),
        ({"gpu": "gfx942", "command": ["./app", "a\0b"]}, BadArgument),
    ],
)
def test_mistakes_are_told_with_what_to_do(store: Store, arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        plan_profile(store, **arguments)  # type: ignore[arg-type]


def test_attaching_is_one_command_that_names_the_process_and_what_it_takes(store: Store) -> None:
    found = plan_profile(store, "MI300X", ["l2.hit_rate_pct"], pid=4711, profiler_version="7.2", detail="full")
    (one,) = found.commands
    assert one.argv[one.argv.index("--attach") + 1] == "4711" and "--" not in one.argv
    assert any("ROCP_TOOL_ATTACH=1" in note for note in found.notes)
    assert found.launchers == {}
    with pytest.raises(MissingTool, match="cannot attach"):
        plan_profile(store, "MI300X", pid=4711, profiler_version="7.0")
    with pytest.raises(BadArgument, match="ncu --mode=launch"):
        plan_profile(store, "sm_90", pid=4711)


@pytest.mark.parametrize(
    ("gpu", "version", "command", "told"),
    [
        ("gfx942", "1.3.2", ["vllm", "serve", "model"], True),
        ("gfx942", "1.3.5", ["vllm", "serve", "model"], False),
        ("gfx942", "1.3.2", ["./app"], False),
    ],
)
def test_a_plan_names_the_defects_that_its_program_can_meet(
    store: Store, gpu: str, version: str, command: list[str], told: bool
) -> None:
    notes = plan_profile(store, gpu, profiler_version=version, command=command).notes
    assert any("issue 54087" in note and "Mended in rocprofiler-sdk 1.3.5" in note for note in notes) is told


def test_a_plan_for_a_radeon_says_which_performance_level_its_counters_need(store: Store) -> None:
    level = "echo profile_standard"
    assert any(level in note for note in plan_profile(store, "RX 9070").notes)
    assert not any(level in note for note in plan_profile(store, "RX 9070", metrics=["timeline"]).notes)
    assert not any(level in note for note in plan_profile(store, "MI300A").notes)


def test_hot_spots_are_planned_for_other_machines_with_thread_trace_in_words(store: Store) -> None:
    found = plan_profile(store, "MI300X", ["hotspots"], detail="full")
    assert [one.step for one in found.commands] == ["timing", "hotspots"] and found.passes.rows == []
    assert "--pc-sampling-method stochastic --pc-sampling-unit cycles" in str(found.commands[1].shell)
    assert any("--att --kernel-include-regex" in note for note in found.notes)
    nvidia = plan_profile(store, "H200", ["hotspots", "overview"], kernel="gemm", detail="full")
    assert [one.step for one in nvidia.commands] == ["pass_1", "hotspots"]
    assert all("--kernel-name regex:gemm" in str(one.shell) for one in nvidia.commands)
    assert not any("--att" in note for note in nvidia.notes)
    assert nvidia.next[-1].arguments == {"path": "rooflens_run"}


@pytest.mark.parametrize(("gpu", "profiler"), [("cpu", "perf"), ("gfx90a", "rocprof"), ("gfx90a", "rocprofv2")])
def test_profilers_that_cannot_sample_say_what_to_do(store: Store, gpu: str, profiler: str) -> None:
    with pytest.raises(BadArgument, match="takes no samples of instructions") as told:
        plan_profile(store, gpu, ["hotspots"], profiler=profiler)
    assert told.value.fix


def test_counters_over_time_are_planned_on_request_alone_with_their_risk(store: Store) -> None:
    (note,) = (n for n in plan_profile(store, "MI300X", ["counter_samples"], command=["./a b"]).notes if "SPM" in n)
    for part in ("--spm-beta-enabled --spm SQ_CYCLES", "-- './a b';", "may reboot", "6.19.14.31400000", "PC sampling"):
        assert part in note
    assert not any("SPM" in n for n in plan_profile(store, "MI300X", ["overview", "hotspots", "timeline"]).notes)
    with pytest.raises(MissingTool, match="does not sample counters over time"):
        plan_profile(store, "MI300X", ["counter_samples"], profiler_version="1.1.0")
    with pytest.raises(BadArgument, match="samples no counters over time"):
        plan_profile(store, "H200", ["counter_samples"])
    with pytest.raises(BadArgument, match="not collected by this tool"):
        parse_run_metrics(["overview", "counter_samples"])


def test_a_target_without_metrics_gets_its_raw_counters_by_the_vendor_s_definitions(store: Store) -> None:
    ports = ["TCC_EA_RDREQ_sum", "TCC_EA1_RDREQ_sum", "TCC_HIT_sum", "TCC_MISS_sum", "SQ_WAVES"]
    plan = plan_profile(store, "MI50", ports)
    assert sorted(plan.whole) == sorted(ports) and plan.least_passes == 1
    assert any("no metrics for gfx906" in note and "raw counters" in note for note in plan.notes)
    refused = plan_profile(store, "Radeon VII", ["SQ_LEVEL_WAVES"]).unsupported
    assert "AMD defines no such counter for gfx906" in refused["SQ_LEVEL_WAVES"]
