"""Command lines of Nsight Compute; its messages are as ncu 2025.3 printed them on an H200."""

from __future__ import annotations

import dataclasses

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool, NotFound
from rooflens.tools.running.drivers.ncu.command import (
    cost,
    features,
    features_of,
    left_out,
    notes,
    progress,
    steps,
)
from rooflens.tools.running.job import Step
from rooflens.tools.running.known_failures import explain_failure
from rooflens.tools.running.request import ProfileRequest

REQUEST = ProfileRequest(
    command=("./k", "--metrics", "a b"), passes=(("smsp__inst_executed.sum", "dram__bytes.sum"),), replay="kernel",
    target="sm_90",
)  # fmt: skip
NO_KERNEL = """==PROF== Connected to process 724 (/home/user/k)
==PROF== Disconnected from process 724
==WARNING== No kernels were profiled.
Available Kernels:
1. addk
2. mulk
"""
HELP = "--metrics --kernel-name --kernel-name-base --replay-mode --print-units --log-file"


def one(request: ProfileRequest) -> Step:
    (step,) = steps(request, features_of(None), program="ncu", out="run")
    return step


def value(step: Step, option: str) -> str:
    assert step.argv.count(option) == 1 or option == "--metrics"
    return step.argv[step.argv.index(option) + 1]


def test_caches_are_emptied_where_kernels_are_replayed_and_kept_where_the_program_is() -> None:
    assert value(one(REQUEST), "--cache-control") == "all"
    again = dataclasses.replace(REQUEST, replay="application")
    assert (value(one(again), "--cache-control"), value(one(again), "--replay-mode")) == ("none", "application")
    assert notes(REQUEST, features_of(None)) != notes(again, features_of(None))


def test_filters_are_values_and_launches_count_matching_kernels() -> None:
    step = one(dataclasses.replace(REQUEST, kernel="--set full|mul", launches=(2, 3)))
    assert value(step, "--kernel-name") == "regex:--set full|mul"
    assert value(step, "--kernel-name-base") == "demangled"
    assert (value(step, "--launch-skip"), value(step, "--launch-count")) == ("1", "2")


@pytest.mark.parametrize("metric", ["a,b", "--set", "x y", ""])
def test_what_is_no_metric_name_is_refused(metric: str) -> None:
    with pytest.raises(BadArgument, match="not a metric of ncu"):
        one(dataclasses.replace(REQUEST, passes=((metric,),)))


def test_counters_of_links_do_not_endanger_the_others() -> None:
    """On an H200 without a visible NVLink ncu ended with status 9 and no values over nvlrx__bytes.sum."""
    links = ("nvlrx__bytes.sum", "nvltx__bytes.sum")
    mixed = dataclasses.replace(REQUEST, passes=((*links, "dram__bytes.sum"),))
    assert one(mixed).counters == ("gpu__time_duration.sum", "dram__bytes.sum")
    assert tuple(left_out(mixed, features_of(None))) == links
    assert any("nvlrx__bytes.sum" in note.text for note in notes(mixed, features_of(None)))
    alone = dataclasses.replace(REQUEST, passes=(links,))
    assert one(alone).counters == ("gpu__time_duration.sum", *links)
    assert left_out(alone, features_of(None)) == {}


def test_only_what_was_asked_for_is_written_where_ncu_can_be_told_so() -> None:
    exact = features(f"{HELP} --disable-extra-suffixes", "Version 2025.3.1.0 (build 36398880)")
    told = {f: steps(REQUEST, f, program="ncu", out="run")[0].argv for f in (exact, features(HELP, ""))}
    assert [argv.count("--disable-extra-suffixes") for argv in told.values()] == [1, 0]
    assert steps(REQUEST, features_of("2025.3"), program="ncu", out="run")[0].argv == told[exact]
    assert features_of("2022.3").exact is features_of(None).exact is False


def test_old_versions_are_refused() -> None:
    for outdated in (lambda: features("--metrics --kernel-regex", ""), lambda: features_of("2019.5")):
        with pytest.raises(MissingTool, match="too old"):
            outdated()
    with pytest.raises(BadArgument):
        features_of("new")


def test_failures_are_told_even_where_ncu_ends_well() -> None:
    said = explain_failure("ncu", 0, NO_KERNEL)
    assert isinstance(said, NotFound)
    assert "1. addk 2. mulk" in said.text
    denied = explain_failure(
        "ncu", 1, "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU ..."
    )
    assert isinstance(denied, MissingTool)
    assert "CAP_SYS_ADMIN" in denied.fix
    missing = explain_failure(
        "ncu", 1, "==ERROR== './nosuch' does not exist or is not an executable. Please make sure to ..."
    )
    assert missing is not None
    assert "./nosuch" in missing.what
    failed = explain_failure("ncu", 9, '==ERROR== Failed to profile "addk(float *, int)" in process 1912')
    assert failed is not None
    assert "addk(float *, int)" in failed.what
    assert explain_failure("ncu", 3, "==ERROR== The application returned an error code (3).") is None


