"""The tool get_run: the state and the result of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from ..analysis.base.kernel_names import short
from ..analysis.base.problems import NotFound, StoreProblem
from ..analysis.catalogue import metrics as catalog
from ..analysis.store.store import Store
from .answers.next_calls import next_call
from .answers.rounds import OptimisationRound
from .answers.sentences import optional_sentence, sentence
from .answers.tables import table_from
from .base.parameters import Detail, Reference
from .base.results import NextCall, Result, Table, TextBlock
from .code_objects.triton import PLACES, caches, sources
from .device.benchmarks import outcomes as peak_tables
from .device.counter_check import report as check_report
from .list_workloads import list_workloads
from .running import run_state as runs
from .running.command import redact, secrets
from .running.failure_report import last_lines
from .running.run_state import FINAL, BenchmarkRun, ProfileRun, RunState

LONGEST_WAIT_S = 50.0
"""The maximum time in seconds that a call waits, because clients give up after a minute."""
LOOK_S = 2.0
"""How long one look at a run takes, in seconds, where somebody waits for its end and wants to see its progress."""
_KERNELS = 5
_NEXT_OF_ROUND = 2


class RunResult(Result):
    """The state and the result of a run. A run continues if a call that waits for it ends or is cancelled."""

    run_id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: str
    steps_done: int
    steps: int
    elapsed_s: float
    workload: str | None = None
    """The workload in the store, even if only some passes finished (``partial``)."""
    arch: str | None = None
    """The GPU target, whose vendor's words the answer uses."""
    partial: bool = False
    problem: str | None = None
    kernels: Table | None = None
    """The kernels of the workload with the longest total time."""
    sources: Table | None = None
    """The source of those kernels that Triton compiled, also for torch.compile."""
    ceilings: Table | None = None
    """For benchmarks: what was measured so far."""
    check: Table | None = None
    """For check_counters: the expected and the measured value of each metric for kernels of known work."""
    questions: Table | None = None
    """For check_counters: questions that documentation leaves open, and the answers of this device."""
    round: OptimisationRound | None = None
    """For profile_command: the change since the baseline, what limits the program now, and what to try next."""
    result: dict[str, Any] = {}
    """The result of another kind of run."""
    output: str | None = None
    """The end of the output of the failed step, preferably of its standard error."""
    warnings: list[str] = []

    def blocks(self) -> list[TextBlock] | None:
        """Return the round and the kernels, if there is a round; the answer says how the run ended."""
        if self.round is None:
            return None
        # Warnings that repeat the problem are omitted.
        warnings = [f"warning: {text}" for text in self.warnings if not (self.problem and self.problem in text)]
        about = [f"run: {self.run_id}, {self.state} after {self.elapsed_s:g} s", *warnings]
        return [
            TextBlock("", about),
            self.round.block(),
            TextBlock("kernels", [] if self.round.time else self.kernels or []),
            TextBlock("sources", self.sources or []),
            TextBlock("output", (self.output or "").splitlines()),
        ]

    def brief(self, arguments: Mapping[str, Any]) -> Self:
        """For a check, the maximum number of confirmed metrics that are listed; all wrong ones are listed."""
        return self.model_copy(update={"check": check_report.shorten(self.check)}) if self.check else self


def get_run(
    store: Store,
    run_id: Reference = "latest",
    wait_s: float = 0,
    detail: Detail = "summary",
) -> RunResult:
    """The state of a run: progress, then its round, workload and longest kernels, or why it failed."""
    return run_result(store, runs.find(store, run_id), wait_s, full=detail == "full")


