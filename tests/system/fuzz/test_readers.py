"""Spoilt profiles of every format end in an import or in a problem in words; `make fuzz` tries for longer."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from rooflens.tests.fuzz.judge import Tally, judge
from rooflens.tests.fuzz.profiles import READERS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux tells it")
_EXAMPLES = {"ncu report": 4}
_SLOW = set(HealthCheck)
ONE_OF_EACH = ("rocprofv3 CSV", "rocpd", "ncu raw", "Perfetto", "rocprof-compute", "code object", "perf")
"""Ways to read: tables, databases, binary records, folders, code and text. tests/oracle takes the other readers."""


@pytest.mark.parametrize("reader", ONE_OF_EACH)
def test_a_spoilt_profile_is_read_or_refused_in_words(reader: str) -> None:
    check_reader(reader)


def check_reader(reader: str) -> None:
    """Fail if a spoilt profile ends in anything but an import or a problem in words."""
    if reader == "ncu report" and importlib.util.find_spec("ncu_report") is None:
        pytest.skip("needs the package ncu-report (extra cuda)")
    tally = Tally()

    @settings(
        max_examples=_EXAMPLES.get(reader, 6), derandomize=True, deadline=None, database=None,
        suppress_health_check=_SLOW, phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip
    @given(READERS[reader]())
    def check(spoilt):
        judge(spoilt, reader, tally)

    check()
    assert tally.examples and tally.imports + sum(tally.problems.values()) == tally.examples
