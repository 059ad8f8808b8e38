"""`rooflens call`: one tool, its result as JSON."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace

from ...analysis.base.problems import Problem
from ...analysis.store.store import Store
from ...tools.answers.source_text import allowing, roots_of
from ..terminal import log
from ..terminal.exits import OK, REFUSED
from ..terminal.outcome import Misuse
from .shared import finish_call, source_roots

HELP = "call one tool and print its result as JSON; waits for a run that it starts; Ctrl-C and SIGTERM cancel it"
_EXAMPLE = 'Example: rooflens call list_workloads \'{"workload": "latest"}\''


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--full", action="store_true", help="lift the cap on the answer's size")
    parser.add_argument("tool", help="its name; `rooflens tools TOOL` tells its arguments")
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
        raise Misuse(f"The arguments are no JSON: {error}", _EXAMPLE) from error
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
