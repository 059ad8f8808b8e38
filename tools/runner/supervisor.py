"""One supervisor process per run: its steps, limits and end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from ...analysis.store import Store
from .child import Outcome, Reason, Watch, run, signal_name
from .device_queue import Turns
from .job import CallStep, CommandStep, Job, Limits
from .processes import become_subreaper, end_all, me
from .state import LOGS, OUT, UNFINISHED, RunState, State, Words, left_behind, write
from .worker import ANSWER, PROGRESS


def failed(step: CommandStep | CallStep, outcome: Outcome, limits: Limits) -> Words:
    """Why a step is at fault that did not end well."""
    if outcome.stopped:
        return stopped(outcome.stopped, limits)
    if outcome.unstarted and isinstance(step, CommandStep):
        what = f"{step.argv[0]} could not be started"
        return Words(kind="MissingTool", what=what, why=outcome.unstarted, fix="list_devices shows the profilers")
    ended = signal_name(outcome.status or 0)
    if isinstance(step, CallStep):
        what = f"rooflens failed in {step.name} ({ended})"
        return Words(what=what, why=f"a bug, or the machine ran out of memory; see logs/{step.name}.err of the run")
    return Words(
        kind="BadInput",
        what=f"The profiled program ended with {ended} in {step.name}",
        why="a profiler passes on the status of the program, or fails itself; the end of the error output tells",
        fix="Run the command by hand without a profiler; it must end with status 0",
    )


def wrote_nothing(step: CommandStep) -> Words:
    """A step that ended well and left no results."""
    return Words(
        kind="MissingTool",
        what=f"The profiler ended without writing anything in {step.name}",
        why="it said that it succeeded; the end of its output may tell why",
        fix="Does the program launch a kernel that fits the filter?",
    )


def stopped(reason: Reason, limits: Limits) -> Words:
    """A run that was stopped before its end."""
    if reason == "timeout":
        return Words(
            kind="LimitExceeded",
            what=f"The run took longer than {limits.timeout_s:g} s",
            why="it was stopped at its time limit, which holds for all runs of the program together",
            fix="Give a larger timeout_s, ask for fewer metrics (fewer runs), or let the program do less",
        )
    if reason == "disk":
        return Words(
            kind="LimitExceeded",
            what="The run used too much disk",
            why=f"it wrote more than {limits.disk_bytes / 1e9:g} GB, or less than {limits.free_bytes / 1e9:g} GB "
            "stayed free",
            fix="Count fewer launches (kernel=, launches=), or name a store on a larger disk",
        )
    if reason == "processes":
        what = f"The run had more than {limits.processes} processes"
        return Words(kind="LimitExceeded", what=what, why="it was stopped", fix="See whether the program forks forever")
    if reason == "cancelled":
        return Words(what="The run was cancelled", why="cancel_run, or an interrupt of `rooflens call`, asked for it")
    ended = "the server (or command) that started it ended" if reason == "lost" else "its supervisor was told to stop"
    return Words(what="The run was stopped", why=f"{ended}, and nothing outlives that", fix="Start it again")


_POLL_S = 0.1


def main() -> None:
    """Carry out the job on standard input."""
    job = Job.model_validate_json(sys.stdin.buffer.readline())
    become_subreaper()
    Supervisor(job).carry_out()


class Supervisor:
    """One run from its queue to its end; the only writer of its state."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store(job.store)
        self.folder = self.store.run_folder(job.run_id)
        self.out = self.folder / job.out
        self.state = RunState(supervisor=me())
        self.watch = Watch(self.folder, job.limits)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._told_to_stop)

    def carry_out(self) -> None:
        """Everything, whatever happens; the state is final when this returns or raises."""
        try:
            self._save(doing="waiting for its turn")
            with Turns(Path(self.job.locks), self.job.devices, self.job.run_id) as turns:
                if reason := self._wait_for_devices(turns):
                    self._end_stopped(reason)
                    return
                self.watch.start_clock(self.job.limits.timeout_s)
                self._save(state="running", started_ns=time.time_ns())
                self._steps()
        finally:
            end_all(self.job.run_id, 0, below=os.getpid())
            if self.state.state in ("queued", "running"):
                self._end("failed", Words(what="The run failed inside rooflens", why="a bug; see supervisor.log"))

    def _wait_for_devices(self, turns: Turns) -> Reason | None:
        """Return once the run holds every device, or with the reason to give up."""
        while waiting := turns.waiting():
            if waiting != self.state.doing:
                self._save(doing=waiting)
            if reason := self.watch.reason():
                return reason
            time.sleep(_POLL_S)
        return self.watch.reason()

    def _steps(self) -> None:
        count = len(self.job.steps)
        for number, step in enumerate(self.job.steps, 1):
            self._save(step=step.name, doing=f"run {number} of {count}: {step.name}" if count > 1 else step.name)
            outcome = self._one(step)
            if not outcome.well or self.state.problem:
                self._fail(step, outcome)
                return
            self._save(finished=[*self.state.finished, step.name], step=None, progress=0.0)
        self._finish(None)

    def _one(self, step: CommandStep | CallStep) -> Outcome:
        logs = self.folder / LOGS
        names = (logs / f"{step.name}.out", logs / f"{step.name}.err")
        if isinstance(step, CallStep):
            return self._call(step, names)
        written = self._write_inputs(step)
        outcome = run(
            self.job.run_id, step.argv, step.cwd, step.env, names, self.watch, self.job.secrets
        )  # fmt: skip
        self._remark(step.name, outcome)
        if outcome.well and step.must_write and not _wrote(self.out / step.name, written):
            self.state.problem = wrote_nothing(step)
        return outcome

    def _write_inputs(self, step: CommandStep) -> set[Path]:
        out = self.out
        (out / step.name).mkdir(parents=True, exist_ok=True)
        for name, text in step.files.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return {out / name for name in step.files}

    def _call(self, step: CallStep, names: tuple[Path, Path]) -> Outcome:
        for name in (ANSWER, PROGRESS):
            (self.folder / name).unlink(missing_ok=True)
        told = {"store": self.job.store, "function": step.function, "arguments": step.arguments}
        text = json.dumps({**told, "folder": str(self.folder)})
        argv = [sys.executable, "-P", "-m", f"{__package__}.worker"]
        outcome = run(
            self.job.run_id, argv, "/", self.job.env, names, self.watch, self.job.secrets,
            text=text, meanwhile=self._listen,
        )  # fmt: skip
        self._remark(step.name, outcome)
        self.store.discard_drafts(outcome.pid)
        self._listen()
        answer = _loaded(self.folder / ANSWER)
        for name in (ANSWER, PROGRESS):
            (self.folder / name).unlink(missing_ok=True)
        if "result" in answer:
            self.state.result = answer["result"]
        if "problem" in answer:
            self.state.problem = Words.model_validate(answer["problem"])
        return outcome

    def _listen(self) -> None:
        """Pass on what a call tells about its progress."""
        told = _loaded(self.folder / PROGRESS)
        if told and (told["progress"], told["doing"]) != (self.state.progress, self.state.doing):
            self._save(progress=told["progress"], doing=told["doing"], result=told["result"] or self.state.result)

    def _fail(self, step: CommandStep | CallStep, outcome: Outcome) -> None:
        """A step failed or was stopped: say why, and save what the steps before it left."""
        self.state.status, self.state.fault = outcome.status, step.name
        place = self.out / step.name
        if place.exists():
            (self.folder / UNFINISHED).mkdir(exist_ok=True)
            place.rename(self.folder / UNFINISHED / step.name)
        words = self.state.problem or failed(step, outcome, self.job.limits)
        self.state.problem = None
        if outcome.stopped in ("lost", "stopped") and self.state.finished:
            words.fix = left_behind(self.out)
        if outcome.stopped in ("lost", "stopped") or not (self.state.finished and self.job.finish):
            self._end("cancelled" if outcome.stopped == "cancelled" else "failed", words)
        else:
            self._finish(words, cancelled=outcome.stopped == "cancelled")

    def _finish(self, failure: Words | None, *, cancelled: bool = False) -> None:
        """Save what the finished steps left; ``failure`` says why there are not more of them."""
        ended: State = "cancelled" if cancelled else "failed" if failure else "done"
        if self.job.finish is None:
            self._end(ended, failure)
            return
        self.watch.deaf = failure is not None
        self.watch.start_clock(self.job.limits.finish_s)
        arguments = {**self.job.finish.arguments, "finished": self.state.finished}
        arguments["stopped"] = failure.problem().text if failure else None
        step = self.job.finish.model_copy(update={"arguments": arguments})
        self._save(step=step.name, doing=step.name, partial=failure is not None, problem=None)
        outcome = self._call(step, (self.folder / LOGS / f"{step.name}.out", self.folder / LOGS / f"{step.name}.err"))
        problem = self.state.problem
        if outcome.well and self.state.result and not problem:
            shutil.rmtree(self.folder / OUT, ignore_errors=True)
            self._end(ended, failure)
            return
        self.state.partial = False
        words = problem or failed(step, outcome, self.job.limits)
        if failure:
            self.state.warnings.append(f"The finished steps could not be saved: {words.what}.")
            self._end(ended, failure)
        else:
            self.state.fault = step.name
            self._end("cancelled" if outcome.stopped == "cancelled" else "failed", words)

    def _remark(self, name: str, outcome: Outcome) -> None:
        if outcome.left_behind:
            self.state.warnings.append(
                f"{name}: {outcome.left_behind} processes still ran after the program and were ended."
            )
        if outcome.stuck:
            self.state.warnings.append(
                f"{name}: {outcome.stuck} processes cannot be ended; a driver may hang (see dmesg)."
            )

    def _end_stopped(self, reason: Reason) -> None:
        words = stopped(reason, self.job.limits)
        self._end("cancelled" if reason == "cancelled" else "failed", words)

    def _end(self, state: State, problem: Words | None) -> None:
        self._save(state=state, problem=problem, ended_ns=time.time_ns(), doing=state, step=None)

    def _save(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self.state, name, value)
        write(self.folder, self.state)

    def _told_to_stop(self, number: int, frame: object) -> None:
        self.watch.told_to_stop = True


def _wrote(place: Path, inputs: set[Path]) -> bool:
    """Whether a step left a file with content beside its inputs."""
    return any(p.is_file() and p not in inputs and p.stat().st_size for p in place.rglob("*"))


def _loaded(path: Path) -> dict[str, Any]:
    """A small JSON file of the worker; empty where there is none yet."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


if __name__ == "__main__":
    main()
