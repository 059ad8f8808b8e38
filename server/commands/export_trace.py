"""`rooflens export-trace`: a timeline for Perfetto."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "a timeline as Chrome trace for Perfetto, with what was found in it"


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("workload", metavar="WORKLOAD", help="id, unique id prefix, name or latest")
    parser.add_argument("file", metavar="FILE", help="a new .json or .json.gz")


def execute(options: Namespace, store: Store) -> Outcome:
    """Write it, and say how much it holds."""
    from ...tools.report.trace_export import export_trace

    written = export_trace(store, options.workload, Path(options.file))
    return Outcome(
        {"file": options.file, "events": written},
        [f"{options.file}: {written} events. Open it in ui.perfetto.dev"],
    )
