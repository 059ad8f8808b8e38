"""The supervisor: one process per run that carries out its steps within its limits."""

from __future__ import annotations

import gc
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydantic

from ...analysis.base.text import count_text
from ...analysis.store.store import Store
from ..device.machine.sensors import SensorSampler
from ..isolation.child import function_named
from .child import ProgramOutcome, ProgramSpec, StopReason, Watch, run_program, signal_name
from .command import without_prefixes
from .device_queue import DeviceQueue
from .host_sampling import sampling_prefix
from .job import CallStep, Job, Step
from .processes import become_subreaper, end_all, this_process
from .profiler_progress import Follower, ProfilerProgress
from .run_state import (
    CANCELLED,
    CLOCKS,
    LOGS,
    OUT,
    SUPERVISOR_LOG,
    UNFINISHED,
    ProblemText,
    ProfileRun,
    RunState,
    State,
    left_behind,
    write,
)
from .wording import problem, sentence
from .worker import ANSWER, PROGRESS, CallTask


def step_failure(step: Step | CallStep, outcome: ProgramOutcome, job: Job) -> ProblemText:
    """Describe why a step did not end well."""
    if outcome.stopped:
        return stop_problem(outcome.stopped, job)
    if outcome.unstarted and isinstance(step, Step):
        return _problem("unstarted", program=step.argv[0], why=outcome.unstarted)
    code = "call_failed" if isinstance(step, CallStep) else "program_failed"
    return _problem(code, step=step.name, ending=signal_name(outcome.status or 0))


def no_results_problem(step: Step, *, unreadable: bool) -> ProblemText:
    """Describe a step that ended well without results, or whose results its profiler could not convert."""
    if unreadable:
        program, command = Path(step.argv[0]).name, shlex.join(step.then[:2])
        return _problem("unreadable", program=program, step=step.name, command=command, log=f"{step.name}{_MADE}.err")
    # A step without counters has no kernel filter.
    return _problem("no_results", step=step.name, filtered=" that matches kernel= and range=" if step.counters else "")


def stop_problem(reason: StopReason, job: Job) -> ProblemText:
    """Describe why a run was stopped before its end."""
    limits = job.limits
    return _problem(
        reason,
        timeout_s=job.run.timeout_s,
        disk_gb=limits.disk_bytes / 1e9,
        free_gb=limits.free_bytes / 1e9,
        processes=count_text(limits.processes, "process"),
    )


def _problem(code: str, **facts: object) -> ProblemText:
    return ProblemText.of(problem(code, **facts))


_POLL_S = 0.1
_MADE = "_page"
"""Suffix of the log names of the program that converts a step's results."""
_OF_COUNTERS = ("BadArgument", "LimitExceeded")
"""Kinds of known profiler failures that are caused by the requested counters."""
_READABLE_S = 300.0
"""Time limit for the conversion of a profiler's output."""
_STEPS = pydantic.TypeAdapter(list[Step])


def main() -> None:
    """Carry out the job on standard input."""
    job = Job.model_validate_json(sys.stdin.buffer.readline())
    become_subreaper()
    Supervisor(job).carry_out()


