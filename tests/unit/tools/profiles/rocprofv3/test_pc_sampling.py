"""How rocprofv3 is told to sample: by what a target can do, what the machine lists, and how long its kernels run."""

from __future__ import annotations

import dataclasses

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool
from rooflens.tools.running.drivers.rocprofv3.command import add_sampling_methods, features_of, notes, steps
from rooflens.tools.running.drivers.rocprofv3.features import Rocprofv3Features
from rooflens.tools.running.drivers.rocprofv3.pc_sampling import ListedSamplingMethod, parse_sampling_methods
from rooflens.tools.running.request import ProfileRequest

NEW = features_of("1.1")
LISTING = """GPU:0
NAME:gfx942
configs:
   Method              :host_trap
   Unit                :time
   Min_Interval        :1
   Max_Interval        :18446744073709551615
   Flags               :none
   Method              :stochastic
   Unit                :cycle
   Min_Interval        :131072
   Max_Interval        :524288
   Flags               :interval pow2
"""
"""As AMD's "Using PC sampling" shows the output of ``rocprofv3 -L``, with other limits."""


def sampled(target: str, features: Rocprofv3Features = NEW, **given: object) -> dict[str, str]:
    """The sampling options of the step that samples, which is the last."""
    asked = dataclasses.replace(ProfileRequest(("./app",), target=target, hotspots=True), **given)  # type: ignore[arg-type]
    step = steps(asked, features, program="rocprofv3", out="run")[-1]
    assert step.name == "hotspots" and "--kernel-trace" in step.argv
    words = step.argv
    return {w.removeprefix("--pc-sampling-"): words[i + 1] for i, w in enumerate(words) if "--pc-sampling-" in w}


def interval(target: str, features: Rocprofv3Features = NEW, **given: object) -> int:
    return int(sampled(target, features, **given)["interval"])


@pytest.mark.parametrize(
    ("target", "method", "unit"),
    [("gfx90a", "host_trap", "time"), ("gfx942", "stochastic", "cycles"), ("gfx950", "stochastic", "cycles")],
)
def test_each_target_is_sampled_by_the_best_method_that_it_has(target: str, method: str, unit: str) -> None:
    found = sampled(target)
    assert (found["method"], found["unit"]) == (method, unit)


def test_a_short_program_is_sampled_more_often_within_what_the_hardware_takes() -> None:
    intervals = [interval("gfx942", busy_s=busy) for busy in (1e-6, 0.02, 0.1, 10.0, 1e6)]
    assert intervals == sorted(intervals) and intervals[0] == 65536 and intervals[-1] == 1048576
    assert all(i.bit_count() == 1 for i in intervals)
    assert [interval("gfx90a", busy_s=busy) for busy in (1e-6, 0.05, 10.0)] == [32, 250, 512]


def test_what_the_machine_lists_goes_before_our_table() -> None:
    local = add_sampling_methods(NEW, LISTING)
    assert local.sampled == (
        ListedSamplingMethod("host_trap", 1, 2**64 - 1),
        ListedSamplingMethod("stochastic", 131072, 524288),
    )
    assert interval("gfx942", local) == 524288 and interval("gfx942", local, busy_s=1e-6) == 131072
    only_trap = add_sampling_methods(NEW, LISTING[: LISTING.index("   Method              :stochastic")])
    assert sampled("gfx942", only_trap)["method"] == "host_trap"
    assert parse_sampling_methods("no GPU") == ()


def test_what_cannot_sample_says_so_and_what_else_there_is() -> None:
    with pytest.raises(BadArgument, match="gfx908 has no PC sampling") as told:
        sampled("gfx908")
    assert "--att" in told.value.fix
    with pytest.raises(MissingTool, match=r"ROCm 6\.4"):
        sampled("gfx942", features_of("6.2"))
    with pytest.raises(BadArgument, match="takes no samples"):
        steps(ProfileRequest((), target="gfx942", hotspots=True, pid=1), NEW, program="rocprofv3", out="run")


def test_samples_come_beside_counters_and_the_notes_tell_their_price() -> None:
    asked = ProfileRequest(("./app",), (("SQ_WAVES",),), target="gfx90a", hotspots=True)
    assert [s.name for s in steps(asked, NEW, program="rocprofv3", out="run")] == ["timing", "pass_1", "hotspots"]
    (told,) = (note.text for note in notes(asked, NEW) if note.code == "hotspots")
    assert "freeze" in told and "every kernel is sampled" in told and "two instructions" in told
