"""A rooflens server on stdio, and the tools of it that a player may use."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import MCPError, StdioServerParameters
from mcp.client import Client

from rooflens.eval.agent.players.turn import Call, Offer, Result

Gate = Callable[[Call], dict[str, Any]]
"""A function that changes the arguments of a call before it reaches the server. Raises Refused."""
TIMEOUT_S = 300.0
_DEEPEST, _LONGEST = 32, 1_000_000
"""Limits for the depth and size of arguments; larger ones would end the connection, not only the call."""


class Refused(Exception):
    """A call that the game refuses; the player gets the message."""


class Toolbox:
    """The tools of a running server, without those that a game excludes."""

    def __init__(self, client: Client, offers: Sequence[Offer], instructions: str, gates: dict[str, Gate]) -> None:
        self.offers, self.instructions = tuple(offers), instructions
        self._client, self._gates = client, gates
        self._names = {offer.name for offer in offers}

    async def call(self, call: Call) -> Result:
        """Answer one call; every error becomes a failed result, never an exception."""
        if call.name not in self._names:
            return Result(call.id, f"There is no tool {call.name}.", failed=True)
        if not _plain(call.arguments):
            return Result(call.id, "The arguments are not plain JSON of a reasonable size.", failed=True)
        try:
            arguments = self._gates[call.name](call) if call.name in self._gates else call.arguments
            answer = await self._client.call_tool(call.name, arguments, read_timeout_seconds=TIMEOUT_S)
        except (Refused, MCPError) as refused:
            return Result(call.id, str(refused), failed=True)
        text = "\n".join(str(getattr(block, "text", "(a picture)")) for block in answer.content)
        return Result(call.id, text, bool(answer.is_error), dict(answer.structured_content or {}))


@asynccontextmanager
async def serving(
    store: Path, *, execute: bool = False, gates: dict[str, Gate] | None = None, withheld: Sequence[str] = ()
) -> AsyncIterator[Toolbox]:
    """Start a server for ``store``; with ``execute`` it also offers tools that run programs, otherwise none that write.

    The server gets only a few environment variables, and so no secrets. Players cannot make it read files.
    """
    arguments = ["-m", "rooflens", "serve", "--store", str(store), "--allow-exec" if execute else "--read-only"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    async with Client(server) as client:
        listed = await client.list_tools()
        offers = [
            Offer(tool.name, tool.description or "", dict(tool.input_schema))
            for tool in listed.tools
            if tool.name not in withheld
        ]
        every = {"compute_occupancy": _no_file, **(gates or {})}
        yield Toolbox(client, offers, client.instructions or "", every)


def _plain(value: Any) -> bool:
    """Whether a value can be sent: valid JSON and Unicode, and within the limits of depth and size."""
    level = [value]
    for _ in range(_DEEPEST):
        if not level:
            break
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
    try:
        return not level and len(json.dumps(value, allow_nan=False, ensure_ascii=False).encode()) <= _LONGEST
    except (TypeError, ValueError):
        return False


def _no_file(call: Call) -> dict[str, Any]:
    """Pass on a call of compute_occupancy unless it names a file. Raises Refused."""
    if call.arguments.get("code_object") is not None:
        raise Refused("compute_occupancy reads no files in this game: give numbers, or workload and kernel.")
    return call.arguments


def environment() -> dict[str, str]:
    """The environment variables that a child needs to start and to find its GPU, and no others, so no keys."""
    wanted = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")
    toolkits = ("LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "CUDA_HOME")
    visible = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    return {name: os.environ[name] for name in (*wanted, *toolkits, *visible) if name in os.environ}
