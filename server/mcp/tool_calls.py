"""Calls of tools by the command line: a run that a tool starts is waited for, and a refusal is raised."""

from __future__ import annotations

import signal
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.store.store import Store
from ...tools.base.results import Result


def ask(store: Store, tool: str, arguments: dict[str, Any]) -> Result:
    """The answer of a tool. Wait for a run that it starts, because no run may outlive this process.

    Raises Problem for a refusal of the tool, and for a bug.
    """
    from .toolbox import answer, tool_named

    reply = (_finish_run if tool_named(tool).executes else answer)(store, tool, arguments)
    if isinstance(reply, Problem):
        raise reply
    return reply


def _finish_run(store: Store, tool: str, arguments: dict[str, Any]) -> Result | Problem:
    """Start a run and wait for its end; every look at it reports its progress.

    SIGTERM cancels it, like an interrupt, because a shell's background jobs ignore interrupts.
    """
    from ...tools.get_run import LONGEST_WAIT_S, LOOK_S, RunResult
    from ...tools.running import start as launch
    from ...tools.running.run_state import FINAL
    from .toolbox import answer, tool_named

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        reply = answer(store, tool, {"wait_s": LOOK_S, **arguments} if tool_named(tool).waits else arguments)
        while launch.live_runs() and isinstance(reply, RunResult) and reply.state not in FINAL:
            reply = answer(store, "get_run", {"run_id": reply.run_id, "wait_s": LOOK_S})
        return reply
    except KeyboardInterrupt:
        stopped = launch.live_runs()
        for run_id in stopped:
            answer(store, "cancel_run", {"run_id": run_id})
        if not stopped:
            raise
        return answer(store, "get_run", {"run_id": stopped[-1], "wait_s": LONGEST_WAIT_S})
    finally:
        launch.stop_all()
