"""Calls of tools from Python, with checked arguments; a changed store raises a Problem. Comparisons and reports."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..analysis.base.problems import BadArgument, NotAllowed, Problem
from ..analysis.base.text import shorten
from ..analysis.store.integrity import store_problem_behind
from ..analysis.store.store import Store
from ..analysis.workload import Workload
from ..tools.answers.comparison_tables import EVERYTHING
from ..tools.base.arguments import model, validate_arguments
from ..tools.base.progress import Activity, Listener, listening
from ..tools.base.results import Result
from ..tools.base.untrusted_text import plain_log_text
from ..tools.cancel_run import cancel_run
from ..tools.compare_workloads import CompareResult, ComparisonRequest, compare_workloads, comparison_result
from ..tools.get_run import LONGEST_WAIT_S, RunResult, get_run
from ..tools.plot import Drawn, draw_comparison
from ..tools.running.run_state import FINAL
from .answers import Answer
from .display import WIDTH_PX

if TYPE_CHECKING:
    from ..analysis.plot.bars import ComparedWork
    from .workload import OpenWorkload


R = TypeVar("R", bound=Result)
Made = TypeVar("Made")
Asked = dict[str, Any]
"""The arguments of a tool by name, with its defaults."""
Dispatches = str | Iterable[int] | None
"""Ids of dispatches, or a text such as "0,2,5-9"."""
_SUMMARY = 300
"""The maximum number of characters of the summary in the picture."""
ALL = 1 << 60
"""A row limit that no table reaches."""
_WHOLE: Asked = {"limit": ALL, "top_n": ALL, "detail": "full"}
"""The defaults of methods, for tools with such parameters: everything."""
_OURS = ("store", "workload", "offset", "wait_s")
"""Parameters of tools that methods set themselves."""
_STEP_S = 2.0


def asks(
    tool: Callable[..., R], *order: str, listened: bool = False, **defaults: Any
) -> Callable[[Callable[[Any, R, Asked], Made]], Callable[..., Made]]:
    """Make a method from a function of the answer of ``tool``. It has the parameters of the tool, those in ``order``
    first, with other ``defaults``; ``progress`` too, if it is ``listened`` to."""
    known = inspect.signature(tool).parameters
    ours = {**{name: value for name, value in _WHOLE.items() if name in known}, **defaults}
    hidden = {*_OURS, *(_WHOLE.keys() ^ defaults.keys())}
    shown = [*order, *(name for name in known if name not in hidden.union(order))]
    kinds = {True: inspect.Parameter.POSITIONAL_OR_KEYWORD, False: inspect.Parameter.KEYWORD_ONLY}
    parameters = [
        known[name].replace(kind=kinds[name in order], default=defaults.get(name, known[name].default))
        for name in shown
    ]
    heard = [inspect.Parameter("progress", kinds[False], default=None)] if listened else []

    def decorate(made: Callable[[Any, R, Asked], Made]) -> Callable[..., Made]:
        @functools.wraps(made)
        def method(self: Any, *given: Any, **options: Any) -> Made:
            if len(given) > len(order):
                raise TypeError(f"{made.__name__} takes at most {len(order)} arguments without a name")
            progress = options.pop("progress", None) if listened else None
            arguments = {**ours, **dict(zip(order, given, strict=False)), **options, **self._about}
            asked = check_arguments(tool, arguments)
            wait = wait_for_result if "wait_s" in known else call
            return made(self, wait(self._store, tool, asked, progress), asked)

        own = inspect.Parameter("self", kinds[True])
        method.__signature__ = inspect.Signature([own, *parameters, *heard])  # type: ignore[attr-defined]
        return method

    return decorate


def call(store: Store, tool: Callable[..., R], asked: Asked, progress: Listener | None) -> R:
    """The answer of a tool to checked arguments; ``progress`` is called with what it is doing."""
    with changing(store), listening(progress) if progress else nullcontext():
        return tool(store, **asked)


def wait_for_result(store: Store, tool: Callable[..., Any], asked: Asked, progress: Listener | None) -> Any:
    """Start a run with ``tool``, wait for it and return its result; ``progress`` is called with what it is doing.

    Raises RunFailed if the run fails, and NotAllowed if the store is open for reading only. An interrupt, or an
    exception that ``progress`` raises, cancels the run.
    """
    if store.read_only:
        raise NotAllowed("Nothing can be run", "the store is open for reading only", "Open it without read_only")
    with listening(progress) if progress else nullcontext():
        result = call(store, tool, {**asked, "wait_s": 0}, None)
        told = ""
        try:
            while result.state not in FINAL:
                if progress and result.progress != told:
                    told = result.progress
                    progress(Activity(told))
                result = get_run(store, result.run_id, wait_s=_STEP_S if progress else LONGEST_WAIT_S)
        except BaseException:
            cancel_run(store, result.run_id)
            raise
    if result.state != "done":
        raise RunFailed(result)
    return result


def check_arguments(tool: Callable[..., Any], arguments: Mapping[str, Any]) -> Asked:
    """The validated arguments, with defaults for those that are None. Limits for clients hold neither for the number of
    dispatches nor for ALL. Raises BadArgument for what the tool does not accept."""
    given = {name: plain(name, value) for name, value in arguments.items() if value is not None}
    free = {name: given.pop(name) for name, value in [*given.items()] if name == "dispatches" or value is ALL}
    return {**validate_arguments(tool.__name__, model(tool), given), **free}


def plain(name: str, value: Any) -> Any:
    """A value as clients send it: paths as texts, series and tuples as lists, one metric as a list."""
    if name == "dispatches":
        return dispatch_ids(value)
    if isinstance(value, Path):
        return str(value)
    if name == "metrics" and isinstance(value, str):
        return [value]
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        return value
    return list(value)


def dispatch_ids(dispatches: Dispatches) -> str | list[int] | None:
    """The dispatch ids as integers. Raises BadArgument for anything else."""
    if dispatches is None or isinstance(dispatches, str):
        return dispatches
    try:
        return [int(i) for i in dispatches]
    except (TypeError, ValueError) as error:
        raise BadArgument("dispatches cannot be read", str(error), 'Give ids, or a text such as "0,2,5-9"') from error


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
    store: Store,
    baseline: str | OpenWorkload,
    candidate: str | OpenWorkload | Sequence[str | OpenWorkload],
    options: Mapping[str, Any],
) -> Answer[CompareResult]:
    """The complete answer of compare_workloads. ``options`` are its other arguments."""
    candidates = candidate if isinstance(candidate, Sequence) and not isinstance(candidate, str) else [candidate]
    words = [one if isinstance(one, str) else one.id for one in (baseline, *candidates)]
    asked = check_arguments(compare_workloads, {**options, "baseline": words[0], "candidate": words[1:]})
    kernel, by = asked["kernel"], asked["by"]
    hypothesis, change = plain_log_text(asked["hypothesis"]), plain_log_text(asked["change"])
    request = ComparisonRequest(
        words[0], words[1:], kernel, by, asked["group"], asked["checked"], hypothesis, change, asked["metrics"] or ()
    )
    with changing(store):
        result = comparison_result(store, request, EVERYTHING)

    def drawing() -> Drawn:
        ids = result.baseline, result.candidates[0]
        with (
            changing(store),
            Workload.open(store, ids[0], kernel, by) as before,
            Workload.open(store, ids[1], kernel, by) as after,
        ):
            return draw_comparison(before, after, kernel, WIDTH_PX, _outcome(result))

    return Answer(result, f"Comparison of {words[0]} with {', '.join(words[1:])}", drawing)


def _outcome(result: CompareResult) -> ComparedWork:
    """The result for the baseline and the first candidate, in words, and whether both did the same work."""
    from ..analysis.plot.bars import ComparedWork

    verdict, same_work = result.verdict, result.same_work
    if len(result.candidates) > 1:
        first = result.kernels.records()[1]
        verdict, same_work = first["verdict"], first["same_work"]
    text = f"Verdict: {verdict}. Same work: {same_work}. {shorten(result.answer or '', _SUMMARY)}"
    return ComparedWork(text, same_work)


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
