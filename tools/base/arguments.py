"""What a caller gives a tool, looked at before anything is made of it: sizes, text, numbers; and a refusal in words."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, get_type_hints

import pydantic

from ...analysis.base.problems import BadArgument, LimitExceeded, near
from ...analysis.base.text import shorten
from .untrusted_text import plain_text

MOST_CHARACTERS = 1_000_000
"""Of all arguments of one call together."""
_MOST_VALUES = 200_000
_DEEPEST = 16
_NAMED = 60
"""Characters of a name that a refusal repeats."""
_TOLD = 300
_KINDS = ("function-", "list[", "dict[", "str", "int", "float", "constrained-", "lax-or-strict", "nullable")
"""How pydantic names the alternatives of a type in the place of an error."""


@cache
def model(function: Callable[..., Any]) -> type[pydantic.BaseModel]:
    """The model of the arguments of a tool, whose first parameter is the store; unknown names are refused."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        p.name: (hints[p.name], ... if p.default is inspect.Parameter.empty else p.default)
        for p in list(inspect.signature(function).parameters.values())[1:]
    }
    return pydantic.create_model(
        f"{function.__name__}_arguments", __config__=pydantic.ConfigDict(extra="forbid"), **fields
    )


def validate_arguments(tool: str, model: type[pydantic.BaseModel], arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the tool takes them; BadArgument or LimitExceeded say which one is wrong and what is allowed."""
    left = [MOST_CHARACTERS, _MOST_VALUES]
    for name, value in arguments.items():
        _sound(tool, _place_name(name), value, name in _switches(model), left)
    try:
        arguments_model = model.model_validate(arguments)
    except pydantic.ValidationError as error:
        raise _explain_errors(tool, model, error) from None
    return {name: getattr(arguments_model, name) for name in type(arguments_model).model_fields}


def prepare(model: type[pydantic.BaseModel]) -> None:
    """Find out once what is found out for every call."""
    _switches(model)


def _sound(tool: str, name: str, value: Any, switch: bool, left: list[int]) -> None:
    """Refuse what no argument may hold: too much, half a character, NUL, numbers that are none, yes for a number."""

    def bad(why: str) -> BadArgument:
        return BadArgument(f"Bad arguments for {tool}", f"{name}: {why}")

    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        left[1] -= 1
        if isinstance(part, str):
            left[0] -= len(part)
            if left[0] >= 0 and not part.isascii() and any("\ud800" <= c <= "\udfff" for c in part):
                raise bad("it holds half of a surrogate pair, which is no character")
            if left[0] >= 0 and "\0" in part:
                raise bad("it holds a NUL character")
        elif isinstance(part, bool):
            if not switch:
                raise bad("true and false are no value for it")
        elif isinstance(part, float):
            if not math.isfinite(part):
                raise bad("NaN and Infinity are no numbers here")
        elif isinstance(part, int):
            left[0] -= part.bit_length() // 4
        elif isinstance(part, dict):
            waiting += [(k, depth + 1) for k in part] + [(v, depth + 1) for v in part.values()]
        elif isinstance(part, list | tuple):
            waiting += [(v, depth + 1) for v in part]
        if min(left) < 0 or len(waiting) > left[1]:
            raise LimitExceeded(
                f"The arguments of {tool} are too large",
                f"the argument {name} goes beyond {MOST_CHARACTERS:,} characters or {_MOST_VALUES:,} values in all",
                "Ask for less at once",
            )
        if depth > _DEEPEST:
            raise bad("it is nested too deeply")


@cache
def _switches(model: type[pydantic.BaseModel]) -> frozenset[str]:
    """The arguments that take true and false."""
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


def _reason(item: Any) -> str:
    """Why a value is refused, with the bound and without the value."""
    if item["type"] == "string_too_long":
        return f"at most {item['ctx']['max_length']} characters; it has {len(item['input'])}"
    if item["type"] == "too_long":
        return f"at most {item['ctx']['max_length']} entries; it has {len(item['input'])}"
    return shorten(str(item["msg"]), _TOLD)


def _place_name(place: Any) -> str:
    return shorten(str(place), _NAMED) if not isinstance(place, int) else str(place)


NAME_LIMIT, TAG_LIMIT = 120, 32
"""Characters of a name or tag, and tags of a workload."""


def checked_labels(name: str | None, tags: list[str] | None) -> tuple[str | None, list[str]]:
    """Name and tags as the caller gave them, without spaces around; BadArgument for one that cannot be used."""
    shown = _check_label(name, "name") if name is not None else None
    return shown, [_check_label(t, "tag") for t in (tags or [])[:TAG_LIMIT]]


def _check_label(text: str, kind: str) -> str:
    """A name or tag given by the caller; BadArgument where it could not be shown or found again."""
    if not text.strip() or len(text) > NAME_LIMIT or plain_text(text, NAME_LIMIT) != text.strip():
        raise BadArgument(
            f"The {kind} {plain_text(text, 40)!r} cannot be used",
            f"it must be visible text of at most {NAME_LIMIT} characters",
        )
    if text.strip() == "latest":
        raise BadArgument(f"The {kind} 'latest' cannot be used", "it stands for the newest workload")
    return text.strip()
