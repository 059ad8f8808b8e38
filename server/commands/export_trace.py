"""`rooflens export-trace`: write a timeline for Perfetto."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "write a timeline with its findings as a Chrome trace, for Perfetto"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument("workload", metavar="WORKLOAD", help="id, unique id prefix, name or latest")
    parser.add_argument("file", metavar="FILE", help="a new .json or .json.gz")


def execute(options: Namespace, store: Store) -> Outcome:
    """Write the file, and print the number of events."""
    from ...tools.report.trace_export import export_trace

    written = export_trace(store, options.workload, Path(options.file))
    return Outcome(
        {"file": options.file, "events": written},
        [f"{options.file}: {written} events. Open it in ui.perfetto.dev"],
    )
