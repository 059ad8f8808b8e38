"""A run that must end keeps what its profiler had measured: the profiled program is ended first."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

import pytest

from rooflens.tests.standins.ncu_processes import install
from rooflens.tests.support.run_bench import Bench, gone
from rooflens.tests.support.waiting import END_S, LONG_S
from rooflens.tools.running import run_state as runs
from rooflens.tools.running.job import Step

LAUNCHES = "import os, sys, time\nprint('LAUNCH one'); print('LAUNCH two'); print('PID', os.getpid(), flush=True)\n"
HOLD = "time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.fixture(scope="module")
def ncu(tmp_path_factory: pytest.TempPathFactory) -> str:
    return install(tmp_path_factory.mktemp("nsight"))


@pytest.fixture
def patient(bench: Bench) -> Bench:
    bench.limits |= {"ask_s": LONG_S, "write_s": LONG_S}
    return bench


def _step(bench: Bench, ncu: str, program: list[str], *options: str) -> Step:
    argv = (ncu, *options, "--log-file", "$OUT/raw.csv", "--", *program)
    return replace(bench.step("pass_1", ""), argv=argv, gentle=True)


def _started(bench: Bench, run_id: str) -> int:
    """The number of the profiled program's process, once it has launched its kernels."""
    log = bench.folder(run_id) / "logs" / "pass_1.out"
    bench.until(lambda: log.exists() and "PID" in log.read_text())
    return int(log.read_text().split("PID", 1)[1].split()[0])


def _limited(bench: Bench, step: Step) -> str:
    """A run that met its time limit after its program had launched kernels, however slow the machine is."""
    for timeout_s in (0.8, 4, 20, 100):
        run = bench.begin(step, timeout_s=timeout_s)
        bench.end(run, within_s=2 * END_S)
        if "PID" in bench.log(run, "pass_1.out"):
            break
    return run


def _page(bench: Bench, run_id: str) -> str:
    (page,) = bench.folder(run_id).rglob("raw.csv")
    return page.read_text()


def test_launches_before_a_time_limit_or_a_cancellation_are_kept(patient: Bench, ncu: str) -> None:
    step = _step(patient, ncu, [sys.executable, "-IS", "-c", LAUNCHES + HOLD], "--export", "$OUT/one.ncu-rep")
    argv = tuple(word.replace("raw.csv", "ncu.log") for word in step.argv)
    step = replace(step, argv=argv, then=(ncu, "--import", "$OUT/one.ncu-rep", "--log-file", "$OUT/raw.csv"))
    run = _limited(patient, step)
    program, state = _started(patient, run), patient.state(run)
    assert state.state == "failed" and state.problem and "longer than" in state.problem.what
    assert '"0","one"\n"1","two"' in _page(patient, run) and state.status == 15 and gone(program)
    run = patient.begin(step)
    _started(patient, run)
    runs.cancel(patient.store, patient.folder(run))
    assert patient.end(run).state == "cancelled"
    assert '"1","two"' in _page(patient, run)


def test_a_program_that_does_not_listen_is_killed_and_its_launches_are_written(patient: Bench, ncu: str) -> None:
    patient.limits["ask_s"] = 0.2
    run = patient.begin(_step(patient, ncu, [sys.executable, "-IS", "-c", DEAF + LAUNCHES + HOLD], "--csv"))
    program = _started(patient, run)
    runs.cancel(patient.store, patient.folder(run))
    patient.end(run)
    assert '"1","two"' in _page(patient, run) and "error code (9)" in _page(patient, run) and gone(program)


def test_a_program_below_a_shell_and_with_children_is_asked_whole(patient: Bench, ncu: str) -> None:
    python = [sys.executable, "-IS", "-c"]
    child = f"import subprocess\nsubprocess.Popen([*{python}, {DEAF + HOLD!r}], start_new_session=True)\n"
    patient.limits["ask_s"] = 0.2
    program = ["bash", "-c", '"$@"; echo not reached', "x", *python, child + LAUNCHES + HOLD]
    run = patient.begin(_step(patient, ncu, program, "--csv"))
    started = _started(patient, run)
    runs.cancel(patient.store, patient.folder(run))
    patient.end(run)
    assert '"1","two"' in _page(patient, run) and gone(started)
    assert "not reached" not in patient.log(run, "pass_1.out")


def test_a_profiler_that_does_not_end_after_its_program_is_killed(patient: Bench, ncu: str) -> None:
    patient.limits |= {"ask_s": 0.2, "write_s": 0.3}
    run = patient.begin(_step(patient, ncu, [sys.executable, "-IS", "-c", LAUNCHES + HOLD], "--csv", "--hang"))
    program = _started(patient, run)
    runs.cancel(patient.store, patient.folder(run))
    state = patient.end(run)
    assert state.state == "cancelled" and _page(patient, run) == "" and gone(program)


def test_a_supervisor_told_to_stop_does_not_wait_for_a_page(patient: Bench, ncu: str) -> None:
    run = patient.begin(_step(patient, ncu, [sys.executable, "-IS", "-c", DEAF + LAUNCHES + HOLD], "--csv"))
    program = _started(patient, run)
    supervisor = patient.state(run).supervisor
    assert supervisor
    os.kill(supervisor.pid, signal.SIGTERM)
    state = patient.end(run)
    assert state.state == "failed" and state.problem and "was stopped" in state.problem.what and gone(program)


def test_a_running_step_tells_which_launch_it_measures(patient: Bench, ncu: str) -> None:
    run = patient.begin(_step(patient, ncu, [sys.executable, "-IS", "-c", LAUNCHES + HOLD]), profiler="ncu")
    patient.until(lambda: "launch" in patient.state(run).activity)
    patient.until(lambda: patient.state(run).activity == "pass_1: launch 2 of 9 (two), 20 passes")
    assert patient.state(run).progress == pytest.approx(2 / 9)
    runs.cancel(patient.store, patient.folder(run))
    patient.end(run)
