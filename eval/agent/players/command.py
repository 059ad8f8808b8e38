"""A player that is a local program: it reads and writes one JSON object per line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from rooflens.eval.agent.players.turn import PlayerFailed, Position, Reply, Usage, calls_of

LINE_BYTES = 8_000_000
"""Maximum length of a line from the program."""


class CommandPlayer:
    """Starts the program once, and sends one line per turn.

    Input line: {"rules", "messages": [{"role": game|player|tools, "text", "calls", "results"}], "tools": [{"name",
    "description", "schema"}]}. Output line: {"text", "calls": [{"id", "name", "arguments"}], "usage": {"read",
    "written"}}; all fields are optional.
    """

    def __init__(self, command: Sequence[str], *, timeout_s: float = 300) -> None:
        self.name = command[0]
        self._command, self._timeout_s = list(command), timeout_s
        self._process: anyio.abc.Process | None = None
        self._lines: BufferedByteReceiveStream | None = None

    async def reply(self, position: Position) -> Reply:
        """Exchange one line. Raises PlayerFailed if the program ends, is late, or sends anything else."""
        try:
            with anyio.fail_after(self._timeout_s):
                answer = json.loads(await self._exchange(_line(position)))
        except TimeoutError:
            raise PlayerFailed(f"{self.name} gave no reply within {self._timeout_s:.0f} s") from None
        except (ValueError, RecursionError):
            raise PlayerFailed(f"{self.name} replied with a line that is not JSON") from None
        if not isinstance(answer, dict) or not isinstance(answer.get("calls") or [], list):
            raise PlayerFailed(f"{self.name} replied with something other than an object with text and calls")
        return Reply(str(answer.get("text") or ""), calls_of(answer.get("calls") or []), _usage(answer.get("usage")))

    async def close(self) -> None:
        """End the program."""
        if self._process is not None:
            process, self._process, self._lines = self._process, None, None
            if process.returncode is None:
                process.kill()
            await process.aclose()

    async def _exchange(self, line: bytes) -> bytes:
        try:
            if self._process is None:
                self._process = await anyio.open_process(self._command, stderr=subprocess.DEVNULL)
                assert self._process.stdout is not None
                self._lines = BufferedByteReceiveStream(self._process.stdout)
            assert self._process.stdin is not None and self._lines is not None
            await self._process.stdin.send(line)
            return await self._lines.receive_until(b"\n", LINE_BYTES)
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
            raise PlayerFailed(f"{self.name} cannot be started, or ended without a reply") from None
        except anyio.DelimiterNotFound:
            raise PlayerFailed(f"{self.name} replied with a line of more than {LINE_BYTES} bytes") from None


def _line(position: Position) -> bytes:
    plain: dict[str, Any] = asdict(position)
    for message in plain["messages"]:
        for result in message["results"]:
            del result["content"]
    return json.dumps(plain).encode() + b"\n"


def _usage(told: Any) -> Usage | None:
    if isinstance(told, dict) and isinstance(told.get("read"), int) and isinstance(told.get("written"), int):
        return Usage(told["read"], told["written"])
    return None
