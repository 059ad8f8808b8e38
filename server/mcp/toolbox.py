"""The tools by name, their argument schemas, and the only place where Problems become answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, get_type_hints

import pydantic

from ...analysis.base.problems import BadArgument, LimitExceeded, NotFound, Problem, near
from ...analysis.base.text import shorten
from ...analysis.store.integrity import store_problem_behind
from ...analysis.store.store import Store
from ...tools.base.arguments import model, validate_arguments
from ...tools.base.results import Result
from ..terminal.log import logger

OK = "ok"
_PACKAGE = __package__.removesuffix(".server.mcp") + ".tools"


@dataclass(frozen=True)
class Tool:
    """One tool: the function ``name`` of the module tools/``name``.py, which is imported when it is first needed.

    Its first parameter is the store, and its docstring is the description.
    """

    name: str
    writes: bool = False
    executes: bool = False
    """Whether it runs, or ends, programs of the caller's choice, and therefore requires --allow-exec."""
    notes: bool = False
    """Whether it adds to the experiment log on request; in a read-only server it works without the log."""
    waits: bool = False
    """Whether it can wait (``wait_s``) for a run, like get_run."""

    @cached_property
    def function(self) -> Callable[..., Result]:
        """The function, after the import of its module."""
        function: Callable[..., Result] = getattr(import_module(f"{_PACKAGE}.{self.name}"), self.name)
        return function

    @property
    def description(self) -> str:
        return " ".join((self.function.__doc__ or "").split())

    @property
    def arguments(self) -> type[pydantic.BaseModel]:
        """The model of the arguments; unknown names are rejected."""
        return model(self.function)

    @property
    def schemas(self) -> dict[str, Any]:
        """The schema of each argument by its name."""
        schemas: dict[str, Any] = parameters(self.arguments).get("properties", {})
        return schemas

    @cached_property
    def result(self) -> type[Result]:
        """The model of the result."""
        hinted: type[Result] = get_type_hints(self.function)["return"]
        return hinted

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The validated arguments. Raises a Problem that states which one is invalid and what is allowed."""
        return validate_arguments(self.name, self.arguments, arguments)


TOOLS = (
    Tool("list_devices"),
    Tool("run_peak_benchmarks", writes=True, executes=True, waits=True),
    Tool("check_counters", writes=True, executes=True, waits=True),
    Tool("plan_profile"),
    Tool("profile_command", writes=True, executes=True, waits=True),
    Tool("get_run", waits=True),
    Tool("cancel_run", writes=True, executes=True),
    Tool("import_profile", writes=True),
    Tool("list_workloads"),
    Tool("search_metrics"),
    Tool("compute_metrics"),
    Tool("query_counters"),
    Tool("compute_roofline"),
    Tool("compute_occupancy"),
    Tool("compute_timeline"),
    Tool("diagnose_bottleneck"),
    Tool("find_hotspots"),
    Tool("compare_workloads", notes=True),
    Tool("plot", writes=True),
)


def tool_named(name: str) -> Tool:
    """The tool with this name; KeyError if there is none."""
    return {tool.name: tool for tool in TOOLS}[name]


def functions() -> dict[str, Callable[..., Result]]:
    """The functions of all tools by name, for callers that combine their answers."""
    return {tool.name: tool.function for tool in TOOLS}


def tools(*, read_only: bool = False, allow_exec: bool = True) -> tuple[Tool, ...]:
    """The offered tools: those that execute only with ``allow_exec``, and none that writes if ``read_only``.

    get_run is always offered, because another process that shares the store may have started a run.
    """
    return tuple(
        t for t in TOOLS if not (read_only and (t.writes or t.executes)) and not (t.executes and not allow_exec)
    )


def call(store: Store, name: str, arguments: dict[str, Any], *, allow_exec: bool = True) -> Result:
    """Call one tool. Raises Problem for everything that the caller can correct."""
    known = {t.name: t for t in tools(read_only=store.read_only, allow_exec=allow_exec)}
    if name not in known:
        raise NotFound(f"There is no tool {shorten(name, 60)!r}", near(name, known), f"Tools: {', '.join(known)}")
    result = known[name].function(store, **known[name].validate(arguments))
    return result.model_copy(update={"next": [c for c in result.next if c.tool in known]})


def answer(store: Store, name: str, arguments: dict[str, Any], *, allow_exec: bool = True) -> Result | Problem:
    """Call a tool and return a Problem as a value; any other exception is a bug, which is logged to stderr."""
    try:
        return call(store, name, arguments, allow_exec=allow_exec)
    except Problem as problem:
        return problem
    except Exception as error:  # noqa: BLE001 - no bug may reach the client
        if mendable := _mendable(store, name, error):
            # If memory is missing, the log states where, because it may be a bug.
            logger.warning("%s: %s", name, mendable.what, exc_info=isinstance(mendable, LimitExceeded))
            return mendable
        logger.exception("%s failed", name)
        return internal_failure(name)


def outcome(answer: Result | Problem) -> str:
    """The outcome of a call as one word: ``OK``, or the class of the problem."""
    return type(answer).__name__ if isinstance(answer, Problem) else OK


def internal_failure(tool: str) -> Problem:
    """The Problem for a bug."""
    return Problem(
        f"rooflens failed inside {tool}",
        "this is a bug in rooflens; its traceback is in the server's log",
        "Report it with that traceback",
    )


def _mendable(store: Store, name: str, error: Exception) -> Problem | None:
    """A Problem for errors of Python, DuckDB or the system that are caused by the caller or another process."""
    if isinstance(error, RecursionError):
        what, why = f"{name} cannot process this", "an argument, or the data it refers to, is nested too deeply"
        return BadArgument(what, why, "Use a simpler one")
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return LimitExceeded(f"{name} needs more memory than is available", fix="Request less at once")
    return store_problem_behind(store, error)


_SILENT = (
    "title", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "propertyNames",
)  # fmt: skip
"""Keywords that are removed: generated titles are meaningless, and bounds are checked when a tool is called."""
_NULL = {"type": "null"}


def parameters(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The input schema, without generated titles, null for optional values, and the rule about unknown names.

    There is no output schema: a model reads the fields from the result itself.
    """
    compact: dict[str, Any] = _compact(model.model_json_schema())
    compact.pop("additionalProperties", None)
    return compact


def _compact(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_compact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept_fields = {
        k: _compact(v) for k, v in schema.items() if k not in _SILENT or (isinstance(v, dict) and k != "propertyNames")
    }
    choices = [c for c in kept_fields.get("anyOf", []) if c != _NULL]
    if len(choices) == 1:
        # An optional value is normally omitted; null is accepted as well, but not mentioned.
        del kept_fields["anyOf"]
        kept_fields |= choices[0]
    elif choices and all(set(c) <= {"type", "items"} for c in choices):
        # At most one of several types has items, so the types can be merged.
        del kept_fields["anyOf"]
        kept_fields |= {k: v for c in choices for k, v in c.items()} | {"type": [c["type"] for c in choices]}
    if "default" in kept_fields and (
        not kept_fields["default"] or kept_fields["default"] == next(iter(kept_fields.get("enum", [])), None)
    ):
        # The default is omitted if it is null, 0, false, empty, or the first choice.
        del kept_fields["default"]
    return kept_fields
