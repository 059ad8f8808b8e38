"""What a check leaves: answers to open questions, and a report."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.counter_check.known_kernels import solve_expressions
from rooflens.analysis.workload import Workload
from rooflens.tests.unit.tools.device.counter_check.conftest import Played
from rooflens.tools.device.counter_check import report
from rooflens.tools.running import counter_check


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("gfx942", {"GRBM_GUI_ACTIVE": "the sum over dies", "TCC_BUBBLE": "yes, all of them",
                    "v_pk_fma_f32": "once: FLOP of packed instructions are half of what they are",
                    "TCC_READ:": "128"}),
        ("gfx90a", {"TCP_TCC_READ_REQ": "64", "TCC_EA_RDREQ": "64", "SQ_WAVE_CYCLES": "in units of four cycles",
                    "LDS": "2 cycles: 32 banks"}),
    ],
)  # fmt: skip
def test_open_questions_are_answered_by_what_the_device_counts(
    target: str, expected: dict[str, str], played: Callable[[str], Played]
) -> None:
    play = played(target)
    with Workload.open(play.store, play.workload) as workload:
        answers = {
            one.question.question: one.reading
            for one in counter_check.answer_open_questions(workload, play.launches, play.said)
        }
    found = {word: [r for question, r in answers.items() if question.startswith(word)] for word in expected}
    assert found == {word: [reading] for word, reading in expected.items()}
    assert "0 metrics hold" in report.markdown({}, [], []), "a report of nothing"


def test_quantities_are_solved_in_any_order_and_a_circle_is_refused() -> None:
    assert solve_expressions({"b": "a * x", "a": "2 + x", "c": "b / 0", "d": "unknown + 1"}, {"x": 3.0}) == {
        "b": 15.0, "a": 5.0, "c": None, "d": None,
    }  # fmt: skip
    with pytest.raises(BadInput, match="depends on itself"):
        solve_expressions({"a": "b", "b": "a"}, {})
