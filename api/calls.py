"""Methods that are made from tools: arguments are checked as those of clients, and a changed store is a Problem."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

from ..analysis.base.problems import BadArgument, NotAllowed, Problem
from ..analysis.store.integrity import store_problem_behind
from ..analysis.store.store import Store
from ..tools.answers.source_text import allowing, roots_of
from ..tools.base.arguments import model, validate_arguments
from ..tools.base.progress import listening
from ..tools.base.results import Result
from ..tools.cancel_run import cancel_run
from ..tools.get_run import LOOK_S, RunResult, get_run
from ..tools.running.run_state import FINAL
from .answers import Answer

R = TypeVar("R", bound=Result)
Asked = dict[str, Any]
"""The arguments of a tool by name, with its defaults."""
ALL = 1 << 60
"""A row limit that no table reaches."""
_WHOLE: Asked = {"limit": ALL, "top_n": ALL, "detail": "full"}
"""What methods set for tools with such parameters: everything."""
_HIDDEN = frozenset(("store", "workload", "offset", "wait_s"))
"""Parameters of tools that methods do not have."""


def verb(
    tool: Callable[..., R],
    doc: str = "",
    *,
    main: str = "table",
    picture: Callable[..., Any] | None = None,
    subject: str = "workload",
    further: str = "",
    **fixed: Any,
) -> Callable[..., Answer[R]]:
    """Make a method of a store or workload from ``tool``, with its parameters and, without ``doc``, its description.

    It has neither the parameter ``subject``, which is the workload that the method belongs to, nor those that are
    ``fixed``, but a ``further`` one of ``_CONTEXTS``. ``main`` is the main table, and ``picture`` draws the answer.
    """
    known = inspect.signature(tool).parameters
    fixed |= {each: value for each, value in _WHOLE.items() if each in known and each not in fixed}
    shown = inspect.Signature([known[each] for each in known if each not in {*_HIDDEN, subject, *fixed}])

    def method(self: Any, *given: Any, **options: Any) -> Answer[R]:
        options |= shown.bind_partial(*given).arguments
        around = options.pop(further, None)
        asked = check_arguments(tool, options | self._about(subject))
        asked |= {each: value for each, value in fixed.items() if each not in options}
        with nullcontext() if around is None else _CONTEXTS[further](around):
            result = (wait_for_result if "wait_s" in known else call)(self._store, tool, asked)
        return Answer(result, main, picture and partial(picture, self._store, result, asked))

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *shown.parameters.values()]
    if further:
        parameters.append(inspect.Parameter(further, inspect.Parameter.KEYWORD_ONLY, default=None))
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    method.__name__, method.__doc__ = tool.__name__, doc or tool.__doc__
    method.__annotations__["return"] = f"Answer[{tool.__annotations__['return']}]"
    return method


def _sources(folders: Sequence[str | Path]) -> AbstractContextManager[None]:
    return allowing(roots_of([str(folder) for folder in folders]))


_CONTEXTS: dict[str, Callable[[Any], AbstractContextManager[None]]] = {"progress": listening, "source_roots": _sources}
"""Further parameters of methods, and the contexts in which the tool is called if they are given."""


def call(store: Store, tool: Callable[..., R], asked: Asked) -> R:
    """The result of a tool for checked arguments."""
    with changing(store):
        return tool(store, **asked)


def wait_for_result(store: Store, tool: Callable[..., Any], asked: Asked) -> Any:
    """Start a run with ``tool``, wait for it and return its result; what it is doing is reported meanwhile.

    Raises RunFailed if the run fails, and NotAllowed if the store is open for reading only. An interrupt, or an
    exception that a listener raises, cancels the run.
    """
    if store.read_only:
        raise NotAllowed("Nothing can be run", "the store is open for reading only", "Open it without read_only")
    result = call(store, tool, {**asked, "wait_s": 0})
    try:
        while result.state not in FINAL:
            result = get_run(store, result.run_id, wait_s=LOOK_S)
    except BaseException:
        cancel_run(store, result.run_id)
        raise
    if result.state != "done":
        raise RunFailed(result)
    return result


def check_arguments(tool: Callable[..., Any], arguments: Mapping[str, Any]) -> Asked:
    """The validated arguments, with defaults for those that are None. The number of dispatches is not limited as for
    clients. Raises BadArgument for what the tool does not accept."""
    given = {name: _plain(value) for name, value in arguments.items() if value is not None}
    if isinstance(metric := given.get("metrics"), str):
        given["metrics"] = [metric]
    ids = given.pop("dispatches") if isinstance(given.get("dispatches"), list) else None
    asked = validate_arguments(tool.__name__, model(tool), given)
    if ids is None:
        return asked
    if not all(isinstance(each, Integral) for each in ids):
        raise BadArgument("dispatches cannot be read", fix='Give ids, or a text such as "0,2,5-9"')
    return {**asked, "dispatches": [*map(int, ids)]}


def _plain(value: Any) -> Any:
    """A value as clients send it: paths and workloads as texts, series and tuples as lists."""
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else getattr(value, "id", value)


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
