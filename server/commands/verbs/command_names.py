"""Commands in place of calls and names of tools, as the command line prints them."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from typing import Any

from ....analysis.base.problems import Problem
from ....tools.base.results import NextCall
from . import BY_TOOL, verb_of_call

_PAIR = r"""\w+(?:=| (?=\[))(?:\[(?:["'][^][]*)?\]|'[^']*'|"[^"]*"|[\w.#]+)"""
_PAIRS = rf"{_PAIR}(?:, {_PAIR})*"


@cache
def _mention() -> re.Pattern[str]:
    """A tool in a sentence, perhaps with arguments: `tool(a=1)`, `tool with a=1`; not part of a path or of code."""
    names = "|".join(name for name in BY_TOOL if "_" in name)
    arguments = rf"(?:\((?P<called>{_PAIRS})\)| with (?P<given>{_PAIRS}))?"
    return re.compile(rf"(?<![\w.:/='\"-])(?<!rooflens call )(`?)(?P<tool>{names}){arguments}\1(?![\w:/=]|\.\w)")


def name_commands(text: str, data: str = "") -> str:
    """A sentence with commands in place of tools, except for those whose names also occur in ``data`` of a profile."""

    def command(match: re.Match[str]) -> str:
        tool = match["tool"]
        if re.search(rf"\b{tool}\b", data):
            return match[0]
        pairs = [
            re.split("=| ", pair, maxsplit=1) for pair in re.findall(_PAIR, match["called"] or match["given"] or "")
        ]
        line = command_line(NextCall(tool=tool, arguments={name: _value(text) for name, text in pairs}, why=""))
        needs_program = pairs and any(place.kind == "program" for place in BY_TOOL[tool].positionals)
        after = " " if text[match.end() : match.end() + 1] == "(" else ""
        return f"`{line}{' -- PROGRAM' if needs_program else ''}`{after}"

    return _mention().sub(command, text)


def problem_with_commands(problem: Problem) -> Problem:
    """The problem for people; what it says about the caller's own words stays as it is."""
    return Problem(problem.what, name_commands(problem.why), name_commands(problem.fix))


def _value(text: str) -> Any:
    try:
        return json.loads(text.replace("'", '"'))
    except ValueError:
        return text


def command_line(call: NextCall, store: str | None = None) -> str:
    """A suggested call as a command that a shell accepts."""
    verb = verb_of_call(call.tool, call.arguments)
    left = dict(call.arguments)
    words: list[str] = []
    program: list[str] = []
    for place in verb.positionals:
        if place.kind == "optional" and place.name not in left:
            break
        if place.name in left:
            target = program if place.kind == "program" else words
            target += word_list(left.pop(place.name))
    named = [f"{name}={shlex.quote(_pair_text(value))}" for name, value in left.items()]
    chosen = ["--store", store] if store else []
    after = shlex.join([*chosen, *(["--", *program] if program else [])])
    return " ".join(part for part in ("rooflens", shlex.join([verb.name, *words]), *named, after) if part)


def word_list(value: Any) -> list[str]:
    """The parts of a list as words, or the one word of another value."""
    return [str(part) for part in value] if isinstance(value, list) else [str(value)]


def _pair_text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(part, str) and "," not in part for part in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)
