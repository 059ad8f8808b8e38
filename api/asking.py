"""Calls of tools from Python: arguments are checked like those of a client, and a changed store raises a Problem."""

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
