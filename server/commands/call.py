"""`rooflens call`: one tool, its result as JSON."""

from __future__ import annotations

import json
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.base.text import inert
from ...analysis.store.store import Store
from ...tools.answers.source_text import allowing, roots_of
from ...tools.base.results import Result
from ..terminal import log
from ..terminal.outcome import OK, REFUSED, Misuse


def source_roots(parser: ArgumentParser) -> None:
    """Declare --source-root."""
    parser.add_argument(
        "--source-root",
        metavar="DIR",
        action="append",
        default=[],
        help="show hot lines from source files below this folder (repeatable; none by default)",
    )


def finish_call(store: Store, tool: str, arguments: dict[str, Any]) -> Result | Problem:
    """Call a tool and return its answer. Wait for a run that it started, because no run may outlive this process."""
    from ..mcp.toolbox import TOOLS, answer

    if any(one.name == tool and one.executes for one in TOOLS):
        return _finish_run(store, tool, arguments)
    return answer(store, tool, arguments)


def _finish_run(store: Store, tool: str, arguments: dict[str, Any]) -> Result | Problem:
    """Start a run and wait for its end.

    SIGTERM cancels it, like an interrupt, because a shell's background jobs ignore interrupts.
    """
    from ...tools.get_run import LONGEST_WAIT_S, RunResult
    from ...tools.running import start as launch
    from ...tools.running.run_state import FINAL
    from ..mcp.toolbox import answer

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


HELP = "call one tool and print its result as JSON; waits for a run that it starts; Ctrl-C and SIGTERM cancel it"
_EXAMPLE = 'Example: rooflens call list_workloads \'{"workload": "latest"}\''


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument("--full", action="store_true", help="do not limit the size of the answer")
    parser.add_argument("tool", help="its name; `rooflens tools TOOL` describes its arguments")
    parser.add_argument(
        "arguments", nargs="?", default="{}", help='JSON object, for instance \'{"workload": "latest"}\'; - reads stdin'
    )
    source_roots(parser)


def execute(options: Namespace, store: Store) -> int:
    from ...tools.isolation.limits import keep_freed_memory
    from ..rendering import render

    keep_freed_memory()
    text = sys.stdin.read() if options.arguments == "-" else options.arguments
    try:
        arguments = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise Misuse(f"The arguments are not valid JSON: {error}", _EXAMPLE) from error
    if not isinstance(arguments, dict):
        raise Misuse("The arguments must be a JSON object", _EXAMPLE)
    began = time.monotonic()
    with allowing(roots_of(options.source_root)):
        answer = finish_call(store, options.tool, arguments)
    if isinstance(answer, Problem):
        log.log_call(options.tool, time.monotonic() - began, type(answer).__name__, len(answer.text))
        raise answer
    result = answer if options.full else render.cap_size(answer, options.tool, arguments)
    text = json.dumps(render.structured_content(result), ensure_ascii=False)
    log.log_call(options.tool, time.monotonic() - began, "ok", len(text))
    print(text)
    if problem := getattr(answer, "problem", None):
        print(render.clean(problem), file=sys.stderr)
        return REFUSED
    return OK
