"""The tools answer over every recorded profile as they did when their answers were recorded (make recorded)."""

from __future__ import annotations

import copy
from fnmatch import fnmatch
from pathlib import Path

import pytest

from rooflens.server.mcp import toolbox
from rooflens.tests.cases.answers import recording
from rooflens.tests.cases.answers.cases import CASES, Case
from rooflens.tests.cases.answers.facts import sentence

ELSEWHERE = {"list_devices", "run_peak_benchmarks", "check_counters", "profile_command"}
"""Tools whose answers depend on the machine."""
ONE_OF_EACH = (
    "catalogue", "made-*", "pair-yax", "pair-traces", "pc_sampling-*", "rocprofv3-*", "sample-*",
    "workloads-synth_a-MI200", "workloads-vcopy-*", "workloads38-vcopy__*", "public-tracelens-bert*",
)  # fmt: skip
"""Names of cases that this test takes; tests/oracle takes further workloads of the same profilers."""
HERE, FURTHER = (
    [pytest.param(c, id=c.name) for c in CASES if any(fnmatch(c.name, one) for one in ONE_OF_EACH) is here]
    for here in (True, False)
)


@pytest.mark.parametrize("case", HERE)
def test_answers_are_those_that_were_recorded(case: Case, tmp_path: Path) -> None:
    check_answers(case, tmp_path)


def check_answers(case: Case, tmp_path: Path) -> None:
    """Fail if an answer differs from the recorded one, with what differs."""
    if case.lacks:
        pytest.skip(case.lacks)
    found = recording.differences(case, recording.recorded(case), recording.found(case, tmp_path))
    if found:
        pytest.fail(f"{recording.told(found)}\nIf this is meant: make record", pytrace=False)


def test_every_tool_is_asked_and_no_recording_is_left_over() -> None:
    asked = {"import_profile", *(tool for case in CASES for tool, _ in case.questions)}
    assert asked == {tool.name for tool in toolbox.TOOLS} - ELSEWHERE
    assert recording.superfluous(CASES) == []
    assert len({case.name for case in CASES}) == len(CASES)


def test_no_answer_was_recorded_that_tells_of_a_bug() -> None:
    answers = [answer for case in CASES for answer in recording.recorded(case).values()]
    assert "problem" not in {answer.get(".refused") for answer in answers}


def test_a_difference_names_the_answer_the_place_and_both_values() -> None:
    case = next(case for case in CASES if case.name == "sample-yax_before")
    before = recording.recorded(case)
    after = copy.deepcopy(before)
    question = next(question for question in after if '"detail": "full", "limit"' in question)
    columns = after[question][".table"]["columns"]
    columns["avg"]["cells"][1] = 0.25
    columns["avg"]["checksum"] = "other"
    found = recording.told(recording.differences(case, before, after))
    assert found.startswith(f"sample-yax_before: {question} differs in 2 places\n  .table row 1 (")
    assert "after  0.25" in found and "all digits of avg" in found and "before" in found


def test_of_a_sentence_its_codes_and_figures_count() -> None:
    assert sentence("no point (⟦no_counter⟧), 0.0217 GB/s of 1,234") == "~ no_counter 0.0217 1,234"
    assert sentence("gfx90a says nothing") == sentence("nothing else") == "~"
