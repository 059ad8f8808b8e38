"""The command line: serve, call, tools, report, demo, doctor, check, export-db, export-trace."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..analysis.problems import BadArgument, Problem
from ..analysis.store import Store
from ..analysis.text import inert
from ..tools.progress import listening
from ..tools.results import Result
from ..tools.source_text import allowing, roots_of
from . import log

OK, REFUSED, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; exit status 0, 1 (refused, with advice on stderr) or 2 (usage)."""
    options = _parser().parse_args(argv)
    log.start(getattr(options, "verbose", 0))
    try:
        status: int = options.run(options, Store.locate(_named_store(options)))
    except Problem as problem:
        print(inert(problem.text), file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def _named_store(options: argparse.Namespace) -> str | None:
    """--store as given before or after the subcommand, or None."""
    named: str | None = getattr(options, "store", None)
    return named


def _parser() -> argparse.ArgumentParser:
    store = argparse.ArgumentParser(add_help=False)
    store.add_argument(
        "--store",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the workload store (default: $ROOFLENS_STORE, else the user's data folder)",
    )
    store.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=argparse.SUPPRESS,
        help="log every tool call to stderr (tool, outcome, time, size; never contents); twice for more",
    )
    parser = argparse.ArgumentParser(
        prog="rooflens", description="Measure, understand and improve GPU kernels.", parents=[store]
    )
    parser.add_argument("--version", action="version", version=f"rooflens {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    sources = argparse.ArgumentParser(add_help=False)
    sources.add_argument(
        "--source-root",
        metavar="DIR",
        action="append",
        default=[],
        help="show lines of source files below this folder where a profile names them as hot (repeatable; none by "
        "default)",
    )

    serve = commands.add_parser("serve", parents=[store, sources], help="run the MCP server (stdio by default)")
    serve.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="streamable HTTP instead of stdio, at /mcp, or unix:PATH for a socket of your own;"
        " clients send the token that is printed, or $ROOFLENS_TOKEN",
    )
    serve.add_argument(
        "--allowed-host",
        metavar="NAME[:PORT]",
        action="append",
        default=[],
        help="another name under which clients reach --http, for instance that of a proxy (repeatable)",
    )
    serve.add_argument(
        "--insecure-local",
        action="store_true",
        help="--http on a loopback address without a token: every user of this machine may then connect",
    )
    serve.add_argument(
        "--allow-exec",
        action="store_true",
        help="allow profile_command and other tools that run programs on this machine, as you",
    )
    serve.add_argument(
        "--read-only", action="store_true", help="offer nothing that writes or runs programs; beats --allow-exec"
    )
    serve.set_defaults(run=_serve)

    call = commands.add_parser(
        "call",
        parents=[store, sources],
        help="call one tool and print its result as JSON; waits for a run that it starts; Ctrl-C and SIGTERM cancel it",
    )
    call.add_argument("--full", action="store_true", help="lift the cap on the answer's size")
    call.add_argument("tool")
    call.add_argument(
        "arguments", nargs="?", default="{}", help='JSON object, for instance \'{"workload": "latest"}\'; - reads stdin'
    )
    call.set_defaults(run=_call)

    listing = commands.add_parser("tools", parents=[store], help="names of the tools, one line each")
    listing.set_defaults(run=_tools)
    report = commands.add_parser(
        "report", parents=[store], help="one HTML page for people: opens from disk, asks nothing of any network"
    )
    report.add_argument(
        "workloads",
        metavar="WORKLOAD",
        nargs="+",
        help="id, unique id prefix, name or latest; the first is the baseline of the others",
    )
    report.add_argument(
        "-o", "--output", metavar="FILE", help="where to write it (rooflens-WORKLOAD.html here); - for the output"
    )
    report.set_defaults(run=_report)
    demo = commands.add_parser("demo", parents=[store], help="the whole loop on the shipped samples, without a GPU")
    demo.set_defaults(run=_demo)
    doctor = commands.add_parser("doctor", parents=[store], help="what works here, what is missing, and the fix")
    doctor.add_argument(
        "--bundle",
        metavar="FILE",
        help="also write a text to send with a report: versions, devices, permissions, help texts of the profilers, "
        "the logs of the newest failed run; without variables, secrets, host and user names",
    )
    doctor.set_defaults(run=_doctor)
    check = commands.add_parser(
        "check",
        parents=[store],
        help="check_counters on this machine: which metrics hold here; writes a report to send, without personal data",
    )
    check.add_argument(
        "--output", metavar="FILE", default="rooflens-check.md", help="a new .md or .json (default: rooflens-check.md)"
    )
    check.add_argument("--device", help="index or uuid; default: the first GPU")
    check.set_defaults(run=_check)
    export = commands.add_parser(
        "export-db", parents=[store], help="the store as one .duckdb file for any DuckDB client"
    )
    export.add_argument("file", metavar="FILE")
    export.add_argument("--workload", help="only this one: id, unique id prefix, name or latest")
    export.set_defaults(run=_export)
    trace = commands.add_parser(
        "export-trace", parents=[store], help="a timeline as Chrome trace for Perfetto, with what was found in it"
    )
    trace.add_argument("workload", metavar="WORKLOAD", help="id, unique id prefix, name or latest")
    trace.add_argument("file", metavar="FILE", help="a new .json or .json.gz")
    trace.set_defaults(run=_export_trace)
    return parser


def _serve(options: argparse.Namespace, store: Store) -> int:
    # What is imported here lives as long as the server: collecting garbage meanwhile only costs start-up time.
    gc.disable()
    from .serve import serve

    status = serve(
        store,
        http=options.http,
        read_only=options.read_only,
        allow_exec=options.allow_exec,
        insecure_local=options.insecure_local,
        allowed_hosts=options.allowed_host,
        source_roots=options.source_root,
    )
    # The server has ended: a thread that is still inside a call or waits for input must not hold its process.
    sys.stderr.flush()
    os._exit(status)


def _call(options: argparse.Namespace, store: Store) -> int:
    from ..tools.isolation.limits import keep_freed_memory
    from . import render

    keep_freed_memory()
    text = sys.stdin.read() if options.arguments == "-" else options.arguments
    try:
        arguments = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        print(
            f'The arguments are no JSON: {error}. Example: rooflens call list_workloads \'{{"workload": "latest"}}\'',
            file=sys.stderr,
        )
        return USAGE
    if not isinstance(arguments, dict):
        print('The arguments must be a JSON object, such as \'{"workload": "latest"}\'', file=sys.stderr)
        return USAGE
    began = time.monotonic()
    with allowing(roots_of(options.source_root)):
        found = _finished(store, options.tool, arguments)
    if isinstance(found, Problem):
        log.called(options.tool, time.monotonic() - began, type(found).__name__, len(found.text))
        raise found
    result = found if options.full else render.capped(found, options.tool, arguments)
    text = json.dumps(render.structured(result), ensure_ascii=False)
    log.called(options.tool, time.monotonic() - began, "ok", len(text))
    print(text)
    if problem := getattr(found, "problem", None):
        print(render.clean(problem), file=sys.stderr)
        return REFUSED
    return OK


def _to_a_terminal(activity: str) -> None:
    """Progress, for a person who waits; a script's log does not need it."""
    if sys.stderr.isatty():
        print(activity, file=sys.stderr)


def _finished(store: Store, tool: str, arguments: dict[str, Any]) -> Result | Problem:
    """A tool's answer; a run that it started is waited for, since nothing may outlive this process.

    SIGTERM cancels such a run as an interrupt does, which a shell has its background jobs ignore.
    """
    from ..tools.get_run import LONGEST_WAIT_S, RunResult
    from ..tools.runner import start as launch
    from ..tools.runner.state import FINAL
    from .toolbox import TOOLS, answer

    if any(one.name == tool and one.executes for one in TOOLS):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with listening(_to_a_terminal):
            found = answer(store, tool, arguments)
            while launch.started() and isinstance(found, RunResult) and found.state not in FINAL:
                print(inert(found.progress), file=sys.stderr)
                found = answer(store, "get_run", {"run_id": found.run_id, "wait_s": LONGEST_WAIT_S})
        return found
    except KeyboardInterrupt:
        stopped = launch.started()
        for run_id in stopped:
            answer(store, "cancel_run", {"run_id": run_id})
        if not stopped:
            raise
        return answer(store, "get_run", {"run_id": stopped[-1], "wait_s": LONGEST_WAIT_S})
    finally:
        launch.stop_all()


def _tools(options: argparse.Namespace, store: Store) -> int:
    from .toolbox import TOOLS

    width = max(len(tool.name) for tool in TOOLS)
    for tool in TOOLS:
        print(f"{tool.name:{width}} {tool.description.split('. ')[0].rstrip('.')}")
    return OK


def _report(options: argparse.Namespace, store: Store) -> int:
    from .report import write

    with listening(_to_a_terminal):
        written = write(store, options.workloads, options.output)
    if written is not None:
        print(f"{written}: open it in a browser")
    return OK


def _demo(options: argparse.Namespace, store: Store) -> int:
    from .demo import demo

    return demo(store if _named_store(options) else None)


def _doctor(options: argparse.Namespace, store: Store) -> int:
    from ..tools.machine.model import Roots
    from .bundle import bundle, refuse_existing
    from .doctor import examined

    if options.bundle is not None:
        refuse_existing(Path(options.bundle))
    found = examined(store, Roots())
    for check in found[1]:
        fix = f"\n          fix: {check.fix}" if check.fix and check.state != "ok" else ""
        print(inert(f"{check.state:8}  {check.name}: {check.found}{fix}"))
    if options.bundle is not None:
        bundle(store, Path(options.bundle), lambda line: print(inert(line)), found)
    return OK


def _check(options: argparse.Namespace, store: Store) -> int:
    """The tool, its whole report in a file, and in words what does not hold."""
    from ..tools.get_run import RunResult
    from .bundle import refuse_existing

    target = Path(options.output)
    refuse_existing(target)
    if target.suffix not in (".md", ".json"):
        raise BadArgument(f"{target.name} says no format", fix="Name a .md (for people) or a .json (for programs)")
    found = _finished(store, "check_counters", {"device": options.device} if options.device else {})
    if isinstance(found, Problem):
        raise found
    assert isinstance(found, RunResult)
    for note in [*found.notes, *found.warnings]:
        print(inert(note))
    if found.problem or not found.result.get("report"):
        print(inert(found.problem or found.progress), file=sys.stderr)
        return REFUSED
    written = Path(found.result["report"]).with_suffix(target.suffix)
    target.write_bytes(written.read_bytes())
    short = found.brief({})
    for row in short.check.rows if short.check else []:
        if row[1] == "off":
            print(inert(f"off  {row[0]}: {row[3]:.6g} for {row[2]:.6g} {row[4]} in {row[6]}; {row[8]}"))
    print(f"{target}: the whole report")
    return OK


def _export_trace(options: argparse.Namespace, store: Store) -> int:
    from ..tools.trace_export import export_trace

    written = export_trace(store, options.workload, Path(options.file))
    print(f"{options.file}: {written} events. Open it in https://ui.perfetto.dev or chrome://tracing")
    return OK


def _export(options: argparse.Namespace, store: Store) -> int:
    from ..tools.sql.export import export_db

    target = Path(options.file)
    if target.exists():
        raise BadArgument(f"{target} exists already", fix="Name a new file or delete it first")
    for table, rows in export_db(store, target, options.workload).items():
        print(f"{table}: {rows} rows")
    return OK
