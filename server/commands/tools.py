"""`rooflens tools`: list the tools, or describe one tool with its arguments."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...analysis.base.problems import NotFound, near
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

if TYPE_CHECKING:
    from ..mcp.toolbox import Tool

HELP = "list the tools, or the arguments of one tool with their meaning and defaults"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument("tool", nargs="?", help="the tool whose arguments are shown")


def execute(options: Namespace, store: Store) -> Outcome:
    """List names and first sentences, or describe one tool."""
    from ..mcp.toolbox import TOOLS

    if options.tool is not None:
        known = {tool.name: tool for tool in TOOLS}
        if options.tool not in known:
            raise NotFound(
                f"There is no tool {options.tool!r}", near(options.tool, known), "rooflens tools lists all tools"
            )
        return _one(known[options.tool])
    told = {tool.name: re.split(r"(?<!\.)\. ", tool.description)[0].rstrip(". ") for tool in TOOLS}
    width = max(map(len, told))
    return Outcome(
        {"tools": [{"name": name, "description": words} for name, words in told.items()]},
        [f"{name:{width}} {words}" for name, words in told.items()],
    )


def _one(tool: Tool) -> Outcome:
    from ..mcp.toolbox import parameters

    properties = parameters(tool.arguments).get("properties", {})
    taken = [
        {
            "name": name,
            "type": _kind(properties[name]),
            "required": field.is_required(),
            "default": None if field.is_required() else field.default,
            "description": field.description or "",
        }
        for name, field in tool.arguments.model_fields.items()
    ]
    facts = {"name": tool.name, "description": tool.description, "arguments": taken}
    return Outcome(facts, _words(tool, taken))


def _words(tool: Tool, taken: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{tool.name}: {tool.description}"
    width = max((len(one["name"]) for one in taken), default=0)
    for one in taken:
        default = "required" if one["required"] else f"default {json.dumps(one['default'])}"
        meaning = f": {one['description']}" if one["description"] else ""
        yield f"  {one['name']:{width}} {one['type']}, {'optional' if default == 'default null' else default}{meaning}"


def _kind(schema: Any) -> str:
    """The possible values of an argument: fixed words, or types."""
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(map(_kind, schema["anyOf"]))
    kinds = schema.get("type", "any")
    return " | ".join(
        f"array of {_kind(schema['items'])}" if kind == "array" and "items" in schema else kind
        for kind in ([kinds] if isinstance(kinds, str) else kinds)
    )
