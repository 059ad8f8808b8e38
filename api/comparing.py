"""Comparisons of a baseline with candidates, with a picture of the first candidate, and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.base.problems import BadArgument
from ..analysis.base.text import shorten
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from ..tools.answers.comparison_tables import EVERYTHING
from ..tools.base.untrusted_text import plain_log_text
from .asking import changing, check_arguments
from .workload import OpenWorkload

if TYPE_CHECKING:
    from ..tools.compare_workloads import CompareResult
    from ..tools.plot import Drawn
    from .answers import ComparisonAnswer


_SUMMARY = 300
"""The maximum number of characters of the summary in the picture."""


def compare(
    store: Store, baseline: str | OpenWorkload, candidates: Sequence[str | OpenWorkload], options: Mapping[str, Any]
) -> ComparisonAnswer:
    """The complete answer of compare_workloads. ``options`` are its other arguments."""
    from ..tools.compare_workloads import ComparisonRequest, compare_workloads, comparison_result
    from ..tools.plot import draw_comparison as drawn
    from .answers import ComparisonAnswer
    from .display import WIDTH_PX

    words = [_word(one) for one in (baseline, *candidates)]
    given = check_arguments(compare_workloads, {**options, "baseline": words[0], "candidate": words[1:]})
    kernel, by = given["kernel"], given["by"]
    asked = ComparisonRequest(
        words[0],
        words[1:],
        kernel,
        by,
        given["group"],
        given["checked"],
        plain_log_text(given["hypothesis"]),
        plain_log_text(given["change"]),
    )
    with changing(store):
        result = comparison_result(store, asked, EVERYTHING)

    def drawing() -> Drawn:
        ids = result.baseline, result.candidates[0]
        with (
            changing(store),
            Workload.open(store, ids[0], kernel, by) as before,
            Workload.open(store, ids[1], kernel, by) as after,
        ):
            return drawn(before, after, kernel, WIDTH_PX, _outcome(result))

    return ComparisonAnswer(result, drawing)


def _outcome(result: CompareResult) -> str:
    """The result for the baseline and the first candidate, as a sentence."""
    verdict, same_work = result.verdict, result.same_work
    if len(result.candidates) > 1:
        first = dict(zip(result.kernels.columns, result.kernels.rows[1], strict=True))
        verdict, same_work = first["verdict"], first["same_work"]
    return f"Verdict: {verdict}. Same work: {same_work}. {shorten(result.summary, _SUMMARY)}"


def _word(workload: str | OpenWorkload) -> str:
    return workload if isinstance(workload, str) else workload.id


def report(store: Store, workloads: Sequence[str], output: str | Path | None) -> Path:
    """Write the HTML page about some workloads and return its path. The first workload is the baseline of the others.

    Raises a Problem like `rooflens report` does: for unknown workloads, for more than eight, and if the file exists.
    """
    # The page belongs to the server, which also offers it to clients as an app. There should be only one page.
    from ..server.commands.report import write

    if str(output) == "-":
        raise BadArgument("The page cannot be written to '-'", fix="Name a file")
    with changing(store):
        written = write(store, workloads, None if output is None else str(output))
    assert written is not None
    return written.absolute()
