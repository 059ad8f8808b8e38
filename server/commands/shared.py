"""What several subcommands share: source folders, calls that wait for the run they start."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.base.text import inert
from ...analysis.store.store import Store
from ...tools.base.results import Result


def source_roots(parser: ArgumentParser) -> None:
    """Declare --source-root."""
    parser.add_argument(
        "--source-root",
        metavar="DIR",
        action="append",
        default=[],
        help="show lines of source files below this folder where a profile names them as hot (repeatable; none by "
        "default)",
    )


def finish_call(store: Store, tool: str, arguments: dict[str, Any]) -> Result | Problem:
    """A tool's answer; a run that it started is waited for, since nothing may outlive this process.

    SIGTERM cancels such a run as an interrupt does, which a shell has its background jobs ignore.
    """
    from ...tools.get_run import LONGEST_WAIT_S, RunResult
    from ...tools.running import start as launch
    from ...tools.running.run_state import FINAL
    from ..mcp.toolbox import TOOLS, answer

    if any(one.name == tool and one.executes for one in TOOLS):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        reply = answer(store, tool, arguments)
        while launch.live_runs() and isinstance(reply, RunResult) and reply.state not in FINAL:
            if not sys.stderr.isatty():
                print(inert(reply.progress), file=sys.stderr)
            reply = answer(store, "get_run", {"run_id": reply.run_id, "wait_s": LONGEST_WAIT_S})
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
