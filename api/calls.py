"""Calls of tools from Python, with checked arguments; a changed store raises a Problem. Comparisons and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..analysis.base.problems import BadArgument, Problem
from ..analysis.base.text import shorten
from ..analysis.store.integrity import store_problem_behind
from ..analysis.store.store import Store
from ..tools.base.arguments import model, validate_arguments
from ..tools.base.results import Result
from ..tools.base.untrusted_text import plain_log_text

if TYPE_CHECKING:
    from ..analysis.plot.bars import ComparedWork
    from ..tools.compare_workloads import CompareResult
    from ..tools.get_run import RunResult
    from ..tools.plot import Drawn
    from .answers import Answer
    from .workload import OpenWorkload


R = TypeVar("R", bound=Result)
_SUMMARY = 300
"""The maximum number of characters of the summary in the picture."""
ALL = 1 << 60
"""A row limit that no table reaches."""


def ask(store: Store, tool: Callable[..., R], arguments: dict[str, Any], **beyond: Any) -> R:
    """The answer of a tool. ``beyond`` are arguments that are not checked against the limits for clients.

    Raises BadArgument for arguments that the tool does not accept, and every Problem of the tool.
    """
    given = check_arguments(tool, arguments)
    with changing(store):
        return tool(store, **{**given, **beyond})


def check_arguments(tool: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The validated arguments; those that are None are omitted, so that the tool uses its defaults."""
    given = {name: value for name, value in arguments.items() if value is not None}
    return validate_arguments(tool.__name__, model(tool), given)


@contextmanager
def changing(store: Store) -> Iterator[None]:
    """Convert the errors of a store file that vanishes while it is read into a StoreProblem."""
    import duckdb

    try:
        yield
    except (OSError, duckdb.Error) as error:
        if problem := store_problem_behind(store, error):
            raise problem from error
        raise


class RunFailed(Problem):
    """A run ended without a result; ``result`` has its output, and its id, with which its files can be found."""

    def __init__(self, result: RunResult) -> None:
        self.result = result
        what = result.problem or f"The run {result.run_id} was {result.state}"
        printed = f"It printed: {result.output}" if result.output else ""
        kept = f"The finished part was stored as workload {result.workload}" if result.workload else ""
        super().__init__(what, printed, kept)


def compare(
    store: Store, baseline: str | OpenWorkload, candidates: Sequence[str | OpenWorkload], options: Mapping[str, Any]
) -> Answer[CompareResult]:
    """The complete answer of compare_workloads. ``options`` are its other arguments."""
    from ..analysis.workload import Workload
    from ..tools.answers.comparison_tables import EVERYTHING
    from ..tools.compare_workloads import ComparisonRequest, compare_workloads, comparison_result
    from ..tools.plot import draw_comparison as drawn
    from .answers import Answer
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
        given["metrics"] or (),
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

    title = f"Comparison of {words[0]} with {', '.join(words[1:])}"
    return Answer(result, title, drawing)


def _outcome(result: CompareResult) -> ComparedWork:
    """The result for the baseline and the first candidate, in words, and whether both did the same work."""
    from ..analysis.plot.bars import ComparedWork

    verdict, same_work = result.verdict, result.same_work
    if len(result.candidates) > 1:
        first = dict(zip(result.kernels.columns, result.kernels.rows[1], strict=True))
        verdict, same_work = first["verdict"], first["same_work"]
    text = f"Verdict: {verdict}. Same work: {same_work}. {shorten(result.answer or '', _SUMMARY)}"
    return ComparedWork(text, same_work)


def _word(workload: str | OpenWorkload) -> str:
    return workload if isinstance(workload, str) else workload.id


def report(store: Store, workloads: Sequence[str], output: str | Path | None) -> Path:
    """Write the HTML page about some workloads and return its path. The first workload is the baseline of the others.

    Raises a Problem like `rooflens report` does: for unknown workloads, for more than eight, and if the file exists.
    """
    # The page belongs to the server, which also offers it to clients as an app. There should be only one page.
    from ..server.commands.exports import write

    if str(output) == "-":
        raise BadArgument("The page cannot be written to '-'", fix="Name a file")
    with changing(store):
        written = write(store, workloads, None if output is None else str(output))
    assert written is not None
    return written.absolute()
