"""Answers as the protocol has them: text and structured content with the same facts; a picture with its words."""

from __future__ import annotations

import base64
from typing import Any

from mcp.types import CallToolResult, ImageContent, TextContent

from ...analysis.base.problems import Problem
from ...tools.base.results import Result
from ...tools.plot import PlotResult
from . import render


def protocol_result(answer: Result | Problem, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """The protocol's result for what a tool answered; a Problem is an error that the model reads."""
    if isinstance(answer, Problem):
        return CallToolResult(content=[TextContent(type="text", text=render.refusal(answer))], is_error=True)
    result = render.cap_size(answer, tool, arguments)
    if isinstance(result, PlotResult):
        # The picture and its words; clients that prefer structured content would drop the picture.
        image = base64.b64encode(result.image).decode()
        picture = ImageContent(type="image", data=image, mime_type="image/png")
        return CallToolResult(content=[picture, TextContent(type="text", text=render.text(result))])
    return CallToolResult(
        content=[TextContent(type="text", text=render.text(result))],
        structured_content=render.structured_content(result),
    )


def size(result: CallToolResult) -> int:
    """The characters of an answer's parts."""
    return sum(len(str(getattr(part, "text", None) or getattr(part, "data", ""))) for part in result.content)
