"""Command lines of rocprofv2, and the folder that its runs leave."""

from __future__ import annotations

import dataclasses

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.tools.running.drivers.rocprof import V2
from rooflens.tools.running.request import ProfileRequest

REQUEST = ProfileRequest(command=("./app", "a b"), passes=(("SQ_WAVES",), ("TCC_HIT[*]",)), target="gfx942",
                  facts={"num_xcd": 8.0, "total_l2_chan": 128.0})  # fmt: skip


def test_times_come_from_a_kernel_trace_and_counters_from_input_files() -> None:
    timing, first, second = V2.steps(REQUEST, V2.features_of(None), program="rocprofv2", out="run")
    assert timing.argv == ("rocprofv2", "--kernel-trace", "-d", "run/timing", "./app", "a b")
    assert first.argv == ("rocprofv2", "-i", "run/pass_1.txt", "-d", "run/pass_1", "./app", "a b")
    assert second.files["pass_2.txt"].split() == ["pmc:", *(f"TCC_HIT[{i}]" for i in range(16))], "of one XCD"
    assert second.env == {"ROCPROFILER_INDIVIDUAL_XCC_MODE": "1"}


def test_a_folder_that_its_script_would_split_is_refused() -> None:
    with pytest.raises(BadArgument, match="splits paths"):
        V2.steps(REQUEST, V2.features_of(None), program="rocprofv2", out="my run")
    with pytest.raises(BadArgument, match="option"):
        V2.steps(dataclasses.replace(REQUEST, command=("-v",)), V2.features_of(None), program="rocprofv2", out="run")
