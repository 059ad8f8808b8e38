"""Times that contradict themselves are told and cost the verdict its confidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.support.timelines import Made, publish
from rooflens.tests.unit.analysis.timeline.test_made import US, told
from rooflens.tools.compute_timeline import compute_timeline


def launched(count: int = 40, device_ahead: int = 0, length: int = 60, linked: bool = True) -> Made:
    """A kernel every 100 us, 10 us behind the start of its call where the clocks agree."""
    made = Made()
    for n in range(count):
        call = (100 * n * US, (100 * n + 5) * US)
        start = (100 * n + 10 - device_ahead) * US
        made.launch("gemm", call, (start, start + length * US), **({} if linked else {"correlation": -1}))
    return made


@pytest.mark.parametrize(
    ("made", "code", "height"),
    [
        (launched(device_ahead=500), "clocks_differ", "launch"),
        (launched(length=0), "no_length", "launch"),
        (launched(linked=False), "not_asked_for", "unknown"),
    ],
)
def test_times_that_contradict_themselves_are_named_and_leave_little_confidence(tmp_path, made, code, height) -> None:
    found = told(tmp_path, made)
    assert [doubt.code for doubt in found.doubts] == [code]
    assert found.verdict.height == height and found.verdict.confidence <= 0.5


def test_clocks_that_differ_leave_the_time_that_the_device_works_as_it_is(tmp_path: Path) -> None:
    found = told(tmp_path / "sound", launched(length=40))
    assert found.doubts == [] and found.verdict.confidence > 0.9
    found = told(tmp_path, launched(device_ahead=500, length=99))
    assert [doubt.code for doubt in found.doubts] == ["clocks_differ"]
    assert found.verdict.height == "gpu" and found.verdict.confidence > 0.9


def test_a_single_gap_that_takes_most_of_the_window_is_told_with_its_place(tmp_path: Path) -> None:
    made, store = launched(), Store(tmp_path)
    for event in made.events[len(made.events) // 2 :]:
        event["start_ns"], event["end_ns"] = event["start_ns"] + 10**12, event["end_ns"] + 10**12
    assert any(
        note.startswith("A single gap of 1e+06 ms, 1.97 ms from the start, is 100 % of the window")
        for note in compute_timeline(store, publish(store, made).id).notes
    )
    assert not any("single gap" in n for n in compute_timeline(store, publish(store, launched(), "even").id).notes)