class Supervisor:
    """Carries out one run from waiting for its devices to its end; the only writer of its state."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store.locate(job.store)
        self.folder = self.store.run_folder(job.run.run_id)
        self.out = self.folder / job.run.out
        self.state = RunState(supervisor=this_process())
        self.watch = Watch(self.folder, job.limits)
        self.blemish: ProblemText | None = None
        """Why a step failed that did not stop the run; the first one if there are several."""
        self.until: float | None = None
        """When the planned steps should have ended, if they have a time limit."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask_to_stop)

    def carry_out(self) -> None:
        """Carry out the whole run; its state is final when this returns or raises."""
        try:
            self._save(activity="waiting for its turn")
            self._load_calls()
            with DeviceQueue(Path(self.job.locks), self.job.devices, self.job.run.run_id) as queue:
                if reason := self._wait_for_devices(queue):
                    self._end_stopped(reason)
                    return
                self.watch.start_clock(self.job.run.timeout_s)
                self._save(state="running", started_ns=time.time_ns())
                if self.job.check is None or self._passes_check(self.job.check):
                    self._steps()
        finally:
            end_all(self.job.run.run_id, 0, below=os.getpid())
            if self.state.state in ("queued", "running"):
                self._end(
                    "failed", ProblemText(what="The run failed inside rooflens", why=f"a bug; see {SUPERVISOR_LOG}")
                )

    def _load_calls(self) -> None:
        """Import what the calls of this run need, once, before programs are measured; forks then share it."""
        # The thread pool of OpenBLAS would make a fork unsafe. Programs get their own variables.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        calls = [step for step in (*self.job.steps, self.job.plan, self.job.finish) if isinstance(step, CallStep)]
        for call in calls:
            function_named(call.function)
        if self.job.preparation:
            function_named(self.job.preparation)()
        gc.collect()
        gc.freeze()

    def _wait_for_devices(self, queue: DeviceQueue) -> StopReason | None:
        """Return once the run owns every device, or with the reason to give up."""
        while waiting := queue.waiting():
            if waiting != self.state.activity:
                self._save(activity=waiting)
            if reason := self.watch.reason():
                return reason
            time.sleep(_POLL_S)
        return self.watch.reason()

    def _passes_check(self, check: Step) -> bool:
        """Run the check of the program's results; return whether it passed, else end the run."""
        self._save(step=check.name, activity="checking the results")
        env = {**self.job.inherited, **self.job.variables}
        program = ProgramSpec(check.argv, self.job.cwd, env, self._logs(check))
        outcome = run_program(program, self.watch, self.job.secrets)
        self._remark(check.name, outcome)
        if outcome.ended_well:
            self._save(check="passed", step=None)
            return True
        self.state.fault, self.state.status = check.name, outcome.status
        if outcome.stopped:
            self._end_stopped(outcome.stopped)
        else:
            self.state.check = "failed"
            ending = f"ended with {signal_name(outcome.status or 0)}"
            if outcome.unstarted:
                ending = f"could not be started ({outcome.unstarted})"
            self._end("failed", _problem("check_failed", ending=ending))
        return False

    def _steps(self) -> None:
        steps = list(self.job.steps)
        for number, step in enumerate(steps, 1):
            if self._out_of_time(steps[number - 1 :]):
                break
            count, began = len(steps), time.monotonic()
            self._save(step=step.name, activity=self._activity_of(number, count, step))
            outcome, problem = self._call(step) if isinstance(step, CallStep) else self._command(step)
            took_s = time.monotonic() - began
            self.state.took_s[step.name] = round(took_s, 3)
            if not self._conclude_step(step, outcome, problem):
                return
            self._save(step=None, progress=0.0)
            if self.job.plan and number == 1 and not self._plan(self.job.plan, steps, took_s):
                return
        self._finish(self.blemish)

    def _out_of_time(self, later_steps: Sequence[Step | CallStep]) -> bool:
        """Whether the next planned step would end too late if it takes as long as the last; skipped steps are noted."""
        before = (self.state.steps or [""])[1:]
        took_s = next((self.state.took_s[name] for name in reversed(before) if name in self.state.took_s), None)
        if self.until is None or took_s is None or time.monotonic() + took_s <= self.until:
            return False
        names, left_s = [step.name for step in later_steps], max(0.0, self.until - time.monotonic())
        remark = sentence("skipped", names=names, took_s=took_s, left_s=left_s)
        self._save(skipped=names, remarks=[*self.state.remarks, remark])
        return True

    def _activity_of(self, number: int, count: int, step: Step | CallStep) -> str:
        """Describe the step that is starting."""
        name = f"run {number} of {count}: {step.name}" if count > 1 else step.name
        estimate = step.estimate_s if isinstance(step, Step) else None
        return name if estimate is None else f"{name}, about {estimate:.0f} s"

    def _conclude_step(self, step: Step | CallStep, outcome: ProgramOutcome, problem: ProblemText | None) -> bool:
        """Note the outcome of a step in the state; return whether the run continues, or end the run."""
        has_results = isinstance(step, Step) and self._left_results(step, outcome)
        if (outcome.ended_well and not problem) or (has_results and outcome.stopped == "complete"):
            self.state.finished.append(step.name)
            return True
        if has_results:
            self.state.cut.append(step.name)
        if isinstance(step, Step) and has_results and outcome.stopped == "budget":
            self.state.remarks.append(sentence("cut", step=step))
            return True
        failure = problem or step_failure(step, outcome, self.job)
        if isinstance(step, Step) and step.extra and not outcome.stopped:
            self._set_aside(step)
            self.state.remarks.append(f"Without {step.name}: {failure.what}")
            return True
        why = self._at_fault(step, outcome, failure)
        of_counters = bool(self.state.finished or self.state.cut) and why.kind in _OF_COUNTERS
        if not outcome.stopped and (has_results or of_counters):
            # It failed by itself. Other steps count other things, so they may still produce results.
            self.blemish = self.blemish or why
            return True
        self._fail(outcome, why)
        return False

    def _at_fault(self, step: Step | CallStep, outcome: ProgramOutcome, problem: ProblemText) -> ProblemText:
        """Explain why a step failed, record the first such step, and set its folder aside if no result is usable."""
        from .failure_report import explain_run_failure

        faulty = self.state.model_copy(update={"status": outcome.status, "fault": step.name})
        if self.blemish is None:
            self.state.status, self.state.fault = faulty.status, faulty.fault
        self._set_aside(step)
        run = self.job.run
        return explain_run_failure(run, faulty, self.folder, problem) if isinstance(run, ProfileRun) else problem

    def _set_aside(self, step: Step | CallStep) -> None:
        """Move the folder of a failed step to where the import does not read it, unless its results are usable."""
        place = self.out / step.name
        if place.exists() and step.name not in self.state.cut:
            (self.folder / UNFINISHED).mkdir(exist_ok=True)
            place.rename(self.folder / UNFINISHED / step.name)

    def _left_results(self, step: Step, outcome: ProgramOutcome) -> bool:
        """Whether a step that did not end well left usable files."""
        whole = outcome.ended_by_itself and (step.gentle or (step.lasting and not outcome.stopped))
        return (step.durable or whole) and self._wrote_results(step)

    def _wrote_results(self, step: Step) -> bool:
        """Whether a step wrote a non-empty file in addition to its inputs and its log."""
        known = {self.out / name for name in step.files} | self._log_of(step)
        files = (self.out / step.name).rglob("*")
        return any(p.is_file() and p not in known and p.stat().st_size for p in files)

    def _plan(self, call: CallStep, steps: list[Step | CallStep], took_s: float) -> bool:
        """Plan further steps from the results of the first and append them to ``steps``; return whether it worked."""
        call_with_time = call.model_copy(update={"arguments": {**call.arguments, "took_s": took_s}})
        self._save(step=call.name, activity=call.name)
        began = time.monotonic()
        outcome, problem = self._call(call_with_time)
        self.state.took_s[call.name] = round(time.monotonic() - began, 3)
        answer, self.state.result = self.state.result, {}
        if not outcome.ended_well or problem:
            why = self._at_fault(call, outcome, problem or step_failure(call, outcome, self.job))
            self._fail(outcome, self.blemish or why)
            return False
        planned_steps = _STEPS.validate_python(answer["steps"])
        self.state.counters = {step.name: list(step.counters) for step in planned_steps}
        steps += [replace(step, argv=(*step.argv, *self.job.program)) for step in planned_steps]
        if (within_s := answer.get("within_s")) is not None:
            self.until = time.monotonic() + within_s
        remarks = [*self.state.remarks, *answer["remarks"]]
        names = [step.name for step in steps]
        self._save(steps=names, remarks=remarks, plan=answer["remarks"], step=None, progress=0.0)
        return True

    def _command(self, step: Step) -> tuple[ProgramOutcome, ProblemText | None]:
        """Run a program; it is a problem if a profiler ended well without any results."""
        (self.out / step.name).mkdir(parents=True, exist_ok=True)
        for name, text in step.files.items():
            path = self.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        own = without_prefixes({**self.job.inherited, **self.job.variables}, step.unset)
        env = {**step.defaults, **own, **step.env}
        profiler = Path(step.argv[0]).name if step.gentle else ""
        follower = self._follower(step)
        argv = (*sampling_prefix(self.folder), *step.argv) if step.sampled else step.argv
        program = ProgramSpec(argv, self.job.cwd, env, self._logs(step), profiler=profiler, follower=follower)
        self.watch.start_budget(step.within_s)
        with SensorSampler(self.job.sensors, step.name) as sampler:
            outcome = run_program(program, self.watch, self.job.secrets)
        self.watch.start_budget(None)
        if sampler.rows:
            # They are read when the run is saved.
            with (self.folder / CLOCKS).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in sampler.rows)
        unreadable = bool(step.then) and outcome.ended_by_itself and not self._make_readable(step, env)
        self._remark(step.name, outcome)
        complete = outcome.ended_well or outcome.stopped == "complete"
        lacking = complete and not self._wrote_results(step)
        return outcome, no_results_problem(step, unreadable=unreadable) if lacking else None

    def _make_readable(self, step: Step, env: dict[str, str]) -> bool:
        """Run the step's conversion program; return whether it succeeded. The run's time limit does not include it."""
        until, deaf = self.watch.deadline, self.watch.deaf
        self.watch.deaf = True
        self.watch.start_clock(_READABLE_S)
        logs = self._logs(replace(step, name=f"{step.name}{_MADE}"))
        outcome = run_program(ProgramSpec(step.then, self.job.cwd, env, logs), self.watch, self.job.secrets)
        self.watch.deadline, self.watch.deaf = until, deaf
        return outcome.ended_well

    def _follower(self, step: Step) -> Follower | None:
        """Return a follower that appends the profiler's progress to the activity stated when the step began."""
        run, began = self.job.run, self.state.activity
        if not (isinstance(run, ProfileRun) and run.profiler):
            return None
        from .drivers import registry

        driver = registry.sampler(run.profiler)
        if driver is None:
            return None

        def report_progress(news: ProfilerProgress) -> None:
            progress = news if news.launches else replace(news, launches=step.launches)
            if step.enough and news.passes and (news.launch or 0) >= step.enough:
                self.watch.complete = True
            self._save(activity=f"{began}: {progress.words}", progress=progress.finished_share)

        return Follower(driver.progress, report_progress, next(iter(self._log_of(step)), None))

    def _log_of(self, step: Step) -> set[Path]:
        """Return the profiler's own log file of a step, which contains messages but no results."""
        if not (isinstance(self.job.run, ProfileRun) and self.job.run.profiler):
            return set()
        from .drivers import registry

        log = registry.profiler(self.job.run.profiler).LOG
        return {self.out / step.name / log} if log else set()

    def _call(self, step: CallStep) -> tuple[ProgramOutcome, ProblemText | None]:
        """Call a rooflens function; its result is stored in the state, and its Problem is returned."""
        task = CallTask(self.job.store, str(self.folder), step.function, step.arguments)
        argv = [sys.executable, "-P", "-m", f"{__package__}.worker"]
        worker = ProgramSpec(argv, "/", self.job.inherited, self._logs(step), task.as_text(), forked=task.carry_out)
        outcome = run_program(worker, self.watch, self.job.secrets, meanwhile=self._listen)
        self._remark(step.name, outcome)
        self.store.discard_drafts(outcome.pid)
        self._listen()
        answer = _load_json(self.folder / ANSWER)
        for name in (ANSWER, PROGRESS):
            (self.folder / name).unlink(missing_ok=True)
        if "result" in answer:
            self.state.result = answer["result"]
            if self.state.result.pop(CANCELLED, False):
                outcome = replace(outcome, stopped="cancelled")
        return outcome, ProblemText.model_validate(answer["problem"]) if "problem" in answer else None

    def _logs(self, step: Step | CallStep) -> tuple[Path, Path]:
        return self.folder / LOGS / f"{step.name}.out", self.folder / LOGS / f"{step.name}.err"

    def _listen(self) -> None:
        """Publish the progress that a call reports."""
        news = _load_json(self.folder / PROGRESS)
        if news and (news["progress"], news["activity"]) != (self.state.progress, self.state.activity):
            self._save(progress=news["progress"], activity=news["activity"], result=news["result"] or self.state.result)

    def _fail(self, outcome: ProgramOutcome, problem: ProblemText) -> None:
        """End the run after a step failed or was stopped, saving the results of the steps before it."""
        has_results = self.state.finished or self.state.cut
        if outcome.stopped in ("lost", "stopped") and has_results:
            problem.fix = left_behind(self.out)
        if outcome.stopped in ("lost", "stopped") or not (has_results and self.job.finish):
            self._end("cancelled" if outcome.stopped == "cancelled" else "failed", problem)
        else:
            self._finish(problem, cancelled=outcome.stopped == "cancelled")

    def _finish(self, failure: ProblemText | None, *, cancelled: bool = False) -> None:
        """Save the results of the finished steps; ``failure`` states why some are missing."""
        final_state: State = "cancelled" if cancelled else "failed" if failure else "done"
        step = self.job.finish
        if step is None:
            self._end(final_state, failure)
            return
        self.watch.deaf = failure is not None
        self.watch.start_clock(self.job.limits.finish_s)
        self._save(step=step.name, activity=step.name, partial=failure is not None, problem=failure)
        outcome, problem = self._call(step)
        if outcome.ended_well and self.state.result and not problem:
            if unread_problem := self.state.result.pop("problem", None):
                # Some finished steps could not be read.
                self._save(partial=True)
                if failure is None:
                    failure, final_state = ProblemText.model_validate(unread_problem), "failed"
            shutil.rmtree(self.folder / OUT, ignore_errors=True)
            self._end(final_state, failure)
            return
        self.state.partial = False
        problem = problem or step_failure(step, outcome, self.job)
        if failure:
            self.state.warnings.append(f"The finished steps could not be saved: {problem.what}.")
        else:
            failure = self._at_fault(step, outcome, problem)
            final_state = "cancelled" if outcome.stopped == "cancelled" else "failed"
        self._end(final_state, failure)

    def _remark(self, name: str, outcome: ProgramOutcome) -> None:
        for code in ("left_behind", "stuck"):
            if count := getattr(outcome, code):
                self.state.warnings.append(sentence(code, name=name, count=count))

    def _end_stopped(self, reason: StopReason) -> None:
        self._end("cancelled" if reason == "cancelled" else "failed", stop_problem(reason, self.job))

    def _end(self, state: State, problem: ProblemText | None) -> None:
        self._save(state=state, problem=problem, ended_ns=time.time_ns(), activity=state, step=None)

    def _save(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self.state, name, value)
        write(self.folder, self.state)

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self.watch.stop_asked = True


def _load_json(path: Path) -> dict[str, Any]:
    """Return the content of a small JSON file of the worker; empty if it does not exist yet."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return content


if __name__ == "__main__":
    main()