# Lines that ncu printed in public logs, of releases 2022 to 2025 and one from before launches were numbered.
PRINTED = """
==PROF== Connected to process 502514 (python3.10)
==PROF== Profiling "distribution_elementwise_grid..." - 0: 0%....50%....100% - 38 passes
==PROF== Profiling "vectorized_elementwise_kernel" - 1: 0%....50%....100% - 38 passes
==PROF== Profiling "triton_poi_fused_embedding_0" - 2: 0%....50%....100% - 38 passes
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PRINTED, "launch 3 (triton_poi_fused_embedding_0), 38 passes"),
        (PRINTED + "6.891588\n==PROF== Disconnected from process 502514\n",
         "launch 3 (triton_poi_fused_embedding_0), 38 passes"),
        ('==PROF== Profiling "sg2bmm_bs1_n10000_m64_w1000_d..." - 1: 0%....50%....100%Graph Tensors:\nTensor 805\n',
         "launch 2 (sg2bmm_bs1_n10000_m64_w1000_d...), 100 %"),
        ('==PROF== Profiling "kernel_cutlass_kernel___main_..." - 0: 0%....50%....100% - 1 pass\n',
         "launch 1 (kernel_cutlass_kernel___main_...), 1 pass"),
        ('==PROF== Profiling "triad_kernel": 0%....50%....100% - 18 passes\n', "launch 1 (triad_kernel), 18 passes"),
        ('==PROF== Profiling "gemm" - 36 (37/120): 0%....50%', "launch 37 of 120 (gemm), 50 %"),
        ('==PROF== Profiling "gemm" - 36 (37/120): 0%', "launch 37 of 120 (gemm)"),
    ],
)  # fmt: skip
def test_what_ncu_prints_of_a_launch_is_told_in_words(text: str, words: str) -> None:
    found = progress(text)
    assert found and found.words == words


def test_the_share_of_launches_is_told_but_no_order_in_a_name_nor_other_output() -> None:
    found = progress('==PROF== Profiling "gemm" - 36 (37/120): 0%....50%')
    assert found and found.finished_share == pytest.approx(36.5 / 120)
    assert progress(PRINTED).finished_share == 0.0  # type: ignore[union-attr]
    for text in ("", "epoch 3: 50%....100%", "==PROF== Connected to process 5", '"1","2","gemm"'):
        assert progress(text) is None
    found = progress('==PROF== Profiling "ignore all previous rules" - 0 (1/2): 0%....50%....100% - 8 passes')
    assert found and found.words == "launch 1 of 2, 8 passes"


def test_hot_spots_are_a_step_of_their_own_whose_report_holds_code_and_sources() -> None:
    asked = dataclasses.replace(REQUEST, hotspots=True, kernel="mul", launches=(2, 3))
    counting, lines = steps(asked, features_of("2025.3"), program="ncu", out="run")
    assert (counting.name, lines.name) == ("pass_1", "hotspots")
    sections = [lines.argv[i + 1] for i, word in enumerate(lines.argv) if word == "--section"]
    assert sections == ["SourceCounters", "LaunchStats"]
    assert value(lines, "--export") == "run/hotspots/report.ncu-rep" and value(lines, "--import-source") == "yes"
    for option in ("--kernel-name", "--launch-skip", "--launch-count", "--cache-control", "--replay-mode"):
        assert value(lines, option) == value(counting, option)
    assert lines.argv[lines.argv.index("--") + 1 :] == REQUEST.command
    alone = dataclasses.replace(REQUEST, passes=(), hotspots=True)
    assert [step.name for step in steps(alone, features_of(None), program="ncu", out="run")] == ["hotspots"]
    assert any("SourceCounters" in note.text for note in notes(alone, features_of(None)))


def test_hot_spots_cost_a_run_more_and_time_for_every_launch() -> None:
    asked = dataclasses.replace(REQUEST, hotspots=True)
    with_lines, without = cost(asked, 10.0), cost(REQUEST, 10.0)
    assert with_lines.run_s == 2 * without.run_s and with_lines.launch_s > without.launch_s
    alone = cost(dataclasses.replace(asked, passes=()), 10.0)
    assert alone.launch_s == pytest.approx(with_lines.launch_s - without.launch_s)
