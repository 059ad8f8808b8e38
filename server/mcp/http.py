"""Serves MCP on streamable HTTP: one listening socket, connections that must speak in time, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from . import access
from .admission import Admission, ServerLimits, logger

HEAD_S = 10.0
"""Time in which a connection must send the whole head of a request."""
KEEP_ALIVE_S = 30
CONNECTIONS = 512
SESSION_IDLE_S = 15 * 60.0
_PATIENCE_S = 1
"""Seconds that calls have left when the server is told to end: one that waits for a run would hold it up."""


def serve_http(mcp: MCPServer[Any], address: access.Address, hosts: access.Hosts, token: str | None) -> None:
    """Serve until SIGTERM or SIGINT."""
    logger.setLevel("INFO")
    server = service(mcp, hosts, token)

    def stop(*_: object) -> None:
        server.should_exit = True

    # Uvicorn raises the signal again at its end; it must then not kill what is still to be done.
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
    mcp: MCPServer[Any], hosts: access.Hosts, token: str | None, limits: ServerLimits | None = None
) -> uvicorn.Server:
    """The server, yet without a socket to listen on."""
    limits = limits or ServerLimits()
    app = mcp.streamable_http_app(
        # Hosts, origins and sizes are those of admission, which also makes room before this limit of sessions is met.
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
            # Addresses in the log and in limits are those of the connection, whatever a header says.
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=_PATIENCE_S,
        )
    )


class _Connection(H11Protocol):
    """A connection that is closed if no request begins in time, and that gives way to others while it has none."""

    _watch: asyncio.TimerHandle | None = None
    _since = 0.0

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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
        """Give the next head its time: it runs from the first sign of life, and what trickles in does not renew it."""
        self._since = self.loop.time()
        if self._busy or self.transport.is_closing():
            self._leave()
        elif self._watch is None:
            self._watch = self.loop.call_later(HEAD_S, self.transport.abort)

    def _leave(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
