"""The commands for scripts: `call` calls one tool, `tools` lists them."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ...analysis.base.problems import near
from ...analysis.store.store import Store
from ..terminal.outcome import Misuse, Outcome
from ..terminal.wording import problem

_EXAMPLE = 'Example: rooflens call list_workloads \'{"workload": "latest"}\''


def _arguments(options: Namespace) -> dict[str, Any]:
    """The arguments, from a JSON object or from words KEY=VALUE."""
    words = options.words
    if not words:
        return {}
    if len(words) > 1 or (words[0] != "-" and words[0][:1] not in "{[" and "=" in words[0]):
        from ..mcp.toolbox import tool_named
        from .verbs import BY_TOOL
        from .verbs.arguments import pairs

        return pairs(words, tool_named(options.tool).schemas, BY_TOOL[options.tool])
    try:
        arguments = json.loads(sys.stdin.read() if words[0] == "-" else words[0])
    except (json.JSONDecodeError, RecursionError) as error:
        raise Misuse(f"The arguments are not valid JSON: {error}", _EXAMPLE) from error
    if not isinstance(arguments, dict):
        raise Misuse("The arguments must be a JSON object", _EXAMPLE)
    return arguments


if TYPE_CHECKING:
    from ..mcp.toolbox import Tool


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


def _argument_line(one: dict[str, Any], width: int) -> str:
    default = "optional" if one["default"] is None else f"default {json.dumps(one['default'])}"
    meaning = f": {one['description']}" if one["description"] else ""
    return f"  {one['name']:{width}} {one['type']}, {'required' if one['required'] else default}{meaning}"


def _tool(name: str) -> Tool:
    """The tool with this name. Raises NotFound with similar names."""
    from ..mcp.toolbox import TOOLS, tool_named

    names = [tool.name for tool in TOOLS]
    if name not in names:
        raise problem("no_tool", name=name[:60], hint=near(name, names))
    return tool_named(name)


def call_tool(options: Namespace, store: Store) -> int:
    """Call the tool and print its answer, as JSON unless --text or --csv chooses another form."""
    from .verbs import verb_of_call
    from .verbs.answers import chosen_form
    from .verbs.command import call_and_print

    form = chosen_form(options, default="json")
    _tool(options.tool)
    given = _arguments(options)
    return call_and_print(store, verb_of_call(options.tool, given), given, form, options.source_root)


def list_tools(options: Namespace, store: Store) -> Outcome:
    """List names and first sentences, or describe one tool."""
    from ..mcp.toolbox import TOOLS

    if options.tool is not None:
        tool = _tool(options.tool)
        taken = [
            {
                "name": name,
                "type": _kind(tool.schemas[name]),
                "required": field.is_required(),
                "default": None if field.is_required() else field.default,
                "description": field.description or "",
            }
            for name, field in tool.arguments.model_fields.items()
        ]
        facts = {"name": tool.name, "description": tool.description, "arguments": taken}
        width = max((len(name) for name in tool.schemas), default=0)
        lines = [_argument_line(one, width) for one in taken]
        return Outcome(facts, [f"{tool.name}: {tool.description}", *lines])
    described = {tool.name: re.split(r"(?<!\.)\. ", tool.description)[0].rstrip(". ") for tool in TOOLS}
    width = max(map(len, described))
    return Outcome(
        {"tools": [{"name": name, "description": words} for name, words in described.items()]},
        [f"{name:{width}} {words}" for name, words in described.items()],
    )
