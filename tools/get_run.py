"""get_run and cancel_run: how a run stands, what it gave, and ending it."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis.catalogue import metrics as catalog
from ..analysis.problems import NotFound, StoreProblem
from ..analysis.store import Store
from .benchmarks import report as peak_tables
from .list_workloads import list_workloads
from .profilers.tables.files import head
from .profilers.tables.names import plain_text
from .results import NextCall, Result, Table, table
from .runner import lookup
from .runner.environment import redacted, secrets
from .runner.state import FINAL, LOGS, UNFINISHED, RunRequest, RunState

LONGEST_WAIT_S = 50.0
"""Clients give up on a call after a minute."""
_SETTLE_S = 8.0
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
    run_id: Annotated[str, Field(description='id, id prefix or "latest"')] = "latest",
    wait_s: Annotated[float, Field(ge=0)] = 0,
) -> RunResult:
    """How a run stands: progress, then its workload and longest kernels, or why it failed with the end of its output.
    Waits up to wait_s seconds (at most 50) for its end."""
    folder = lookup.find(store, run_id)
    lookup.wait(store, folder, min(wait_s, LONGEST_WAIT_S))
    return shown(store, *lookup.look(store, folder))


def cancel_run(store: Store, run_id: str) -> RunResult:
    """End a run with every process it started. What its finished runs of the program measured is kept, as a partial
    workload."""
    folder = lookup.find(store, run_id)
    if lookup.look(store, folder)[1].state in FINAL:
        found = shown(store, *lookup.look(store, folder))
        return found.model_copy(update={"notes": [*found.notes, "The run had ended already."]})
    lookup.cancel(store, folder)
    lookup.wait(store, folder, _SETTLE_S)
    return shown(store, *lookup.look(store, folder))


def shown(store: Store, request: RunRequest, state: RunState) -> RunResult:
    """A run as an answer."""
    final = state.state in FINAL
    ended_ns = state.ended_ns if final and state.ended_ns else time.time_ns()
    result = dict(state.result)
    workload = result.pop("workload", None)
    warnings = [*state.warnings, *result.pop("warnings", [])]
    kernels, lost = _kernels(store, workload)
    hidden = secrets(os.environ, {})
    benchmark, rows = request.kind == "benchmark", result.pop("ceilings", [])
    mode = request.about.get("mode", "")
    failed = final and state.state != "done"
    return RunResult(
        run_id=request.run_id,
        state=state.state,
        progress=state.doing,
        steps_done=len(state.finished),
        steps=len(request.steps),
        elapsed_s=round((ended_ns - request.created_ns) / 1e9, 1),
        workload=workload,
        partial=state.partial,
        problem=redacted(_problem(store, request, state), hidden) or None,
        kernels=kernels,
        ceilings=peak_tables.ceilings(rows) if benchmark else None,
        result=result if request.kind != "profile" else {},
        output=redacted(_tail(store, request, state), hidden) or None if failed else None,
        warnings=[*warnings, *lost],
        notes=[*request.notes, *(peak_tables.notes(rows, mode) if benchmark and final else [])],
        next=_next(request, state, workload, result.get("arch")),
    )


def _kernels(store: Store, workload: str | None) -> tuple[Table | None, list[str]]:
    if workload is None:
        return None, []
    try:
        full = list_workloads(store, workload, limit=_KERNELS).table
    except (StoreProblem, NotFound) as problem:
        # Removed or damaged since the run ended.
        return None, [problem.text]
    picks = [full.columns.index(name) for name in _COLUMNS]
    rows = [[plain_text(v, _NAME) if isinstance(v, str) else v for v in (row[i] for i in picks)] for row in full.rows]
    return table(_COLUMNS, rows).model_copy(update={"total_rows": full.total_rows, "truncated": full.truncated}), []


def _problem(store: Store, request: RunRequest, state: RunState) -> str:
    """Why the run ended as it did; a failure that the profiler's own words explain is told in ours."""
    if state.problem is None or state.state not in FINAL:
        return ""
    profiler = request.about.get("profiler")
    unclear = state.problem.kind in ("BadInput", "MissingTool") and state.fault
    if request.kind == "profile" and profiler and unclear:
        from .profilers import drivers as programs

        # A failure after the last step concerns all of them.
        at_fault = [step for step in request.steps if step == state.fault] or request.steps
        printed = [text for stream in ("err", "out") for s in at_fault if (text := _log(store, request, s, stream))]
        printed += [text for s in at_fault if (text := _own_log(store, request, s))]
        if explained := programs.profiler(profiler).explain(state.status or 0, "\n".join(printed)):
            return explained.text
    return state.problem.problem().text


def _tail(store: Store, request: RunRequest, state: RunState) -> str:
    """The last lines of what the program at fault printed. What our own calls print is for the log alone."""
    if request.kind != "profile" or state.fault not in request.steps:
        return ""
    told = [line for line in _own_log(store, request, state.fault).splitlines() if line.startswith("==")]
    for stream in ("err", "out"):
        lines = [*_log(store, request, state.fault, stream).splitlines(), *told]
        if shown := [plain_text(line, _LINE) for line in lines if line.strip()]:
            return "\n".join(shown[-_LINES:])
    return ""


def _log(store: Store, request: RunRequest, step: str, stream: str) -> str:
    """What a step printed, as far as it was kept."""
    path = store.run_folder(request.run_id) / LOGS / f"{step}.{stream}"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _own_log(store: Store, request: RunRequest, step: str) -> str:
    """The head of the file into which the profiler itself writes what it has to say, if it keeps one."""
    from .profilers import drivers as programs

    name = programs.profiler(request.about["profiler"]).LOG
    folder = store.run_folder(request.run_id)
    places = [folder / UNFINISHED / step / name, folder / request.out / step / name] if name else []
    found = next((place for place in places if place.is_file()), None)
    return head(found, _HEAD).decode("utf-8", "replace") if found else ""


def _next(request: RunRequest, state: RunState, workload: str | None, arch: str | None) -> list[NextCall]:
    if state.state not in FINAL:
        again = {"run_id": request.run_id, "wait_s": 45}
        return [NextCall(tool="get_run", arguments=again, why="it is not finished yet")]
    if request.kind == "benchmark" and state.state == "done":
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