def run_result(store: Store, folder: Path, wait_s: float = 0, *, full: bool = False) -> RunResult:
    """Describe the run in ``folder``, once it has ended or ``wait_s`` seconds (at most 50) have passed.

    ``full``: also with the method, versions and passes of a round.
    """
    runs.wait(store, folder, min(wait_s, LONGEST_WAIT_S))
    run, state = runs.inspect_run(store, folder)
    final = state.state in FINAL
    ended_ns = state.ended_ns if final and state.ended_ns else time.time_ns()
    result = dict(state.result)
    workload = result.pop("workload", None)
    about_round = result.pop("round", None)
    round_result = OptimisationRound.model_validate(about_round) if about_round and final else None
    # The notes on the plan are stored as warnings of the workload; here they are part of the notes.
    warnings = [text for text in [*state.warnings, *result.pop("warnings", [])] if text not in state.remarks]
    kernels, lost = _kernels(store, workload)
    hidden = secrets(os.environ, {})
    answer = RunResult(
        run_id=run.run_id,
        state=state.state,
        progress=state.activity,
        steps_done=len(state.finished),
        steps=len(state.steps or run.steps),
        elapsed_s=round((ended_ns - run.created_ns) / 1e9, 1),
        workload=workload,
        arch=result.get("arch"),
        partial=state.partial,
        kernels=kernels,
        sources=_sources(run, kernels),
        warnings=[*warnings, *lost],
        round=round_result,
        notes=[*run.notes, *state.remarks],
        next=[*_next(run, state, workload, result)][: _NEXT_OF_ROUND if round_result else None],
    )
    if round_result and isinstance(run, ProfileRun) and run.usual and not full:
        # How it was measured is for those who ask; what may be wrong, and what was lost, is for all.
        answer.notes = [*run.cautions, *(text for text in state.remarks if text not in state.plan)]
    if rows := result.pop("check", None):
        answer.check = check_report.rows_of(rows)
        answer.questions = check_report.answers_of(result.pop("questions", []))
        answer.notes = [*check_report.notes(rows, result.pop("wrong", {})), *answer.notes]
        answer.result = {"report": result.get("report")}
    problem = state.problem.problem().text if state.problem and final else ""
    if isinstance(run, BenchmarkRun):
        rows = result.pop("ceilings", [])
        answer.ceilings, answer.result = peak_tables.ceilings(rows), result
        answer.notes = [*run.notes, *(peak_tables.notes(rows, run.mode) if final else [])]
    elif final and state.state != "done":
        answer.output = redact(last_lines(run, state, folder), hidden) or None
    answer.problem = redact(problem, hidden) or None
    answer.answer = _outcome(answer)
    return answer


def _outcome(run: RunResult) -> str:
    """Say how far the run is, or how it ended and what it measured."""
    outcome = optional_sentence("run.workload", workload=run.workload)
    for first in run.kernels.records()[:1] if run.kernels and not (run.round and run.round.limited_by) else []:
        if first["pct"] is not None:
            outcome += sentence("run.longest", kernel=short(str(first["kernel"])), share=first["pct"])
    for first in run.ceilings.records()[:1] if run.ceilings else []:
        outcome = sentence("run.ceilings", **first, count=run.ceilings and run.ceilings.total_rows)
    state = "partial" if run.partial and run.state == "failed" else run.state
    ending = sentence(f"run.{state}", run=run, outcome=outcome, problem=run.problem or "").strip()
    parts = [ending, run.round.sentences() if run.round else ""]
    return " ".join(reversed(parts) if run.state == "done" else parts).strip()


def _kernels(store: Store, workload: str | None) -> tuple[Table | None, list[str]]:
    if workload is None:
        return None, []
    try:
        full = list_workloads(store, workload, limit=_KERNELS).table
    except (StoreProblem, NotFound) as problem:
        # Removed or damaged since the run ended.
        return None, [problem.text]
    return table_from("longest_kernels", full.records(), full.total_rows), []


def _sources(run: ProfileRun | BenchmarkRun, kernels: Table | None) -> Table | None:
    """From the caches of this machine, if the program ran here and used the known folders."""
    if not (isinstance(run, ProfileRun) and kernels and run.host == os.uname().nodename):
        return None
    if not set(PLACES).isdisjoint(run.variables):
        return None
    names = [str(row["kernel"]) for row in kernels.records()]
    cached = sources(names, caches(os.environ), run.created_ns / 1e9)
    return table_from("sources", list(map(vars, cached))) if cached else None


def _next(
    run: ProfileRun | BenchmarkRun, state: RunState, workload: str | None, result: Mapping[str, Any]
) -> Iterator[NextCall]:
    if state.state not in FINAL:
        yield next_call("get_run", "it is not finished yet", run_id=run.run_id, wait_s=45)
    elif isinstance(run, BenchmarkRun) and state.state == "done" and state.result.get("stored"):
        yield from peak_tables.next_calls()
    if state.state not in FINAL or isinstance(run, BenchmarkRun) or workload is None:
        return
    here, arch, counters = {"workload": workload}, result.get("arch"), result.get("counters")
    counted = counters and arch in catalog.targets_with_metrics()
    if not counted or arch != "cpu":
        if run.request.timeline:
            yield next_call("compute_timeline", "where the wall time goes: is the GPU the limit", **here)
        if run.request.hotspots and run.usual and not counters:
            yield next_call("find_hotspots", "which lines of the host the GPU waits for", **here, by="host_line")
        elif run.request.hotspots:
            yield next_call("find_hotspots", "which lines of the longest kernel take the time", **here)
        if counted:
            yield next_call("diagnose_bottleneck", "what limits the longest kernels", **here)
    if counted:
        yield next_call("compute_metrics", "where the time goes", **here, metrics=["overview"])
    yield next_call("list_workloads", "all kernels, passes and the device", **here)
