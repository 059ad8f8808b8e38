"""Command lines of rocprof (v1)."""

from __future__ import annotations

import dataclasses

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.tools.running.drivers.rocprof import V1
from rooflens.tools.running.request import ProfileRequest

REQUEST = ProfileRequest(
    command=("./app", "-n", "8"),
    passes=(("SQ_WAVES", "SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES_ACCUM", "TCC_HIT[*]"), ("GRBM_COUNT",)),
    target="gfx90a",
)


def test_the_accumulator_follows_its_level_and_channels_are_written_out() -> None:
    words = V1.steps(REQUEST, V1.features_of(None), program="rocprof", out="run")[1].files["pass_1.txt"].split()
    assert words[:4] == ["pmc:", "SQ_WAVES", "SQ_LEVEL_WAVES", "SQ_ACCUM_PREV_HIRES"]
    assert words[4:] == [f"TCC_HIT[{i}]" for i in range(32)]


def test_kernels_are_filtered_by_parts_of_their_names_only() -> None:
    some = dataclasses.replace(REQUEST, kernel="gemm|copy")
    assert (
        "kernel: gemm copy\n"
        in V1.steps(some, V1.features_of(None), program="rocprof", out="run")[1].files["pass_1.txt"]
    )
    with pytest.raises(BadArgument, match="not regular expressions"):
        V1.steps(dataclasses.replace(REQUEST, kernel="gemm.*"), V1.features_of(None), program="rocprof", out="run")


@pytest.mark.parametrize("argument", ["$(reboot)", "a;b", "`x`", "a  b", "*", 'say "x"', "a\nb", "it's"])
def test_arguments_that_its_shell_would_change_are_refused(argument: str) -> None:
    wanted = dataclasses.replace(REQUEST, command=("./app", argument))
    with pytest.raises(BadArgument, match="through a shell"):
        V1.steps(wanted, V1.features_of(None), program="rocprof", out="run")


def test_a_folder_with_spaces_a_launch_range_and_kernel_replay_are_refused() -> None:
    with pytest.raises(BadArgument, match="through a shell"):
        V1.steps(REQUEST, V1.features_of(None), program="rocprof", out="my runs/1 ")
    for change in ({"launches": (1, 2)}, {"replay": "kernel"}, {"command": ("-x",)}):
        with pytest.raises(BadArgument):
            V1.steps(dataclasses.replace(REQUEST, **change), V1.features_of(None), program="rocprof", out="run")  # type: ignore[arg-type]


def test_a_pass_over_the_limits_is_refused() -> None:
    many = dataclasses.replace(REQUEST, passes=(tuple(f"TCC_EVENT{i}_sum" for i in range(5)),))
    with pytest.raises(BadArgument, match="block TCC"):
        V1.steps(many, V1.features_of(None), program="rocprof", out="run")


def test_channels_of_an_unknown_device_are_told_as_left_out() -> None:
    assert V1.left_out(dataclasses.replace(REQUEST, target=""), V1.features_of(None)).keys() == {"TCC_HIT[*]"}
