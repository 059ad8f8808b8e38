"""Tool calls of a server: each runs in a child process with limits, which ends with its call."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from ...analysis.base.problems import LimitExceeded, Problem
from ...analysis.base.temporary_files import scratch
from ...analysis.store.store import Store
from ...tools.answers.source_text import allowing
from ...tools.base.progress import listening
from ...tools.isolation.channel import MESSAGE_BYTES, Channel, encode_message
from ...tools.isolation.child import BUG, Work
from ...tools.isolation.fork_server import ENDED, ForkServer
from ...tools.isolation.limits import Limits
from ..terminal.log import logger
from .messages import protocol_result
from .toolbox import answer, internal_failure, outcome

CLIENT: ContextVar[str] = ContextVar("client", default="")
"""The client that calls, if the transport knows it; one client cannot occupy all places."""
_PATIENCE_S = 60.0
"""The maximum time in seconds that a call waits for a free place."""
_END_S = 2.0
"""The maximum time in seconds for cleaning up after an ended child; otherwise the next child does it."""
_PIECE = 1 << 18
_GB = 1_000_000_000


@dataclass(frozen=True)
class Kind:
    """Calls of similar cost: their limits, their wall-clock time, and how many run at once."""

    limits: Limits
    wall_s: float
    places: int
    each: int
    """The number of places that one client can occupy."""


_ASKS_NO_STORE = Kind(Limits(3 * _GB, cpu_s=300), 120, places=4, each=2)
"""For tools that need no workloads, so that calls that wait for a shared store do not delay them."""
KINDS = {
    "search_metrics": _ASKS_NO_STORE,
    "plan_profile": _ASKS_NO_STORE,
    "list_devices": _ASKS_NO_STORE,
    "get_run": _ASKS_NO_STORE,
    "cancel_run": _ASKS_NO_STORE,
    "query_counters": Kind(Limits(3 * _GB, cpu_s=300), 180, places=3, each=2),
    "import_profile": Kind(Limits(4 * _GB, cpu_s=1200, nice=5), 600, places=2, each=1),
}
"""The kind by the name of the tool."""
OTHERS = Kind(Limits(3 * _GB, cpu_s=300), 120, places=6, each=4)
Told = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Call:
    """One call of a tool, as it is sent to a child."""

    store: str
    read_only: bool
    allow_exec: bool
    tool: str
    arguments: dict[str, Any]
    source_roots: tuple[str, ...] = ()
    """The folders whose source files may be shown."""


@dataclass(frozen=True)
class Reply:
    """The answer of a child: the parts of the protocol's result, and the outcome for the log."""

    result: dict[str, Any]
    outcome: str
    """``OK``, or the class of the problem."""


class _NoPlace(Exception):
    """Raised if no place became free in time."""


class Calls:
    """The calls of one server."""

    def __init__(self, forks: ForkServer, work: Work | None = None, source_roots: Sequence[Path] = ()) -> None:
        self._forks, self._work = forks, work or perform
        self._source_roots = tuple(map(str, source_roots))
        self._places: dict[tuple[int, str], anyio.Semaphore] = {}

    async def reply(self, call: Call, told: Told) -> Reply | Problem:
        """The answer of a child; ``told`` is called with its progress. Cancelling this coroutine kills the child."""
        kind = KINDS.get(call.tool, OTHERS)
        try:
            async with self._place(kind, CLIENT.get()):
                return await self._run_child(kind, call, told)
        except _NoPlace:
            return LimitExceeded(
                f"{call.tool} did not start within {_PATIENCE_S:g} s",
                "other calls of its kind occupy the server",
                "Try again later",
            )

    @asynccontextmanager
    async def _place(self, kind: Kind, client: str) -> AsyncIterator[None]:
        """Wait for one of the client's places, then for one of all. Raises _NoPlace if none becomes free in time."""
        own = self._places.setdefault((id(kind), client), anyio.Semaphore(kind.each))
        every = self._places.setdefault((id(kind), ""), anyio.Semaphore(kind.places)) if client else own
        held: list[anyio.Semaphore] = []
        try:
            with anyio.move_on_after(_PATIENCE_S) as waiting:
                for semaphore in dict.fromkeys((own, every)):
                    await semaphore.acquire()
                    held.append(semaphore)
            if waiting.cancelled_caught:
                raise _NoPlace
            yield
        finally:
            for semaphore in held:
                semaphore.release()
            if client and own.value == kind.each and not own.statistics().tasks_waiting:
                self._places.pop((id(kind), client), None)

    async def _run_child(self, kind: Kind, call: Call, told: Told) -> Reply | Problem:
        end = self._forks.spawn(self._work, kind.limits)
        done = False
        try:
            with anyio.move_on_after(kind.wall_s):
                await _send(end, {**vars(call), "source_roots": self._source_roots})
                async for message in _messages(end):
                    if "progress" in message:
                        await told(message["progress"])
                        continue
                    done = "reply" in message
                    if done:
                        return Reply(**message["reply"])
                    if BUG in message:
                        logger.error("%s failed\n%s", call.tool, message[BUG])
                        return internal_failure(call.tool)
                    if ENDED in message:
                        return _explain_end(call.tool, message[ENDED], kind)
                return internal_failure(call.tool)
        finally:
            if not done:
                await self._cleared_away(end, call.store)
            end.close()
        return LimitExceeded(
            f"{call.tool} took more than {kind.wall_s:g} s and was stopped",
            "",
            "Request less at once; `rooflens call` in a terminal has no such limit",
        )

    async def _cleared_away(self, end: socket.socket, store: str) -> None:
        """Kill a child that is still working, and remove what it was writing, even if the call is cancelled."""
        with anyio.move_on_after(_END_S, shield=True):
            with suppress(OSError):
                end.shutdown(socket.SHUT_WR)
            await _wait_until_gone(end)
            with closing(self._forks.spawn(sweep, OTHERS.limits)) as sweeper:
                await _send(sweeper, {"store": store})
                await _wait_until_gone(sweeper)


