"""Steps that are planned after the first one, and steps that leave results although they did not end well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflens.tests.support.run_bench import Bench
from rooflens.tools.running.job import CallStep, Step
from rooflens.tools.running.processes import MARKER

WRITE = "import os, sys, time; open(os.environ['OUT'] + '/times', 'a').write('launch\\n')\n"
PLANNER = '''
"""Plans for these tests; a worker imports it."""
from rooflens.analysis.base.problems import NotFound


def plan(store, progress, code, took_s, passes=1, within_s=None, **further):
    """Steps that run ``code``; their command is added by the supervisor."""
    if code == "refuse":
        raise NotFound("No kernel matches", "there is none", "Look again")
    argv = ["/bin/sh", "-c", code, "counting"]
    steps = [{"name": f"pass_{n}", "argv": argv, **further} for n in range(1, passes + 1)]
    return {"steps": steps, "remarks": [f"planned after {took_s:.0f} s"], "within_s": within_s}


def finish(store, progress, run_id):
    """What is saved at the end."""
    return {"workload": None, "kept": True}


def notice(store, progress, run_id):
    """A call that notices the cancellation of its run before the supervisor does."""
    return {"kept": True, "cancelled": True}
'''


@pytest.fixture
def planned(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    (tmp_path / "planner_of_tests.py").write_text(PLANNER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return bench


def begin(bench: Bench, first: Step, code: str, **further: object) -> str:
    arguments = {"code": code, **further}
    plan = CallStep(name="planning", function="planner_of_tests:plan", arguments=arguments)
    finish = CallStep(name="import", function="planner_of_tests:finish")
    return bench.begin(first, plan=plan, program=["./app", "-n"], finish=finish)


def step(bench: Bench, code: str, **changes: object) -> Step:
    return bench.step("timing", WRITE + code, durable=True, **changes)


def test_planned_steps_follow_the_first_and_run_the_program(planned: Bench) -> None:
    run = begin(planned, step(planned, ""), "echo ran $0 $1 $2; echo x > times; pwd", estimate_s=3, launches=7)
    state = planned.end(run)
    assert (state.state, state.finished, state.steps) == ("failed", ["timing"], ["timing", "pass_1"])
    assert planned.log(run, "pass_1.out").startswith("ran counting ./app -n")
    assert [re.sub(r"\d+ s", "... s", text) for text in state.remarks] == ["planned after ... s"]
    assert state.problem and "without writing anything" in state.problem.what, "it wrote beside its folder"


def test_a_plan_that_cannot_be_made_keeps_what_the_first_step_left(planned: Bench) -> None:
    state = planned.end(begin(planned, step(planned, ""), "refuse"))
    assert (state.state, state.partial) == ("failed", True) and state.result == {"workload": None, "kept": True}
    assert state.problem and state.problem.what == "No kernel matches"


def test_a_program_that_fails_is_counted_all_the_same_and_its_failure_told(planned: Bench) -> None:
    run = begin(planned, step(planned, "sys.exit(3)"), "echo counted; exit 3")
    state = planned.end(run)
    assert planned.log(run, "pass_1.out") == "counted\n"
    assert (state.state, state.partial, state.cut) == ("failed", True, ["timing"])
    assert state.problem and "status 3" in state.problem.what and state.result["kept"]


def test_a_step_is_ended_at_its_budget_and_the_run_goes_on(planned: Bench) -> None:
    for within_s in (1, 8, 64):
        state = planned.end(begin(planned, step(planned, "time.sleep(600)", within_s=float(within_s)), "exit 3"))
        if state.steps:
            break  # it had the time to write something
    assert state.cut == ["timing"] and f"timing was ended after {within_s} s" in state.remarks[0]
    assert state.problem and "pass_1" in state.problem.what


def test_a_step_that_left_nothing_by_its_budget_fails_the_run(planned: Bench) -> None:
    first = planned.step("timing", "import time; time.sleep(600)", durable=True, within_s=0.5)
    state = planned.end(begin(planned, first, "true"))
    assert state.state == "failed" and state.problem and "budget" in state.problem.what
    assert state.steps == []


def test_passes_that_do_not_fit_any_more_are_left_out_and_named(planned: Bench) -> None:
    # The folders of later steps are not there yet.
    leave = f'for d in {planned.store.runs}/"${MARKER}"/out/pass_*; do echo x > $d/counters; done'
    state = planned.end(begin(planned, step(planned, ""), leave, passes=3, within_s=0.0))
    assert (state.state, state.finished, state.skipped) == ("done", ["timing", "pass_1"], ["pass_2", "pass_3"])
    assert "Skipped because of budget_s: pass_2, pass_3." in state.remarks[-1]
    whole = planned.end(begin(planned, step(planned, ""), leave, passes=3, within_s=600.0))
    assert whole.finished == ["timing", "pass_1", "pass_2", "pass_3"] and not whole.skipped


def test_a_call_that_ends_early_because_of_a_cancellation_cancels_the_run(planned: Bench) -> None:
    finish = CallStep(name="measuring", function="planner_of_tests:notice")
    state = planned.end(planned.begin(program=[], finish=finish))
    assert (state.state, state.result) == ("cancelled", {"kept": True})
    assert state.problem and state.problem.what == "The run was cancelled"
