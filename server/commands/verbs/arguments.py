"""The words of a command line as the arguments of a tool, by the tool's own declaration.

A word `key=value` and an option `--key value` give one argument each. A value is JSON if the argument accepts that,
else text; the entries of a list may be separated by commas.
"""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....analysis.base.problems import BadArgument, near
from ...terminal.outcome import Misuse
from . import Verb

if TYPE_CHECKING:
    from ...mcp.toolbox import Tool

_PAIR = re.compile(r"([A-Za-z_][\w-]*)=(.*)", re.DOTALL)
_DEST = "argument "
"""The prefix of the attributes with the values of options, which no other option has."""
WORDS, PROGRAM = "words", "program"
"""The attributes with the words that are no options, and with those behind `--`."""
_KIND_OF = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def declare_options(parser: ArgumentParser, schemas: Mapping[str, Any]) -> None:
    """Add an option for every argument of a tool."""
    for name, schema in schemas.items():
        option = f"--{name.replace('_', '-')}"
        about: dict[str, Any] = {"help": _help(schema).replace("%", "%%"), "default": [], "dest": _DEST + name}
        if _kinds(schema) == {"boolean"}:
            parser.add_argument(option, action="append_const", const="true", **about)
        else:
            action = parser.add_argument(option, action="append", metavar=_metavar(schema), **about)
            action.words = list(choices(schema))  # type: ignore[attr-defined]


def words_of(verb: Verb, options: Namespace, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a command line gives. Raises Misuse for what the tool does not know or what is too much."""
    given: dict[str, list[str]] = {name: texts for name in schemas if (texts := getattr(options, _DEST + name, []))}
    plain = []
    for word in getattr(options, WORDS):
        if match := _PAIR.fullmatch(word):
            given.setdefault(_known_names(match[1], schemas, verb), []).append(match[2])
        else:
            plain.append(word)
    arguments = {name: _value(name, texts, schemas[name], verb) for name, texts in given.items()}
    return arguments | _by_place(verb, plain, getattr(options, PROGRAM, []), arguments, schemas)


def pairs(words: Sequence[str], schemas: Mapping[str, Any], verb: Verb) -> dict[str, Any]:
    """The arguments of words that are all `key=value`. Raises Misuse for any other word."""
    return words_of(replace(verb, words={}), Namespace(words=list(words)), schemas)


def validate(tool: Tool, verb: Verb, arguments: dict[str, Any]) -> None:
    """Raise Misuse, with an example, if the tool does not accept the arguments."""
    for one in verb.positionals:
        if one.kind in ("required", "several") and one.name not in arguments:
            raise misuse(verb, f"{one.name.upper()} is missing")
    try:
        tool.validate(arguments)
    except BadArgument as problem:
        raise misuse(verb, problem.why or problem.what) from problem


def misuse(verb: Verb, what: str) -> Misuse:
    """A Misuse of a verb, with its usage and an example."""
    return Misuse(what, f"usage: {verb.usage}\nExample: rooflens {verb.example}")


def _by_place(
    verb: Verb, words: list[str], program: list[str], named: Mapping[str, Any], schemas: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments that are given without their names, except those that are also given by name."""
    open_places = [one for one in verb.positionals if one.name not in named]
    left = list(words)
    surplus = len(left) - sum(one.kind == "required" for one in open_places)
    arguments: dict[str, Any] = {}
    for one in open_places:
        if one.kind == "program":
            taken, left, program = [*left, *program], [], []
        elif one.kind in ("several", "list", "text"):
            taken, left = left, []
        elif left and (one.kind == "required" or surplus > 0):
            surplus -= one.kind == "optional"
            taken = [left.pop(0)]
        else:
            continue
        if one.kind == "text" and taken:
            arguments[one.name] = " ".join(taken)
        elif taken:
            single = len(taken) == 1 and one.kind != "program"
            arguments[one.name] = _value(one.name, taken, schemas[one.name], verb) if single else taken
    if left or program:
        raise misuse(verb, f"{(left or program)[0]!r} is one word too many")
    return arguments


def _known_names(key: str, schemas: Mapping[str, Any], verb: Verb) -> str:
    """The argument with this name, in which - may stand for _."""
    name = key.replace("-", "_")
    if name not in schemas:
        hint = near(name, schemas) or f"It takes: {', '.join(schemas)}"
        raise misuse(verb, f"rooflens {verb.name} has no argument {key!r}. {hint}")
    return name


def _value(name: str, texts: Sequence[str], schema: Any, verb: Verb) -> Any:
    """The value of the texts given for one argument: several are the entries of a list."""
    values = [_one_value(text, schema) for text in texts]
    if len(values) == 1:
        return values[0]
    if "array" not in _kinds(schema):
        raise misuse(verb, f"{name} is given {len(texts)} times")
    return [entry for value in values for entry in (value if isinstance(value, list) else [value])]


def _one_value(text: str, schema: Any) -> Any:
    """``text`` as the JSON that it is if the argument accepts that, else as a list if it must be one, else as it is."""
    kinds = _kinds(schema)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = text
    kind = _KIND_OF.get(type(parsed), "null")
    if kind in kinds or (kind == "integer" and "number" in kinds):
        return parsed
    if "string" in kinds:
        return text
    if "array" in kinds:
        return [_one_value(part, schema.get("items", {})) for part in text.split(",") if part]
    return parsed


def _kinds(schema: Any) -> set[str]:
    """The JSON types that an argument accepts."""
    if "enum" in schema or "const" in schema:
        return {"string"}
    kinds = schema.get("type", [])
    alternatives = {kind for part in schema.get("anyOf", []) for kind in _kinds(part)}
    return {*([kinds] if isinstance(kinds, str) else kinds), *alternatives}


def choices(schema: Any) -> Iterator[str]:
    """The fixed words that an argument accepts."""
    yield from map(str, schema.get("enum", []))
    for part in schema.get("anyOf", []):
        yield from choices(part)


def _metavar(schema: Any) -> str:
    kinds = _kinds(schema)
    words = list(choices(schema))
    if words and kinds == {"string"}:
        return "|".join(words)
    if "array" in kinds:
        return "A,B"
    return "N" if kinds <= {"integer", "number"} else "JSON" if kinds == {"object"} else "TEXT"


def _help(schema: Any) -> str:
    default = schema.get("default")
    told = f"default: {default if isinstance(default, str) else json.dumps(default)}" if default is not None else ""
    meaning = schema.get("description", "")
    return f"{meaning} ({told})" if told and meaning and "default" not in meaning else meaning or told
