"""`rooflens report`: the page about workloads, in a file that opens from disk."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from ...analysis.base.problems import BadArgument, StoreProblem
from ...analysis.store.store import Store, write_atomically
from ..terminal.outcome import OK, Misuse, Outcome

HELP = "one HTML page for people: opens from disk, asks nothing of any network"
_UNSAFE = re.compile(r"[^\w.+-]+")
_NAME_CHARACTERS = 80


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "workloads",
        metavar="WORKLOAD",
        nargs="+",
        help="id, unique id prefix, name or latest; the first is the baseline of the others",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write it (rooflens-WORKLOAD.html here); - for the output"
    )


def execute(options: Namespace, store: Store) -> int | Outcome:
    """Write it, and say where."""
    if options.output == "-" and getattr(options, "json", False):
        raise Misuse("-o - writes the page to the output, where --json writes facts", "Leave one of them out")
    written = write(store, options.workloads, options.output)
    if written is None:
        return OK
    return Outcome({"file": str(written)}, [f"{written}: open it in a browser"])


def write(store: Store, workloads: Sequence[str], output: str | None) -> Path | None:
    """Write the page and return its path; None where it went to the standard output ("-").

    An older report is replaced, any other file is left alone (BadArgument). Raises what ``collect`` raises, and
    StoreProblem where the file cannot be written.
    """
    from ...tools.report.collect import collect
    from ..mcp.toolbox import FUNCTIONS
    from ..page.build import page

    target = None if output in (None, "-") else Path(str(output))
    if target is not None:
        _refuse_others(target)
    document = collect(store, FUNCTIONS, workloads)
    names = [workload["name"] for workload in document["workloads"]]
    text = page(document, " → ".join(names))
    if output == "-":
        sys.stdout.write(text)
        return None
    if target is None:
        target = Path(f"rooflens-{_UNSAFE.sub('_', '-'.join(names))[:_NAME_CHARACTERS]}.html")
        _refuse_others(target)
    try:
        write_atomically(target, text)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreProblem(f"{target} cannot be written", why, "Name a file in a writable folder") from error
    return target


def _refuse_others(target: Path) -> None:
    """Raise where ``target`` is there and no report of ours."""
    from ..page.build import OPENING

    if not target.exists():
        return
    if target.is_file():
        with target.open("rb") as opened:
            if opened.read(len(OPENING)) == OPENING.encode():
                return
    raise BadArgument(f"{target} exists and is no report", fix="Name a new file or delete it first")
