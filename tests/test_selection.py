"""Which tests `make select` leaves to `make test-thorough`, and how it knows what they execute."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests import selection
from rooflens.tests.selection import (
    FAST_CASE_SECONDS,
    FAST_SECONDS,
    LEAST_LINES_PER_SECOND,
    Observation,
    choose_repetitions,
)

FILE = "analysis/a.py"
MANY = range(100)


def observed(seconds: float, *lines: int, passed: bool = True) -> Observation:
    return Observation(seconds, {(FILE, line) for line in lines}, passed)


def repetitions(**tests: Observation) -> set[str]:
    return choose_repetitions(tests, lambda name: name == "essential")


def test_a_test_whose_lines_cheaper_ones_execute_is_a_repetition() -> None:
    assert repetitions(cheap=observed(1, *MANY), dear=observed(9, *MANY[:50])) == {"dear"}


def test_together_the_kept_tests_execute_every_line_that_is_worth_its_time() -> None:
    tests = {f"t{n}": observed(1 + n / 10, *range(40 * n, 40 * n + 80)) for n in range(10)}
    kept = tests.keys() - choose_repetitions(tests, lambda _: False)
    assert set().union(*(tests[name].lines for name in kept)) == set().union(*(t.lines for t in tests.values()))
    assert len(kept) < len(tests)


def test_few_new_lines_do_not_pay_for_a_slow_test() -> None:
    slow = observed(10, *MANY, *range(100, 100 + 10 * LEAST_LINES_PER_SECOND - 1))
    assert repetitions(base=observed(1, *MANY), slow=slow) == {"slow"}
    enough = observed(10, *MANY, *range(100, 100 + 10 * LEAST_LINES_PER_SECOND))
    assert not repetitions(base=observed(1, *MANY), slow=enough)


def test_one_fast_case_of_every_function_is_kept() -> None:
    tests = {f"t[{n}]": observed(FAST_CASE_SECONDS - n / 100, *MANY) for n in range(3)}
    tests["base"] = observed(1, *MANY)
    assert choose_repetitions(tests, lambda _: False) == {"t[0]", "t[1]", "base"}


@pytest.mark.parametrize(
    "name_and_test",
    [
        ("fast", observed(FAST_SECONDS / 2, 1)),
        ("failed", observed(9, 1, passed=False)),
        ("unseen", observed(9)),
        ("essential", observed(9, 1)),
    ],
    ids=lambda pair: pair[0],
)
def test_what_cannot_be_judged_by_its_lines_is_kept(name_and_test: tuple[str, Observation]) -> None:
    name, test = name_and_test
    assert repetitions(**{"all": observed(1, *MANY), name: test}) == set()


def test_names_are_read_as_they_were_written(tmp_path: Path) -> None:
    names = {"tests/a.py::test_x[a b: c ]", "tests/a.py::test_y", "tests/b.py::Class::test_z[::]"}
    selection.write_names(names, tmp_path / "names")
    assert selection.read_names(tmp_path / "names") == names
    assert selection.read_names(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(
    "context",
    ["t.py::x[a|b (c)]", "t.py::x[a|b (c)] (call)", "t.py::y (setup)|t.py::x[a|b (c)]"],
)
def test_the_test_of_a_context_is_that_of_the_moment_before_that_of_the_process(context: str) -> None:
    tests = {"t.py::x[a|b (c)]": Observation(), "t.py::y": Observation()}
    assert selection._test_of_context(context, tests) == "t.py::x[a|b (c)]"


def test_the_recorded_names_are_those_of_tests() -> None:
    names = selection.read_names(selection.RECORD)
    assert names and all(name.startswith("tests/") and "::test_" in name for name in names)
