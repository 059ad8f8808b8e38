"""Refuses a tool or prompt that the server does not have, as the protocol wants: the caller's mistake, with names."""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from ...analysis.base.problems import near

_LONGEST_NAME = 100
"""Of a longer one only this much is looked at."""


def refuse_unknown(mcp: MCPServer[Any]) -> None:
    """Answer calls of unknown names on ``mcp`` with invalid params and the known ones."""

    async def check(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        name = (ctx.params or {}).get("name")
        if ctx.method == "tools/call":
            _check("tool", name, [tool.name for tool in await mcp.list_tools()])
        elif ctx.method == "prompts/get":
            _check("prompt", name, [prompt.name for prompt in await mcp.list_prompts()])
        return await call_next(ctx)

    mcp.middleware.append(check)


def _check(kind: str, name: object, known: list[str]) -> None:
    # A name of another type is refused by the next reader, with the reason.
    if isinstance(name, str) and name not in known:
        told = near(name[:_LONGEST_NAME], known) or f"Known: {', '.join(known)}"
        raise MCPError(code=INVALID_PARAMS, message=f"There is no such {kind}. {told}")
