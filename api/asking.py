"""How the tools are asked: arguments checked as a client's are, and a store that changed told in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ..analysis.base.problems import Problem
from ..analysis.store.integrity import store_problem_behind
from ..analysis.store.store import Store
from ..tools.base.arguments import model, validate_arguments
from ..tools.base.results import Result

if TYPE_CHECKING:
    from ..tools.get_run import RunResult


R = TypeVar("R", bound=Result)
ALL = 1 << 60
"""A limit that no table reaches."""


def ask(store: Store, tool: Callable[..., R], arguments: dict[str, Any], **beyond: Any) -> R:
    """The answer of a tool. ``beyond`` are arguments that no bound of a client's holds for.

    Raises BadArgument for what the tool does not take, and every Problem of the tool.
    """
    given = check_arguments(tool, arguments)
    with changing(store):
        return tool(store, **{**given, **beyond})


def check_arguments(tool: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the tool takes them; those that are None are left to it."""
    given = {name: value for name, value in arguments.items() if value is not None}
    return validate_arguments(tool.__name__, model(tool), given)


@contextmanager
def changing(store: Store) -> Iterator[None]:
    """Within, a file of the store that vanishes while it is read is a StoreProblem."""
    import duckdb

    try:
        yield
    except (OSError, duckdb.Error) as error:
        if problem := store_problem_behind(store, error):
            raise problem from error
        raise


class RunFailed(Problem):
    """A run that ended without what it was started for; ``result`` has its output, and its id for the files it left."""

    def __init__(self, result: RunResult) -> None:
        self.result = result
        what = result.problem or f"The run {result.run_id} was {result.state}"
        printed = f"It printed: {result.output}" if result.output else ""
        kept = f"What had finished is workload {result.workload}" if result.workload else ""
        super().__init__(what, printed, kept)
