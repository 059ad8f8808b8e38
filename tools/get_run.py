"""The tool get_run: how a run stands and what it gave."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.catalogue import metrics as catalog
from ..analysis.problems import NotFound, StoreProblem
from ..analysis.store import Store
from .benchmarks import report as peak_tables
from .list_workloads import list_workloads
from .parameters import WaitSeconds
from .profilers.tables.files import head
from .profilers.tables.names import plain_text
from .results import NextCall, Result, Table, table
from .runner import state as runs
from .runner.program import redacted, secrets
from .runner.state import FINAL, LOGS, UNFINISHED, BenchmarkRun, ProfileRun, RunState

LONGEST_WAIT_S = 50.0
"""Clients give up on a call after a minute."""
_KERNELS, _NAME = 5, 160
_LINES, _LINE = 15, 300
_HEAD = 20_000
_COLUMNS = {"rank": None, "kernel": None, "calls": None, "total_ns": "ns", "pct": "%"}


class RunResult(Result):
    """How a run stands and what it gave. A run goes on when a call that waits for it ends or is cancelled."""

    run_id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: str
    steps_done: int
    steps: int
    elapsed_s: float
    workload: str | None = None
    """The workload in the store, also when only some of the runs finished (``partial``)."""
    partial: bool = False
    problem: str | None = None
    kernels: Table | None = None
    """The longest kernels of the workload."""
    ceilings: Table | None = None
    """Of a benchmark run: what was measured so far."""
    result: dict[str, Any] = {}
    """What a run of another kind gave."""
    output: str | None = None
    """End of what the failed step printed, errors first choice."""
    warnings: list[str] = []


def get_run(
    store: Store,
    run_id: Annotated[str, Field(description='id, unique id prefix or "latest"')] = "latest",
    wait_s: WaitSeconds = 0,
) -> RunResult:
    """How a run stands: progress, then its workload and longest kernels, or why it failed with the end of its output.
    Waits up to wait_s seconds (at most 50) for its end."""
    return run_result(store, runs.find(store, run_id), wait_s)


def run_result(store: Store, folder: Path, wait_s: float = 0) -> RunResult:
    """The run in ``folder`` as an answer, once it has ended or ``wait_s`` seconds (at most 50) have passed."""
    runs.wait(store, folder, min(wait_s, LONGEST_WAIT_S))
    run, state = runs.look(store, folder)
    final = state.state in FINAL
    ended_ns = state.ended_ns if final and state.ended_ns else time.time_ns()
    result = dict(state.result)
    workload = result.pop("workload", None)
    warnings = [*state.warnings, *result.pop("warnings", [])]
    kernels, lost = _kernels(store, workload)
    hidden = secrets(os.environ, {})
    answer = RunResult(
        run_id=run.run_id,
        state=state.state,
        progress=state.activity,
        steps_done=len(state.finished),
        steps=len(run.steps),
        elapsed_s=round((ended_ns - run.created_ns) / 1e9, 1),
        workload=workload,
        partial=state.partial,
        kernels=kernels,
        warnings=[*warnings, *lost],
        notes=run.notes,
        next=_next(run, state, workload, result.get("arch")),
    )
    problem = state.problem.problem().text if state.problem and final else ""
    if isinstance(run, BenchmarkRun):
        rows = result.pop("ceilings", [])
        answer.ceilings, answer.result = peak_tables.ceilings(rows), result
        answer.notes = [*run.notes, *(peak_tables.notes(rows, run.mode) if final else [])]
    elif final and state.state != "done":
        problem = _explained(run, state, folder) or problem
        answer.output = redacted(_last_lines(run, state, folder), hidden) or None
    answer.problem = redacted(problem, hidden) or None
    return answer


def _kernels(store: Store, workload: str | None) -> tuple[Table | None, list[str]]:
    if workload is None:
        return None, []
    try:
        full = list_workloads(store, workload, limit=_KERNELS).table
    except (StoreProblem, NotFound) as problem:
        # Removed or damaged since the run ended.
        return None, [problem.text]
    kernels = [dict(zip(full.columns, row, strict=True)) for row in full.rows]
    rows = [[plain_text(v, _NAME) if isinstance(v := k[name], str) else v for name in _COLUMNS] for k in kernels]
    return table(_COLUMNS, rows).model_copy(update={"total_rows": full.total_rows, "truncated": full.truncated}), []


def _explained(run: ProfileRun, state: RunState, folder: Path) -> str:
    """A failure in our words where what the profiler printed is known to us; empty otherwise."""
    from .profilers import drivers

    if not (run.profiler and state.fault and state.problem and state.problem.kind in ("BadInput", "MissingTool")):
        return ""
    # A failure after the last step concerns all of them.
    at_fault = [step for step in run.steps if step == state.fault] or run.steps
    printed = [text for stream in ("err", "out") for step in at_fault if (text := _log(folder, step, stream))]
    printed += [text for step in at_fault if (text := _own_log(run, step, folder))]
    problem = drivers.profiler(run.profiler).explain(state.status or 0, "\n".join(printed))
    return problem.text if problem else ""


def _last_lines(run: ProfileRun, state: RunState, folder: Path) -> str:
    """The last lines of what the program at fault printed. What our own calls print is for the log alone."""
    if state.fault not in run.steps:
        return ""
    messages = [line for line in _own_log(run, state.fault, folder).splitlines() if line.startswith("==")]
    for stream in ("err", "out"):
        printed = [*_log(folder, state.fault, stream).splitlines(), *messages]
        if lines := [plain_text(line, _LINE) for line in printed if line.strip()]:
            return "\n".join(lines[-_LINES:])
    return ""


def _log(folder: Path, step: str, stream: str) -> str:
    """What a step printed, as far as it was kept."""
    path = folder / LOGS / f"{step}.{stream}"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _own_log(run: ProfileRun, step: str, folder: Path) -> str:
    """The head of the file into which the profiler itself writes what it has to say, if it keeps one."""
    from .profilers import drivers

    name = drivers.profiler(run.profiler).LOG if run.profiler else None
    places = [folder / UNFINISHED / step / name, folder / run.out / step / name] if name else []
    path = next((place for place in places if place.is_file()), None)
    return head(path, _HEAD).decode("utf-8", "replace") if path else ""


def _next(run: ProfileRun | BenchmarkRun, state: RunState, workload: str | None, arch: str | None) -> list[NextCall]:
    if state.state not in FINAL:
        again = {"run_id": run.run_id, "wait_s": 45}
        return [NextCall(tool="get_run", arguments=again, why="it is not finished yet")]
    if isinstance(run, BenchmarkRun) and state.state == "done":
        return peak_tables.next_calls() if state.result.get("stored") else []
    if workload is None:
        return []
    kernels = NextCall(
        tool="list_workloads", arguments={"workload": workload}, why="all kernels, passes and the device"
    )
    if arch not in catalog.with_metrics():
        return [kernels]
    overview = NextCall(
        tool="compute_metrics", arguments={"workload": workload, "metrics": ["overview"]}, why="where the time goes"
    )
    if arch == "cpu":
        return [overview, kernels]
    diagnosis = NextCall(
        tool="diagnose_bottleneck", arguments={"workload": workload}, why="what holds the longest kernels back"
    )
    return [diagnosis, overview, kernels]
