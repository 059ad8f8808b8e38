"""Validation of the arguments of a tool call: size, text and number checks, with readable error messages."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, get_type_hints

import pydantic

from ...analysis.base.problems import BadArgument, LimitExceeded, near
from ...analysis.base.text import shorten
from .parameters import parameter_facts
from .untrusted_text import plain_text

MOST_CHARACTERS = 1_000_000
"""Limit on the characters of all arguments of one call together."""
_MOST_VALUES = 200_000
_DEEPEST = 16
_NAMED = 60
"""Characters of an argument name that an error message repeats."""
_TOLD = 300
_KINDS = ("function-", "list[", "dict[", "str", "int", "float", "constrained-", "lax-or-strict", "nullable")
"""Prefixes that pydantic adds to the location of an error to name the alternatives of a type."""


@cache
def model(function: Callable[..., Any]) -> type[pydantic.BaseModel]:
    """Return the pydantic model of the arguments of a tool, without its first parameter (the store).

    The model rejects unknown argument names.
    """
    hints, facts = get_type_hints(function, include_extras=True), parameter_facts(function.__name__)
    fields: dict[str, Any] = {
        p.name: (
            Annotated[hints[p.name], pydantic.Field(**facts.get(p.name, {}))],
            ... if p.default is inspect.Parameter.empty else p.default,
        )
        for p in list(inspect.signature(function).parameters.values())[1:]
    }
    return pydantic.create_model(
        f"{function.__name__}_arguments", __config__=pydantic.ConfigDict(extra="forbid"), **fields
    )


def validate_arguments(tool: str, model: type[pydantic.BaseModel], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the validated arguments; BadArgument or LimitExceeded name the wrong argument and what is allowed."""
    left = [MOST_CHARACTERS, _MOST_VALUES]
    for name, value in arguments.items():
        _sound(tool, _place_name(name), value, name in _switches(model), left)
    try:
        arguments_model = model.model_validate(arguments)
    except pydantic.ValidationError as error:
        raise _explain_errors(tool, model, error) from None
    return {name: getattr(arguments_model, name) for name in type(arguments_model).model_fields}


def prepare(model: type[pydantic.BaseModel]) -> None:
    """Compute what is cached per model before the first call, so that no call has to wait for it."""
    _switches(model)


def _sound(tool: str, name: str, value: Any, switch: bool, left: list[int]) -> None:
    """Reject values that no argument may contain: too large, lone surrogates, NUL, NaN, booleans for numbers."""

    def bad(why: str) -> BadArgument:
        return BadArgument(f"Bad arguments for {tool}", f"{name}: {why}")

    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        left[1] -= 1
        if isinstance(part, str):
            left[0] -= len(part)
            if left[0] >= 0 and not part.isascii() and any("\ud800" <= c <= "\udfff" for c in part):
                raise bad("it contains half of a surrogate pair, which is not a character")
            if left[0] >= 0 and "\0" in part:
                raise bad("it contains a NUL character")
        elif isinstance(part, bool):
            if not switch:
                raise bad("true and false are not valid values for it")
        elif isinstance(part, float):
            if not math.isfinite(part):
                raise bad("NaN and Infinity are not accepted")
        elif isinstance(part, int):
            left[0] -= part.bit_length() // 4
        elif isinstance(part, dict):
            waiting += [(k, depth + 1) for k in part] + [(v, depth + 1) for v in part.values()]
        elif isinstance(part, list | tuple):
            waiting += [(v, depth + 1) for v in part]
        if min(left) < 0 or len(waiting) > left[1]:
            raise LimitExceeded(
                f"The arguments of {tool} are too large",
                f"with {name} they exceed {MOST_CHARACTERS:,} characters or {_MOST_VALUES:,} values in total",
                "Ask for less at once",
            )
        if depth > _DEEPEST:
            raise bad("it is nested too deeply")


@cache
def _switches(model: type[pydantic.BaseModel]) -> frozenset[str]:
    """Return the names of the arguments that accept true and false."""
    properties = model.model_json_schema()["properties"]
    return frozenset(name for name, schema in properties.items() if '"boolean"' in json.dumps(schema))


def _explain_errors(tool: str, model: type[pydantic.BaseModel], error: pydantic.ValidationError) -> BadArgument:
    names = list(model.model_fields)
    parts = []
    for item in error.errors(include_url=False)[:4]:
        where = ".".join(_place_name(p) for p in item["loc"] if p == item["loc"][0] or not str(p).startswith(_KINDS))
        if item["type"] == "extra_forbidden":
            parts.append(f"{tool} has no argument {where!r}. {near(where, names)}".strip())
        elif item["type"] == "missing":
            parts.append(f"the argument {where!r} is missing")
        else:
            parts.append(f"{where}: {_reason(item)}")
    return BadArgument(f"Bad arguments for {tool}", "; ".join(dict.fromkeys(parts)), f"It takes: {', '.join(names)}")


_MUST_BE = {
    "int": "a whole number, for example 10",
    "float": "a number, for example 2.5",
    "string": "a text",
    "bool": "true or false",
    "list": 'a list, for example ["first", "second"]',
    "dict": 'an object, for example {"name": 1}',
}
"""What a value must be, by the first word of pydantic's code of the error."""
_BOUNDS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}


def _reason(item: Any) -> str:
    """Return why a value is rejected, with the limit but without the value."""
    code, context = item["type"], item.get("ctx", {})
    if code == "string_too_long":
        return f"at most {context['max_length']} characters; it has {len(item['input'])}"
    if code == "too_long":
        return f"at most {context['max_length']} entries; it has {len(item['input'])}"
    if code in _BOUNDS:
        bound, limit = _BOUNDS[code]
        return f"it must be {bound} {context[limit]}"
    if code == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        return f"it must be one of {', '.join(words)}. {near(str(item['input']), words)}".rstrip(". ")
    if (kind := code.partition("_")[0]) in _MUST_BE:
        return f"it must be {_MUST_BE[kind]}"
    return shorten(str(item["msg"]), _TOLD)


def _place_name(place: Any) -> str:
    return shorten(str(place), _NAMED)


NAME_LIMIT, TAG_LIMIT = 120, 32
"""Maximum characters of a name or tag, and maximum tags of a workload."""


def checked_labels(name: str | None, tags: list[str] | None) -> tuple[str | None, list[str]]:
    """Return the caller's name and tags, stripped of surrounding spaces; raises BadArgument for an unusable one."""
    shown = _check_label(name, "name") if name is not None else None
    return shown, [_check_label(t, "tag") for t in (tags or [])[:TAG_LIMIT]]


def _check_label(text: str, kind: str) -> str:
    """Return a name or tag, stripped; raises BadArgument if it could not be displayed or found again."""
    if not text.strip() or len(text) > NAME_LIMIT or plain_text(text, NAME_LIMIT) != text.strip():
        raise BadArgument(
            f"The {kind} {plain_text(text, 40)!r} cannot be used",
            f"it must be visible text of at most {NAME_LIMIT} characters",
        )
    if text.strip() == "latest":
        raise BadArgument(f"The {kind} 'latest' cannot be used", "it always refers to the newest workload")
    return text.strip()
