"""Serve MCP on streamable HTTP: one listening socket, time limits for connections, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Sequence
from typing import Any

import anyio
import h11
import uvicorn
from h11._receivebuffer import ReceiveBuffer
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Store
from ...tools.answers.source_text import roots_of
from ...tools.isolation.fork_server import ForkServer
from ...tools.running.start import stop_all
from . import access, warm_up
from .admission import DEFAULT_LIMITS, Admission, ServerLimits, logger
from .app import build
from .stdio import serve_stdio

HEAD_S = 10.0
"""The time in seconds in which a connection must send the complete head of a request."""
HEAD_LINES, HEAD_BYTES = 100, 32 << 10
"""The maximum size of the head of a request."""
KEEP_ALIVE_S = 30
CONNECTIONS = 512
SESSION_IDLE_S = 15 * 60.0
_PATIENCE_S = 1
"""Seconds for calls to finish when the server is told to end; a call that waits for a run would delay it."""


def serve_http(mcp: MCPServer[Any], address: access.Address, hosts: access.Hosts, token: str | None) -> None:
    """Serve until SIGTERM or SIGINT."""
    logger.setLevel("INFO")
    server = service(mcp, hosts, token)

    def stop(*_: object) -> None:
        server.should_exit = True

    # Uvicorn raises the signal again at its end; it must not interrupt the remaining clean-up.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    listener = access.listen(address)
    print(access.invitation(address, token), file=sys.stderr, flush=True)
    try:
        server.run(sockets=[listener])
    finally:
        if address.path:
            address.path.unlink(missing_ok=True)


def service(
    mcp: MCPServer[Any], hosts: access.Hosts, token: str | None, limits: ServerLimits = DEFAULT_LIMITS
) -> uvicorn.Server:
    """The Uvicorn server, without a socket."""
    app = mcp.streamable_http_app(
        # Admission checks hosts, origins and sizes, and it ends old sessions before this limit is reached.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=limits.body,
        max_sessions=limits.sessions + limits.calls,
        session_idle_timeout=SESSION_IDLE_S,
    )
    return uvicorn.Server(
        uvicorn.Config(
            Admission(app, hosts, token, limits),
            http=_Connection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_level="error",
            access_log=False,
            h11_max_incomplete_event_size=HEAD_BYTES,
            # The log and the limits use the address of the connection, not one from a header.
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=_PATIENCE_S,
        )
    )


class _HeadBuffer(ReceiveBuffer):
    """Received bytes from which h11 takes the head of a request, and refuses one that is too long or folded.

    h11 limits only heads that arrive in several parts. It joins a header that is folded over two lines, which other
    readers, such as a proxy, take for two.
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        before = len(self)
        lines = super().maybe_extract_lines()
        if lines is not None and (
            len(lines) > HEAD_LINES + 1
            or before - len(self) > HEAD_BYTES
            or any(line.startswith((b" ", b"\t")) for line in lines)
        ):
            raise h11.RemoteProtocolError("the head is too long, or a header is folded")
        return lines


class _Connection(H11Protocol):
    """A connection that is closed if no request begins in time, and that may be closed for others while it is idle."""

    _watch: asyncio.TimerHandle | None = None
    _since = 0.0

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn._receive_buffer = _HeadBuffer()
        self._attend()
        if len(self.connections) > CONNECTIONS:
            others = [one for one in self.connections if isinstance(one, _Connection) and not one._busy]
            min(others, key=lambda one: one._since).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._attend()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        logger.info("%s - - 400, not HTTP", self.client[0] if self.client else "local")
        super().send_400_response(msg)

    def _attend(self) -> None:
        """Start the time limit for the next head at its first byte; further bytes do not extend it."""
        self._since = self.loop.time()
        if self._busy or self.transport.is_closing():
            self._leave()
        elif self._watch is None:
            self._watch = self.loop.call_later(HEAD_S, self.transport.abort)

    def _leave(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


def serve(
    store: Store,
    *,
    http: str | None = None,
    read_only: bool = False,
    allow_exec: bool = False,
    insecure_local: bool = False,
    allowed_hosts: Sequence[str] = (),
    source_roots: Sequence[str] = (),
) -> int:
    """Serve until the client disconnects (stdio) or the process is told to end (HTTP).

    On HTTP, clients need the token in ROOFLENS_TOKEN, or a new one that is printed, unless ``insecure_local`` is set.
    ``source_roots`` are folders whose source files may be shown.
    """
    if http is None and (insecure_local or allowed_hosts):
        raise BadArgument("--insecure-local and --allowed-host require --http", fix="Give an address with --http")
    if http is not None:
        address = access.parse(http)
        token = access.token(address, insecure_local=insecure_local, executes=allow_exec and not read_only)
        hosts = access.hosts(address, allowed_hosts)
    roots = roots_of(source_roots)
    gc.freeze()
    gc.enable()
    forks = ForkServer(warm_up.STEPS)
    mcp = build(store, read_only=read_only, allow_exec=allow_exec, source_roots=roots, forks=forks)
    # After the schemas of the tools are built, and before the first thread, because only then a process can be forked.
    forks.start()
    try:
        if http is not None:
            serve_http(mcp, address, hosts, token)
        else:
            # An interrupt would be noticed only with the next line of input. Runs end with this process in any case.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            anyio.run(serve_stdio, mcp)
    finally:
        forks.close()
        stop_all()
    return 0
