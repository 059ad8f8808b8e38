"""What the tests on a GPU share, tried without one: with the stand-in for perf, and with tables and texts made here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.external.gpu.measuring import (
    Ended,
    asked,
    deviations,
    printed_by,
    profiled,
    python_with,
    records,
    stated,
)
from rooflens.tests.external.gpu.measuring import told as tell
from rooflens.tests.external.gpu.test_counting import counted, figures, rounds
from rooflens.tests.external.gpu.test_recording import PATHS, launches
from rooflens.tests.standins.perf import install
from rooflens.tools.base.results import table
from rooflens.tools.get_run import RunResult
from rooflens.tools.import_profile import import_profile
from rooflens.tools.running import start as launch

METRICS = ["task-clock", "page-faults"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("PATH", f"{install(tmp_path / 'bin')}:{os.environ['PATH']}")
    yield Store(tmp_path / "store")
    launch.stop_all()


def test_a_run_is_followed_to_its_end(store: Store) -> None:
    code = "import time; time.sleep(1); print('launched 7')"
    ended = profiled(store, [sys.executable, "-c", code], gpu="cpu", metrics=METRICS)
    assert ended.result.state == "done" and ended.said
    assert 1 <= ended.took_s["run_1"] < ended.wall_s
    assert stated(printed_by(store, ended.result, "run_1")) == 7
    assert asked(store, ended.result.workload, "SELECT count(*) FROM dispatches") == [[1]]


def test_a_run_that_fails_is_followed_too(store: Store) -> None:
    ended = profiled(store, [sys.executable, "-c", "raise SystemExit(3)"], gpu="cpu", metrics=METRICS)
    assert ended.result.state == "failed" and "status 3" in (ended.result.problem or "")


def test_the_launches_that_progress_names_are_found() -> None:
    said = ["run 2 of 2: pass_1: launch 37 of 120 (gemm), 50 %", "importing"]
    assert Ended(RunResult.model_construct(), 0.0, {}, said).launches_told() == [(37, 120)]


def test_figures_are_compared_by_name() -> None:
    assert deviations({"a": 2.0, "b": 4.0}, {"a": 2.1, "b": 3.0}) == {
        "a": pytest.approx(5.0),
        "b": pytest.approx(-25.0),
    }
    with pytest.raises(AssertionError):
        deviations({"a": 1.0}, {"b": 1.0})
    assert records(table({"x": None, "y": None}, [[1, 2]])) == [{"x": 1, "y": 2}]


def test_what_was_measured_is_printed_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    tell("ratio", {"wall": 1.23456, "launches": 7})
    assert capsys.readouterr().out == "\n[ratio] wall 1.235, launches 7\n"


def test_an_interpreter_is_found_by_what_it_can_import(tmp_path: Path) -> None:
    assert python_with("json", [str(tmp_path / "none"), sys.executable]) == sys.executable
    assert python_with("no_such_module_anywhere", [sys.executable]) is None


def test_the_questions_to_a_workload_are_answered_for_one_of_an_h200(tmp_path: Path) -> None:
    """A recording of the example program, which has no ranges; every launch is counted."""
    store = Store(tmp_path / "store")
    done = import_profile(store, str(ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz"))
    run = Ended(RunResult.model_construct(workload=done.workload), 0.0, {})
    assert launches(store, run) == done.dispatches
    assert dict(asked(store, run.result.workload, PATHS)) == {None: done.dispatches}
    assert counted(store, run) == {None: done.dispatches}
    found = figures(store, run, str)
    assert len(found) == 9 and all(f["time_ns"] > 0 and f["n"] > 0 for f in found.values())


@pytest.mark.parametrize("name", ["void turn<(int)8>(float *, unsigned long)", "void turn<8>(float*, unsigned long)"])
def test_a_kernel_is_known_however_its_name_is_spelled(name: str) -> None:
    assert rounds(name) == "8"
