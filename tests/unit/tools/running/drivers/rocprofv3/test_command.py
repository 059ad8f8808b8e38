"""Command lines of rocprofv3, held against what each version accepts and what its files must lead to."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool
from rooflens.tests.standins.options import VERSIONS as RELEASES
from rooflens.tests.standins.options import parser
from rooflens.tools.running.drivers.rocprofv3.command import (
    features,
    features_of,
    left_out,
    notes,
    progress,
    steps,
)
from rooflens.tools.running.drivers.rocprofv3.features import Rocprofv3Features
from rooflens.tools.running.job import Step
from rooflens.tools.running.request import LaunchSample, ProfileRequest

COMMAND = ("./app", "--size", "8", "--", "a b", "$(x)")
REPLAYER = Rocprofv3Features(
    "1.4", ("csv", "rocpd"), "list", True, ("--replay-mode", "kernel", "--kernel-replay-beta-enabled", "true"), True
)


def request(**given: object) -> ProfileRequest:
    base = ProfileRequest(
        command=COMMAND,
        passes=(("GRBM_GUI_ACTIVE", "SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES_ACCUM", "TCC_HIT_sum"), ("SQ_WAVES",)),
        target="gfx90a",
    )
    return dataclasses.replace(base, **given)  # type: ignore[arg-type]


def own_arguments(step: Step) -> list[str]:
    """The profiler's part, which ends at the first ``--``; what follows must be the command untouched."""
    at = step.argv.index("--")
    assert step.argv[at + 1 :] == COMMAND
    return list(step.argv[1:at])


def options(step: Step) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in own_arguments(step):
        if word.startswith("-"):
            assert word not in found, f"{word} is stated twice"
            found[word] = []
        else:
            found[list(found)[-1]].append(word)
    return found


WAYS: dict[str, dict[str, object]] = {
    "counters": {},
    "turns": {"replay": "iteration"},
    "kernel replay": {"replay": "kernel"},
    "timeline": {"passes": (), "timeline": True},
    "samples": {"passes": (), "hotspots": True},
    "attached, counters": {"command": (), "pid": 4711},
    "attached, timeline": {"command": (), "passes": (), "pid": 4711, "timeline": True},
    "attached, samples": {"command": (), "passes": (), "pid": 4711, "hotspots": True, "timeline": True},
}
REFUSED = {  # way -> the versions that cannot do it
    "turns": {"0.4.0", "0.5.0", "0.6.0"},
    "kernel replay": {"0.4.0", "0.5.0", "0.6.0", "1.0.0", "1.3.2", "1.3.5"},
    "samples": {"0.4.0", "0.5.0"},
    **{way: {"0.4.0", "0.5.0", "0.6.0", "1.0.0"} for way in WAYS if way.startswith("attached")},
}


