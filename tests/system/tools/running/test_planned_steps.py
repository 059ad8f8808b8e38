"""Steps that are planned after the first one, and steps that leave results although they did not end well."""

from __future__ import annotations

import re

from rooflens.tests.support.run_bench import Bench
from rooflens.tools.running.job import CallStep, Step
from rooflens.tools.running.processes import MARKER

WRITE = "import os, sys, time; open(os.environ['OUT'] + '/times', 'a').write('launch\\n')\n"
PLANS = "rooflens.tests.system.tools.running.plans"


def begin(bench: Bench, first: Step, code: str, **further: object) -> str:
    arguments = {"code": code, **further}
    plan = CallStep(name="planning", function=f"{PLANS}:plan", arguments=arguments)
    finish = CallStep(name="import", function=f"{PLANS}:finish")
    return bench.begin(first, plan=plan, program=["./app", "-n"], finish=finish)


def step(bench: Bench, code: str, **changes: object) -> Step:
    return bench.step("timing", WRITE + code, durable=True, **changes)


def test_planned_steps_follow_the_first_and_run_the_program(bench: Bench) -> None:
    run = begin(bench, step(bench, ""), "echo ran $0 $1 $2; echo x > times; pwd", estimate_s=3, launches=7)
    state = bench.end(run)
    assert (state.state, state.finished, state.steps) == ("failed", ["timing"], ["timing", "pass_1"])
    assert bench.log(run, "pass_1.out").startswith("ran counting ./app -n")
    assert [re.sub(r"\d+ s", "... s", text) for text in state.remarks] == ["planned after ... s"]
    assert state.problem and "without writing anything" in state.problem.what, "it wrote beside its folder"


def test_a_plan_that_cannot_be_made_keeps_what_the_first_step_left(bench: Bench) -> None:
    state = bench.end(begin(bench, step(bench, ""), "refuse"))
    assert (state.state, state.partial) == ("failed", True) and state.result == {"workload": None, "kept": True}
    assert state.problem and state.problem.what == "No kernel matches"


def test_a_program_that_fails_is_counted_all_the_same_and_its_failure_told(bench: Bench) -> None:
    run = begin(bench, step(bench, "sys.exit(3)"), "echo counted; exit 3")
    state = bench.end(run)
    assert bench.log(run, "pass_1.out") == "counted\n"
    assert (state.state, state.partial, state.cut) == ("failed", True, ["timing"])
    assert state.problem and "status 3" in state.problem.what and state.result["kept"]


def test_a_step_is_ended_at_its_budget_and_the_run_goes_on(bench: Bench) -> None:
    for within_s in (1, 8, 64):
        state = bench.end(begin(bench, step(bench, "time.sleep(600)", within_s=float(within_s)), "exit 3"))
        if state.steps:
            break  # it had the time to write something
    assert state.cut == ["timing"] and f"timing was ended after {within_s} s" in state.remarks[0]
    assert state.problem and "pass_1" in state.problem.what


def test_a_step_that_left_nothing_by_its_budget_fails_the_run(bench: Bench) -> None:
    first = bench.step("timing", "import time; time.sleep(600)", durable=True, within_s=0.2)
    state = bench.end(begin(bench, first, "true"))
    assert state.state == "failed" and state.problem and "budget" in state.problem.what
    assert state.steps == []


def test_passes_that_do_not_fit_any_more_are_left_out_and_named(bench: Bench) -> None:
    # The folders of later steps are not there yet.
    leave = f'for d in {bench.store.runs}/"${MARKER}"/out/pass_*; do echo x > $d/counters; done'
    state = bench.end(begin(bench, step(bench, ""), leave, passes=3, within_s=0.0))
    assert (state.state, state.finished, state.skipped) == ("done", ["timing", "pass_1"], ["pass_2", "pass_3"])
    assert "Skipped because of budget_s: pass_2, pass_3." in state.remarks[-1]
    whole = bench.end(begin(bench, step(bench, ""), leave, passes=3, within_s=600.0))
    assert whole.finished == ["timing", "pass_1", "pass_2", "pass_3"] and not whole.skipped


def test_a_call_that_ends_early_because_of_a_cancellation_cancels_the_run(bench: Bench) -> None:
    finish = CallStep(name="measuring", function=f"{PLANS}:notice")
    state = bench.end(bench.begin(program=[], finish=finish))
    assert (state.state, state.result) == ("cancelled", {"kept": True})
    assert state.problem and state.problem.what == "The run was cancelled"
