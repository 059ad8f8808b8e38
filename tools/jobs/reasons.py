"""Why a run did not end well, in words with what to do."""

from __future__ import annotations

from .child import Outcome, signal_name
from .job import CallStep, CommandStep, Limits
from .record import Words
from .watch import Reason


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
