"""Chooses the tests that ``make test`` runs, so that it takes minutes; ``make test-thorough`` runs all of them.

Most of the suite's time goes into tests that import one more profile or start one more run, and many of these execute
no line of the product that a cheaper test does not execute as well. ``make select`` measures which lines each test
executes, in all its processes, and how long it takes. Tests are then kept

- if they are fast (below ``FAST_SECONDS``), because there is nothing to gain;
- if they are the fastest case of their test function, and below ``FAST_CASE_SECONDS``, because each function checks
  something of its own;
- if thorough.toml calls them essential, because they compare values rather than execute lines;
- if they failed, or executed no line in a process that could be measured;
- and otherwise as long as they add lines to those that are kept, most lines per second first, down to
  ``LEAST_LINES_PER_SECOND``.

The names of the others are written to repeated.txt. A new test is in no list and therefore runs.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SELECT = "ROOFLENS_SELECT"
"""The environment variable with the folder in which a measuring run leaves what it measured."""
FAST_SECONDS = 0.05
FAST_CASE_SECONDS = 0.3
LEAST_LINES_PER_SECOND = 20
RECORD = Path(__file__).with_name("repeated.txt")


@dataclass
class Observation:
    """What one test cost and executed."""

    seconds: float = 0.0
    lines: set[tuple[str, int]] = field(default_factory=set)
    """Files of the product with line numbers."""
    passed: bool = True


def choose_repetitions(tests: Mapping[str, Observation], is_essential: Callable[[str], bool]) -> set[str]:
    """The tests that add too few lines to those that are kept: a greedy cover, by new lines per second of the test."""
    kept = {
        name
        for name, one in tests.items()
        if one.seconds < FAST_SECONDS or not one.passed or not one.lines or is_essential(name)
    }
    fastest_cases: dict[str, str] = {}
    for name in sorted(tests, key=lambda name: tests[name].seconds):
        fastest_cases.setdefault(name.partition("[")[0], name)
    kept |= {name for name in fastest_cases.values() if tests[name].seconds < FAST_CASE_SECONDS}
    executed: set[tuple[str, int]] = set().union(*(tests[name].lines for name in kept))
    candidates = [(-len(tests[name].lines) / tests[name].seconds, name) for name in sorted(tests.keys() - kept)]
    heapq.heapify(candidates)
    repetitions = set()
    while candidates:
        _, name = heapq.heappop(candidates)
        new = len(tests[name].lines - executed)
        gain = (-new / tests[name].seconds, name)
        if new < LEAST_LINES_PER_SECOND * tests[name].seconds:
            repetitions.add(name)
        elif candidates and gain > candidates[0]:
            heapq.heappush(candidates, gain)
        else:
            executed |= tests[name].lines
    return repetitions


def names_by_file(names: Iterable[str]) -> dict[str, list[str]]:
    """Node ids, grouped by the file that is their first part."""
    files = defaultdict(list)
    for name in sorted(names):
        file, _, test = name.partition("::")
        files[file].append(test)
    return files


def write_names(names: Iterable[str], target: Path) -> None:
    """Write node ids with one line per file and, below it, one indented line per test."""
    lines = (f"{file}\n" + "".join(f"  {test}\n" for test in tests) for file, tests in names_by_file(names).items())
    target.write_text("".join(lines), encoding="utf-8")


def read_names(source: Path) -> frozenset[str]:
    """The node ids that ``write_names`` wrote; none if the file does not exist."""
    names, file = [], ""
    for line in source.read_text(encoding="utf-8").splitlines() if source.exists() else ():
        if line.startswith("  "):
            names.append(f"{file}::{line[2:]}")
        else:
            file = line
    return frozenset(names)


def measure_this_process() -> None:
    """Begin to measure in an interpreter that starts without the site packages, where coverage.py cannot do it."""
    if SELECT in os.environ:
        import coverage

        coverage.process_startup()


def attribute_lines_to(test: str | None) -> None:
    """Record the lines that this process executes from now on as those of a test, if they are measured at all."""
    if not test or "coverage" not in sys.modules:
        return
    import coverage

    if running := coverage.Coverage.current():
        running.switch_context(test)


def passing_on(
    inherited: Callable[[Mapping[str, str]], dict[str, str]],
) -> Callable[[Mapping[str, str]], dict[str, str]]:
    """The environment that runs inherit, with the variables by which their supervisors are measured too."""

    def inherited_and_ours(environment: Mapping[str, str]) -> dict[str, str]:
        ours = (SELECT, "COVERAGE_PROCESS_START", "PYTEST_CURRENT_TEST")
        return inherited(environment) | {name: os.environ[name] for name in ours if name in os.environ}

    return inherited_and_ours


class Observer:
    """A pytest plugin that writes the duration and outcome of every test into the folder of the run."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / f"tests-{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._seconds: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Attribute what the test executes to it."""
        attribute_lines_to(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write one line when a test has ended, unless it was skipped."""
        self._seconds[report.nodeid] += report.duration
        if report.failed or (report.when == "call" and report.passed):
            line = {"test": report.nodeid, "seconds": self._seconds[report.nodeid], "passed": report.passed}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def read_observations(folder: Path) -> dict[str, Observation]:
    """What a measuring run left in its folder."""
    tests: dict[str, Observation] = {}
    for file in folder.glob("tests-*.jsonl"):
        for text in file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            one = tests.setdefault(line["test"], Observation())
            one.seconds = max(one.seconds, line["seconds"])
            one.passed &= line["passed"]
    for file in folder.glob("lines.*"):
        # A process that was killed while it wrote leaves a file that cannot be read; its lines are not known.
        with contextlib.suppress(sqlite3.Error):
            _add_lines(file, tests)
    return tests


def _add_lines(file: Path, tests: Mapping[str, Observation]) -> None:
    """Add the lines in one data file of coverage.py to the tests which executed them."""
    from coverage.numbits import numbits_to_nums

    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as con:
        rows = con.execute(
            "SELECT context.context, file.path, line_bits.numbits FROM line_bits"
            " JOIN context ON context.id = context_id JOIN file ON file.id = file_id"
        ).fetchall()
    for context, path, bits in rows:
        name = _test_of_context(context, tests)
        if name is not None:
            tests[name].lines.update((path, line) for line in numbits_to_nums(bits))


def _test_of_context(context: str, tests: Mapping[str, Observation]) -> str | None:
    """The test in a context of coverage.py, which is ``of the process|of the moment``, or either of them.

    That of the process is the test that started it, followed by its phase, as in ``test_a (call)``.
    """
    parts = context.split("|")
    for first in range(len(parts) - 1, -1, -1):
        name = "|".join(parts[first:])
        for candidate in (name, name.rpartition(" (")[0]):
            if candidate in tests:
                return candidate
    return None


def main(folder: Path) -> None:
    """Write the list of repetitions, and print what the selection saves."""
    from rooflens.tests import thorough

    tests = read_observations(folder)
    repetitions = choose_repetitions(tests, thorough.is_essential)
    write_names(repetitions, RECORD)
    total = sum(one.seconds for one in tests.values())
    saved = sum(tests[name].seconds for name in repetitions)
    print(f"{len(repetitions)} of {len(tests)} tests are left to make test-thorough: {saved:.0f} of {total:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
