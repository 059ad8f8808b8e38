"""A tool whose function is given by a test, instead of the module with its name."""

from __future__ import annotations

from collections.abc import Callable

from rooflens.server.mcp.toolbox import Tool
from rooflens.tools.base.results import Result


def tool_of(function: Callable[..., Result]) -> Tool:
    """The tool with this function."""
    tool = Tool(function.__name__)
    tool.__dict__["function"] = function
    return tool
