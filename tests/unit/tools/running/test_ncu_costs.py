"""What counting a launch under ncu takes: the figures of an H200 by the number of metrics."""

from __future__ import annotations

import pytest

from rooflens.tools.running.drivers.ncu import command as ncu_run
from rooflens.tools.running.request import ProfileRequest

ALONE_S = 10.0


@pytest.mark.parametrize(("metrics", "seconds"), [(1, 0.01), (12, 0.13), (81, 0.37), (105, 0.44)])
def test_the_estimate_of_a_launch_is_what_an_h200_took(metrics: int, seconds: float) -> None:
    asked = ProfileRequest((), (tuple(f"m{i}" for i in range(metrics)),), replay="kernel")
    found = ncu_run.cost(asked, ALONE_S)
    assert found.launch_s == pytest.approx(seconds) and found.run_s == pytest.approx(2.0 + 1.2 * ALONE_S)
    assert "H200" in found.known_by
    between = [ncu_run.cost(ProfileRequest((), (tuple(map(str, range(n))),)), 0.0).launch_s for n in range(1, 150)]
    assert between == sorted(between) and between[0] > 0
