"""The stdio transport: one message per line, responses to malformed messages, and stdout reserved for the protocol."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic_core import PydanticSerializationError

from ...analysis.base.problems import BadArgument
from ..terminal.log import logger
from . import messages

LINE_LIMIT = 8 << 20
UNANSWERED_LIMIT = 1_000
"""The maximum number of concurrent requests; further ones are rejected at once instead of waiting invisibly."""
_CHUNK = 1 << 16


async def serve_stdio(mcp: MCPServer[Any]) -> None:
    """Serve one client until its input ends or its output is closed."""
    with _wire() as (source, sink):
        await _Link(source, sink).serve(mcp)


class Lines:
    """Splits a stream into lines, and never stores more than ``limit`` bytes of one line."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = bytearray()
        self._over = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yield every line that ends in ``chunk``; None for a line that was too long."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self.rest()
        self._add(rest)

    def rest(self) -> bytes | None:
        """The bytes since the end of the last line."""
        line = None if self._over else bytes(self._held)
        self._held, self._over = bytearray(), False
        return line

    def _add(self, part: bytes) -> None:
        self._over = self._over or len(self._held) + len(part) > self.limit
        if self._over:
            self._held.clear()
        else:
            self._held += part


class _Link:
    """Both directions of the connection to one client."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._sending = anyio.Lock()
        self._unanswered: set[str] = set()
        # Reading and writing have threads of their own, so that calls cannot block them.
        self._reader, self._writer = CapacityLimiter(1), CapacityLimiter(1)

    async def serve(self, mcp: MCPServer[Any]) -> None:
        incoming, to_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        from_server, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        server = mcp._lowlevel_server
        async with anyio.create_task_group() as group:

            async def receive() -> None:
                async with incoming:
                    await self._receive(incoming)

            async def send() -> None:
                try:
                    async with outgoing:
                        async for item in outgoing:
                            await self._answer(item.message)
                except OSError:
                    logger.info("the client closed its end")
                    group.cancel_scope.cancel()

            group.start_soon(receive)
            group.start_soon(send)
            await server.run(to_server, from_server, server.create_initialization_options())

    async def _receive(self, incoming: Any) -> None:
        lines = Lines(LINE_LIMIT)
        while chunk := await anyio.to_thread.run_sync(
            os.read, self._source, _CHUNK, limiter=self._reader, abandon_on_cancel=True
        ):
            for line in lines.feed(chunk):
                await self._take(line, incoming)
        await self._take(lines.rest(), incoming)

    async def _take(self, line: bytes | None, incoming: Any) -> None:
        if line is not None and not line.strip():
            return
        message = self._check_message(line)
        if isinstance(message, messages.Refused):
            if message.answer:
                await self._send(messages.encode_message(message.answer))
            else:
                logger.info("a malformed notification was dropped")
            return
        try:
            await incoming.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("a message came after the end")

    def _check_message(self, line: bytes | None) -> JSONRPCMessage | messages.Refused:
        if line is None:
            return messages.refuse_message(
                INVALID_REQUEST, f"Invalid request: a message may have {LINE_LIMIT >> 20} MiB, this one was longer"
            )
        message = messages.read(line)
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            # A cancelled request is never answered: its id is free again.
            self._unanswered.discard(str((message.params or {}).get("requestId")))
        if isinstance(message, JSONRPCRequest):
            if str(message.id) in self._unanswered:
                return messages.refuse_message(INVALID_REQUEST, messages.ID_IN_USE, message.id)
            if len(self._unanswered) >= UNANSWERED_LIMIT:
                return messages.refuse_message(
                    messages.BUSY, f"{UNANSWERED_LIMIT} requests are not answered yet: wait for some", message.id
                )
            self._unanswered.add(str(message.id))
        return message

    async def _answer(self, message: JSONRPCMessage) -> None:
        ident: RequestId | None = None
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            ident = message.id
            self._unanswered.discard(str(ident))
        try:
            data = messages.encode_message(message)
        except (PydanticSerializationError, UnicodeEncodeError):
            logger.exception("a response could not be encoded as JSON")
            error = messages.refuse_message(
                INTERNAL_ERROR, "Internal error: the response is not valid text", ident
            ).answer
            assert error is not None
            data = messages.encode_message(error)
        await self._send(data)

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await anyio.to_thread.run_sync(
                _write, self._sink, data + b"\n", limiter=self._writer, abandon_on_cancel=True
            )


def _write(sink: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(sink, left) :]


@contextmanager
def _wire() -> Iterator[tuple[int, int]]:
    """Private copies of stdin and stdout.

    Meanwhile, descriptor 0 is empty and 1 is stderr, so output of libraries and children never mixes with messages.
    """
    try:
        source, sink = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    except OSError as error:
        raise BadArgument(
            "stdin or stdout is closed", "clients communicate with this server through them", "Open both, or use --http"
        ) from error
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    for fd in (source, sink):
        os.set_blocking(fd, True)
    try:
        yield source, sink
    finally:
        # The copies stay open, because a thread may still wait for input.
        os.dup2(source, 0)
        os.dup2(sink, 1)
