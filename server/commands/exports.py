"""The commands that write a file: `report`, `export-db` and `export-trace`."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ...analysis.store.store import Store, write_atomically
from ..terminal.outcome import Misuse, Outcome
from ..terminal.wording import problem

_UNSAFE = re.compile(r"[^\w.+-]+")
_NAME_CHARACTERS = 80


def write(store: Store, workloads: Sequence[str], output: Path | None) -> Path:
    """Write the page and return its path, which is named after the workloads if ``output`` is None.

    An older report is replaced, but no other file (BadArgument). Raises what ``collect`` raises, and StoreProblem if
    the file cannot be written.
    """
    if output is not None:
        _refuse_others(output)
    names, text = _page(store, workloads)
    target = output or Path(f"rooflens-{_UNSAFE.sub('_', '-'.join(names))[:_NAME_CHARACTERS]}.html")
    _refuse_others(target)
    try:
        write_atomically(target, text)
    except OSError as error:
        raise problem("unwritten_file", file=target, why=error.strerror or error) from error
    return target


def _page(store: Store, workloads: Sequence[str]) -> tuple[list[str], str]:
    """The names of the workloads, and the page about them."""
    from ...tools.report.collect import collect
    from ..mcp.toolbox import functions
    from ..page.build import page

    document = collect(store, functions(), workloads)
    names = [workload["name"] for workload in document["workloads"]]
    return names, page(document, " → ".join(names))


def _refuse_others(target: Path) -> None:
    """Raise BadArgument if ``target`` exists and is not a report of rooflens."""
    from ..page.build import OPENING

    if not target.exists():
        return
    if target.is_file():
        with target.open("rb") as opened:
            if opened.read(len(OPENING)) == OPENING.encode():
                return
    raise problem("not_a_report", file=target)


def write_report(options: Namespace, store: Store) -> Outcome:
    """Write the page, and print its path or the page itself."""
    from ...tools.answers.source_text import allowing, roots_of

    to_output = options.output == "-"
    if to_output and getattr(options, "json", False):
        raise Misuse("-o - and --json both write to the standard output", "Omit one of them")
    with allowing(roots_of(options.source_root)):
        if to_output:
            return Outcome({}, [_page(store, options.workloads)[1].removesuffix("\n")], verbatim=True)
        written = write(store, options.workloads, Path(options.output) if options.output else None)
    return Outcome({"file": str(written)}, [f"{written}: open it in a browser"])


def write_database(options: Namespace, store: Store) -> Outcome:
    """Write the file, and print how many rows each table has."""
    from ...tools.sql.export import export_db
    from ..doctor.bundle import refuse_existing

    target = Path(options.file)
    refuse_existing(target)
    rows = export_db(store, target, options.workload)
    return Outcome(
        {"file": options.file, "rows": rows},
        [f"{table}: {count} rows" for table, count in rows.items()],
    )


def write_trace(options: Namespace, store: Store) -> Outcome:
    """Write the file, and print the number of events."""
    from ...tools.report.trace_export import export_trace

    written = export_trace(store, options.workload, Path(options.file))
    return Outcome(
        {"file": options.file, "events": written},
        [f"{options.file}: {written} events. Open it in ui.perfetto.dev"],
    )
