"""`rooflens check`: check_counters on this machine, its whole report in a file."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ...analysis.problems import BadArgument, Problem
from ...analysis.store import Store
from ...analysis.text import inert
from ..exits import OK, REFUSED
from .shared import finished

HELP = "check_counters on this machine: which metrics hold here; writes a report to send, without personal data"


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--output", metavar="FILE", default="rooflens-check.md", help="a new .md or .json (default: rooflens-check.md)"
    )
    parser.add_argument("--device", help="index or uuid; default: the first GPU")


def run(options: Namespace, store: Store) -> int:
    """The tool, its whole report in a file, and in words what does not hold."""
    from ...tools.get_run import RunResult
    from ..bundle import refuse_existing

    target = Path(options.output)
    refuse_existing(target)
    if target.suffix not in (".md", ".json"):
        raise BadArgument(f"{target.name} says no format", fix="Name a .md (for people) or a .json (for programs)")
    found = finished(store, "check_counters", {"device": options.device} if options.device else {})
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
