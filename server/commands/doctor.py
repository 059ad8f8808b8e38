"""`rooflens doctor`: check what works on this machine."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "check what works on this machine, what is missing, and how to fix it"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        help="also write a text for a bug report: versions, devices, permissions, help texts of the profilers, "
        "the logs of the newest failed run; without variables, secrets, host and user names",
    )


def execute(options: Namespace, store: Store) -> Outcome:
    """Run every check, and write the file of --bundle."""
    from ...tools.device.machine.model import Roots
    from ..doctor.bundle import bundle, refuse_existing
    from ..doctor.examination import examine

    if options.bundle is not None:
        refuse_existing(Path(options.bundle))
    examination = examine(store, Roots())
    words = []
    for check in examination[1]:
        fix = f"\n          fix: {check.fix}" if check.fix and check.state != "ok" else ""
        words.append(f"{check.state:8}  {check.name}: {check.found}{fix}")
    facts: dict[str, Any] = {"checks": [check.model_dump() for check in examination[1]], "bundle": options.bundle}
    if options.bundle is not None:
        bundle(store, Path(options.bundle), words.append, examination)
    return Outcome(facts, words)