def sweep(channel: Channel, job: dict[str, Any]) -> None:
    """In a child: remove unfinished files of processes that no longer exist."""
    with scratch():
        Store.locate(job["store"]).sweep_drafts()


def perform(channel: Channel, job: dict[str, Any]) -> None:
    """In a child: answer one call and send the result in the form of the protocol."""
    call = Call(**job)
    store = Store.locate(call.store, read_only=call.read_only)
    roots = [Path(folder) for folder in call.source_roots]
    with allowing(roots), listening(lambda text: channel.send({"progress": text})):
        reply = answer(store, call.tool, call.arguments, allow_exec=call.allow_exec)
    made = protocol_result(reply, call.tool, call.arguments)
    # The structured content is plain data already, which need not be dumped once more.
    result = made.model_dump(mode="json", exclude_unset=True, exclude={"structured_content"})
    if made.structured_content is not None:
        result["structured_content"] = made.structured_content
    channel.send({"reply": {"result": result, "outcome": outcome(reply)}})


async def _send(end: socket.socket, message: Mapping[str, Any]) -> None:
    data = memoryview(encode_message(message))
    while data:
        try:
            data = data[end.send(data) :]
        except BlockingIOError:
            await anyio.wait_writable(end)
        except (BrokenPipeError, ConnectionResetError):
            # It ended; the next message says how.
            return


async def _wait_until_gone(end: socket.socket) -> None:
    """Wait until the child has ended, ignoring its messages."""
    async for _ in _pieces(end):
        pass


async def _pieces(end: socket.socket) -> AsyncIterator[bytes]:
    """Yield what arrives until the other end is closed."""
    while True:
        try:
            piece = end.recv(_PIECE)
        except BlockingIOError:
            await anyio.wait_readable(end)
            continue
        except ConnectionResetError:
            return
        if not piece:
            return
        yield piece


async def _messages(end: socket.socket) -> AsyncIterator[dict[str, Any]]:
    """Yield every message until the other end is closed, or until a message is too long.

    An unfinished line of a child that died is ignored; the next message states how the child ended.
    """
    received = bytearray()
    async for piece in _pieces(end):
        received += piece
        *lines, received = received.split(b"\n")
        for line in lines:
            with suppress(json.JSONDecodeError):
                yield json.loads(line)
        if len(received) > MESSAGE_BYTES:
            return


def _explain_end(tool: str, status: int, kind: Kind) -> Problem:
    """The reason why a child ended without an answer."""
    if status < 0:
        limit = kind.limits.memory_bytes / _GB
        return LimitExceeded(
            f"{tool} was stopped by the system",
            f"it needed more than {limit:g} GB of memory, more than {kind.limits.cpu_s} s of processor time, "
            "or the machine ran out of memory",
            "Request less at once",
        )
    return internal_failure(tool)
