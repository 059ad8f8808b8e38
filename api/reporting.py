"""The page of `rooflens report` from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..analysis.base.problems import BadArgument
from ..analysis.store.store import Store
from .asking import changing


def report(store: Store, workloads: Sequence[str], output: str | Path | None) -> Path:
    """Write the page about some workloads, the first of which is the baseline of the others, and return its path.

    Raises what `rooflens report` refuses: unknown workloads, more than eight, another file in the way.
    """
    # The page is the server's, which offers it to clients as an app; building it twice would make two of it.
    from ..server.commands.report import write

    if str(output) == "-":
        raise BadArgument("The page cannot be written to '-'", fix="Name a file")
    with changing(store):
        written = write(store, workloads, None if output is None else str(output))
    assert written is not None
    return written.absolute()
