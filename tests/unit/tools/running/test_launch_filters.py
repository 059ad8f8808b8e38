"""Kernel filters and launch ranges, refused before a profiler could stumble over them."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.tools.running.request import ProfileRequest, checked_pattern, launch_range


@pytest.mark.parametrize("pattern", ["gemm", r"^void mul<\w+>\(", "a|b", "(?:x|y)+?", "(?=x)", "-k"])
def test_expressions_that_every_profiler_reads_alike_pass_unchanged(pattern: str) -> None:
    assert checked_pattern(ProfileRequest(("a",), kernel=pattern), "rocprofv3") == pattern


@pytest.mark.parametrize("pattern", ["(", "*x", "(?i)x", "(?P<n>x)", "(?<=x)y", r"\Ax", "x++", "", "a\nb", "x" * 1001])
def test_expressions_that_would_abort_the_profiler_are_refused(pattern: str) -> None:
    with pytest.raises(BadArgument):
        checked_pattern(ProfileRequest(("a",), kernel=pattern), "rocprofv3")


@pytest.mark.parametrize("launches", [[0, 1], [3, 2], [1, 2**31], [], [4]])
def test_launch_ranges_count_from_one_and_do_not_run_backwards(launches: list[int]) -> None:
    with pytest.raises(BadArgument, match="is not a valid range"):
        launch_range(launches)
    assert launch_range([2, 2]) == (2, 2) and launch_range(5) is launch_range(None) is None
