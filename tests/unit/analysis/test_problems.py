"""Messages read as sentences: each part begins with a capital, unless it begins with a name or with code."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.extensions import install_command
from rooflens.analysis.base.problems import BadInput, Problem, command_advice, join_sentences
from rooflens.analysis.base.text import count_text


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("it was deleted", "It was deleted."),
        ("times (of kernels) do not tell", "Times (of kernels) do not tell."),
        ("gfx942 has none", "gfx942 has none."),
        ("ncu numbers what it counts", "ncu numbers what it counts."),
        ("./app is in /tmp: write that", "./app is in /tmp: write that."),
        ("list_workloads() shows them", "list_workloads() shows them."),
        ("a.csv: line 3", "a.csv: line 3."),
    ],
)
def test_a_part_begins_as_a_sentence_and_a_name_as_it_is(why: str, said: str) -> None:
    assert Problem("Nothing is there", why).text == f"Nothing is there. {said}"
    assert Problem("Nothing is there", "", why).text == f"Nothing is there. {said}"


def test_what_happened_may_begin_with_the_name_of_the_callers_thing() -> None:
    assert BadInput("copy is damaged", "it ends early").text == "copy is damaged. It ends early."


def test_a_command_keeps_its_case_and_stands_on_a_line_of_its_own() -> None:
    problem = Problem("It cannot be read", "a package is missing", command_advice("Install it", "uv pip install numpy"))
    assert problem.text == "It cannot be read. A package is missing. Install it:\n  uv pip install numpy"
    command = install_command("numpy")
    assert Problem("It failed", "", command_advice("Install it", command)).text.splitlines()[1].strip() == command


def test_what_follows_a_command_begins_on_a_new_line() -> None:
    advice = command_advice("Install it", "uv pip install numpy")
    assert join_sentences("It failed", advice, "Its samples were skipped", "") == (
        "It failed. Install it:\n  uv pip install numpy\nIts samples were skipped."
    )


def test_what_is_counted_has_the_number_of_its_noun() -> None:
    said = [count_text(n, what) for n in (0, 1, 1200) for what in ("kernel", "copy", "process")]
    assert said == [
        "0 kernels", "0 copies", "0 processes", "1 kernel", "1 copy", "1 process",
        "1,200 kernels", "1,200 copies", "1,200 processes",
    ]  # fmt: skip
    assert count_text(1, "row has", "rows have") == "1 row has"
