"""Runs the MCP server on stdio or on streamable HTTP, with the rules of who may connect."""

from __future__ import annotations

import gc
import hmac
import ipaddress
import os
import signal
import threading
from typing import Any

from mcp.server.mcpserver import MCPServer

from ..analysis.problems import BadArgument, NotAllowed
from ..analysis.store import Store
from ..tools.runner.start import stop_all
from .app import build, warm_up

TOKEN = "ROOFLENS_TOKEN"
_PATIENCE_S = 2
"""Seconds that calls have left when the server is told to end: one that waits for a run would hold it up."""
_WARM_UP_AFTER_S = 2.0
"""After a client has connected and listed the tools, so that its start is not slowed down."""


def serve(store: Store, *, http: str | None = None, read_only: bool = False, allow_exec: bool = False) -> int:
    """Serve until the client goes away (stdio) or the process is stopped (HTTP)."""
    address = _address(http) if http else None
    token = os.environ.get(TOKEN)
    if address and not _loopback(address[0]) and not token:
        raise NotAllowed(
            f"{address[0]} is reachable from other machines",
            "anyone there could read the store",
            f"Bind 127.0.0.1, or set {TOKEN} to a secret that clients send as a bearer token",
        )
    mcp = build(store, read_only=read_only, allow_exec=allow_exec)
    gc.freeze()
    gc.enable()
    later = threading.Timer(_WARM_UP_AFTER_S, warm_up)
    later.start()
    try:
        if address:
            _serve_http(mcp, *address, token)
        else:
            # An interrupt would only be noticed with the next line of input. Runs end with this process in any case.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            mcp.run("stdio")
    finally:
        stop_all()
        # The interpreter must not end while the thread is inside DuckDB.
        later.cancel()
        later.join()
    return 0


def _serve_http(mcp: MCPServer[Any], host: str, port: int, token: str | None) -> None:
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    names = [host, "127.0.0.1", "localhost", "[::1]"]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{n}:{port}" for n in names],
        allowed_origins=[f"http://{n}:{port}" for n in names],
    )
    app = mcp.streamable_http_app(transport_security=security, host=host)
    uvicorn.run(
        _guarded(app, token) if token else app,
        host=host.strip("[]"),
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=_PATIENCE_S,
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadArgument(f"--http {text!r} is no address", fix="Write HOST:PORT, for instance 127.0.0.1:8321")
    return host, int(port)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _guarded(app: Any, token: str) -> Any:
    """``app`` behind a bearer token, compared in constant time."""
    expected = f"Bearer {token}".encode()

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, expected):
                await send(
                    {"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]}
                )
                await send({"type": "http.response.body", "body": b"a bearer token is required"})
                return
        await app(scope, receive, send)

    return guard