@pytest.mark.parametrize("by", ["number", "release", "help"])
@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("way", WAYS)
def test_the_parser_of_each_version_accepts_every_command_line_for_it(
    way: str, version: str, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    number = tuple(int(part) for part in version.split("."))
    own = parser(number)  # type: ignore[arg-type]
    if by == "help":
        known = features(own.format_help(), f"version: {version}")
    else:
        known = features_of(version if by == "number" else RELEASES[version].rsplit(".", 1)[0])
    wanted = request(target="gfx942", **WAYS[way])
    if version in REFUSED.get(way, ()) and not (way == "samples" and known.pc_sampling):
        with pytest.raises((BadArgument, MissingTool)):
            steps(wanted, known, program="rocprofv3", out="run")
        return
    for step in steps(wanted, known, program="rocprofv3", out="run"):
        words = list(step.argv[1:])
        given = own.parse_args(words[: words.index("--")] if "--" in words else words)
        (job,) = json.loads(step.files.get(f"{step.name}.json", '{"jobs": [{}]}'))["jobs"]
        assert not {"--" + key.replace("_", "-") for key in job} & set(words), "set in two places"
        events = [given.kfd_trace, given.hip_graph_trace] if number >= (1, 3, 5) else []
        assert all(events) is (step.name in ("timing", "hotspots") and "timeline" in str(WAYS[way])) or not events
        assert bool(getattr(given, "replay_mode", None)) is (way == "kernel replay" and step.name == "pass_1")
    assert capsys.readouterr().err == ""


def test_a_process_that_is_attached_to_is_either_counted_or_sampled() -> None:
    with pytest.raises(BadArgument, match="only once"):
        steps(request(target="gfx942", pid=1, hotspots=True), features_of("1.4.1"), program="rocprofv3", out="run")
    with pytest.raises(BadArgument, match=r"1\.3\.0 \(ROCm 7\.13\)"):
        asked = request(target="gfx942", passes=(), pid=1, hotspots=True)
        steps(asked, features_of("7.2"), program="rocprofv3", out="run")


def test_notes_say_what_replay_costs_and_what_the_driver_traces() -> None:
    def codes(version: str, **given: object) -> dict[str, str]:
        return {note.code: note.text for note in notes(request(target="gfx942", **given), features_of(version))}

    assert "replayed" in codes("1.4.1", replay="kernel") and "replayed" not in codes("1.4.1")
    assert "driver_events" in codes("1.3.2", timeline=True) and "driver_events" not in codes("1.1", timeline=True)
    assert "same container" in codes("1.3.2", pid=1)["attached"]
    assert "in a container of another ROCm release" in codes("1.3.5", pid=1)["attached"]


def test_filters_travel_as_values_of_the_job() -> None:
    made = steps(request(kernel=r"^gemm<\w+>$", launches=(2, 5)), features_of("1.0"), program="rocprofv3", out="o")
    (job,) = json.loads(made[1].files["pass_1.json"])["jobs"]
    assert job["kernel_include_regex"] == r"^gemm<\w+>$"
    assert job["kernel_iteration_range"] == "[2-5]"
    assert not made[0].files, "the trace shows every kernel"


def test_the_old_schema_of_definitions_is_a_map_of_names() -> None:
    text = steps(request(), features_of("0.6"), program="rocprofv3", out="o")[1].files["pass_1.yaml"]
    assert text.startswith("SQ_LEVEL_WAVES_ACCUM:\n  architectures:\n    gfx90a:\n      expression: reduce(accumulate(")
    assert "counters-schema-version" not in text


@pytest.mark.parametrize("version", ["0.4", "0.7"])
def test_where_counters_cannot_be_defined_they_are_left_out_and_told(version: str) -> None:
    step = steps(request(), features_of(version), program="rocprofv3", out="o")[1]
    assert "--extra-counters" not in step.argv
    (job,) = json.loads(step.files["pass_1.json"])["jobs"]
    assert job["pmc"] == ["GRBM_GUI_ACTIVE", "TCC_HIT_sum"]
    assert step.counters == ("GRBM_GUI_ACTIVE", "TCC_HIT_sum")
    assert any("SQ_LEVEL_WAVES_ACCUM" in note.text for note in notes(request(), features_of(version)))


def test_counters_that_rocprofv3_does_not_define_never_reach_it() -> None:
    wanted = ProfileRequest(command=COMMAND, passes=(("TCP_TCP_LATENCY_sum", "SQ_WAVES"), ("SQ_INSTS_FLAT_LDS_ONLY",)),
                     target="gfx942")  # fmt: skip
    made = steps(wanted, features_of(None), program="rocprofv3", out="o")
    assert [s.name for s in made] == ["timing", "pass_1"], "a pass with nothing left is not run"
    assert made[1].counters == ("SQ_WAVES",)
    assert left_out(wanted, features_of(None)).keys() == {"TCP_TCP_LATENCY_sum", "SQ_INSTS_FLAT_LDS_ONLY"}
    told = {"SQ_LEVEL_WAVES_ACCUM": "rocprofv3 integrates no level counters on MI100"}
    assert left_out(request(target="gfx908"), features_of(None)) == told


def test_channels_of_a_known_device_are_selected_one_by_one() -> None:
    wanted = request(target="gfx942", passes=(("TCC_HIT[*]",),), facts={"num_xcd": 2, "total_l2_chan": 32})
    step = steps(wanted, features_of("1.0"), program="rocprofv3", out="o")[1]
    (job,) = json.loads(step.files["pass_1.json"])["jobs"]
    assert job["pmc"] == [f"TCC_HIT[{i}]" for i in range(32)]
    defined = dict(re.findall(r"name: '([^']+)'.*expression: '([^']+)'", step.files["pass_1.yaml"]))
    assert defined["TCC_HIT[17]"] == "select(TCC_HIT,[DIMENSION_XCC=[1],DIMENSION_INSTANCE=[1]])"
    assert step.counters == ("TCC_HIT[*]",), "and with an unknown number of XCDs they are left out"
    wanted = request(target="gfx942", passes=(("TCC_HIT[*]", "TCC_HIT_sum"),))
    assert "XCDs" in left_out(wanted, features_of(None))["TCC_HIT[*]"]
    assert left_out(dataclasses.replace(wanted, target="gfx90a"), features_of(None)) == {}


def test_kernel_replay_is_one_run_of_all_passes_where_the_program_has_it() -> None:
    wanted = request(replay="kernel", passes=(("SQ_WAVES", "GRBM_COUNT"), ("SQ_WAVES", "SQ_BUSY_CYCLES")))
    made = steps(wanted, REPLAYER, program="rocprofv3", out="o")
    assert [s.name for s in made] == ["timing", "pass_1"]
    assert options(made[1])["--replay-mode"] == ["kernel"]
    assert options(made[1])["--kernel-replay-beta-enabled"] == ["true"]
    (job,) = json.loads(made[1].files["pass_1.json"])["jobs"]
    assert job["pmc_groups"] == [["SQ_WAVES", "GRBM_COUNT"], ["SQ_BUSY_CYCLES"]], "each counter once"
    with pytest.raises(BadArgument, match="cannot replay kernels"):
        steps(wanted, features_of(None), program="rocprofv3", out="o")


@pytest.mark.parametrize(("passes", "turns"), [(1, 1), (4, 5), (14, 17)])
def test_passes_take_turns_in_one_run_and_no_loop_of_another_length_starves_a_kernel(passes: int, turns: int) -> None:
    names = [
        "SQ_INSTS", "SQ_BUSY_CYCLES", "SQ_INSTS_VALU", "SQ_INSTS_LDS", "SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_WAIT_ANY",
        "GRBM_COUNT", "SQ_CYCLES", "SQ_INSTS_GDS", "SQ_INSTS_BRANCH", "SQ_INSTS_SENDMSG", "SQ_INSTS_VMEM_RD",
        "SQ_INSTS_FLAT",
    ]  # fmt: skip
    wanted = request(replay="iteration", passes=tuple((name, "SQ_WAVES") for name in names[:passes]))
    made = steps(wanted, features_of("1.0"), program="rocprofv3", out="o")
    assert [s.name for s in made] == ["timing", "pass_0"]
    (job,) = json.loads(made[1].files["pass_0.json"])["jobs"]
    assert job["pmc_group_interval"] == 1 and "pmc" not in job
    groups = job["pmc_groups"]
    assert len(groups) == turns and all("SQ_WAVES" in group for group in groups), "ratios stay within one launch"
    for loop in range(1, 10):
        if loop % turns:
            met = [{tuple(groups[(i * loop + k) % turns]) for i in range(turns)} for k in range(loop)]
            assert all(len(seen) == passes for seen in met), "every kernel of the loop meets every group"


SAMPLE = LaunchSample(("gemm<4>(float*)", "copy"), 1, 2, {"gemm<4>(float*)": (2, 3, 9), "copy": (3, 4)})


def test_a_sample_restricts_every_pass_and_leaves_the_times_whole() -> None:
    wanted = request(sample=SAMPLE, kernel="gemm|copy", launches=(1, 100))
    timing, *passes = steps(wanted, features_of("0.4"), program="rocprofv3", out="o")
    assert not timing.files
    for step in passes:
        (job,) = json.loads(step.files[f"{step.name}.json"])["jobs"]
        assert job["kernel_include_regex"] == r"^gemm<4>\(float\*\)$|^copy$"
        assert job["kernel_iteration_range"] == "[2-4,9]"
        assert json.loads(step.files[f"{step.name}/sample.json"]) == {"skip": None}
    (told,) = [note.text for note in notes(wanted, features_of(None)) if note.code == "sample"]
    assert "2 kernels counted, 5 launches of them in each pass and at most 3 more" in told


@pytest.mark.parametrize(("replay", "features"), [("iteration", features_of("1.0")), ("kernel", REPLAYER)])
def test_turns_and_replays_are_not_restricted_to_single_launches(replay: str, features: Rocprofv3Features) -> None:
    """Turns need many launches; and a replay would count as a launch."""
    for given in ({"sample": SAMPLE}, {"launches": (2, 5)}):
        wanted = request(replay=replay, **given)
        step = steps(wanted, features, program="rocprofv3", out="o")[1]
        (job,) = json.loads(step.files[f"{step.name}.json"])["jobs"]
        ranged = "kernel_iteration_range" in job
        assert ranged == (replay == "iteration" and "launches" in given)
    told = [note.text for note in notes(request(replay=replay, sample=SAMPLE), features) if note.code == "sample"]
    assert len(told) == 1 and "all launches of each" in told[0]


def test_a_running_process_is_attached_to_once_with_all_counters_in_turns() -> None:
    wanted = request(pid=4711, attached_s=2.5, kernel="gemm")
    (step,) = steps(wanted, features_of("7.1"), program="rocprofv3", out="/runs/1")
    assert step.name == "pass_0" and "--" not in step.argv and COMMAND[0] not in step.argv
    argv = list(step.argv)
    assert argv[argv.index("--attach") + 1] == "4711"
    assert argv[argv.index("--attach-duration-msec") + 1] == "2500"
    assert "--attach-sync-output" not in argv
    (job,) = json.loads(step.files["pass_0.json"])["jobs"]
    assert len(job["pmc_groups"]) == 3 and job["kernel_include_regex"] == "gemm"
    (newest,) = steps(wanted, features_of(None), program="rocprofv3", out="o")
    assert "--attach-sync-output" in newest.argv
    codes = [note.code for note in notes(wanted, features_of(None))]
    assert codes == ["attached", "serialised", "turns"]


def test_a_version_that_cannot_attach_says_so() -> None:
    with pytest.raises(MissingTool, match=r"rocprofv3 1.0 cannot attach.*ROCm 7.1"):
        steps(request(pid=1), features_of("7.0"), program="rocprofv3", out="o")
    for wrong in (request(pid=0), request(pid=1, attached_s=0.0)):
        with pytest.raises(BadArgument, match="cannot be attached to"):
            steps(wrong, features_of(None), program="rocprofv3", out="o")


def test_progress_is_what_rocprofv3_prints_and_it_prints_nothing_of_kernels() -> None:
    start = "W20260701 09:00:00.000001 4711 simple_timer.cpp:55] [rocprofv3] tool initialization :: 0.007193 sec\n"
    middle = "my program is at step 12\n"
    end = (
        "W20260701 09:00:09.000001 4711 simple_timer.cpp:55] [rocprofv3] './app' :: 9.1 sec\n"
        "E20260701 09:00:09.000002 4711 output_stream.cpp:111] Opened result file: /o/node01_1_kernel_trace.csv\n"
        "E20260701 09:00:09.000003 4711 generateRocpd.cpp:600] Opened result file: /o/node01_1_results.db (UUID=00ff)\n"
    )
    assert progress("") is None and progress(middle) is None
    assert [found.words for text in (start + middle, start * 4) if (found := progress(text))] == [
        "the program is running"
    ] * 2
    ended = progress(middle + end)
    assert ended is not None and ended.words == "the program ended, writing results" and ended.finished_share == 0


def test_a_pass_over_the_limits_is_refused_before_it_could_hang() -> None:
    nine = tuple(f"SQ_INSTS_{i}" for i in range(9))
    with pytest.raises(BadArgument, match="Pass 1 takes 9 counters of block SQ"):
        steps(request(passes=(nine,)), features_of(None), program="rocprofv3", out="o")
    two = ("SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES_ACCUM", "SQ_IFETCH_LEVEL", "SQ_IFETCH_LEVEL_ACCUM")
    with pytest.raises(BadArgument, match="one accumulator"):
        steps(request(passes=(two,)), features_of(None), program="rocprofv3", out="o")
