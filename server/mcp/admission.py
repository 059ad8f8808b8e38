"""The layer before the MCP server on HTTP: access, limits, and one log line per request."""

from __future__ import annotations

import hmac
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from mcp.types import INVALID_REQUEST, JSONRPCRequest, RequestId
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import messages
from .access import Hosts
from .calls import CLIENT

logger = logging.getLogger("rooflens.http")
PATH, HEALTH = b"/mcp", b"/health"
_METHODS = ("GET", "POST", "DELETE")
_ONCE = (b"host", b"authorization", b"content-length", b"content-type", b"origin", b"mcp-session-id")
"""Headers that must not be repeated, because different readers could use different values."""
_SESSION = b"mcp-session-id"
_LONGEST_PATH = 200


@dataclass(frozen=True)
class ServerLimits:
    """The limits of one server."""

    body: int = 4 << 20
    body_pause_s: float = 30.0
    """The maximum time in seconds between two parts of a body."""
    body_s: float = 120.0
    calls: int = 32
    """The maximum number of concurrent requests of one client; clients without a session are told apart by address."""
    sessions: int = 256


DEFAULT_LIMITS = ServerLimits()


class Admission:
    """An ASGI application that wraps another one."""

    def __init__(self, app: ASGIApp, hosts: Hosts, token: str | None, limits: ServerLimits) -> None:
        self._app, self._hosts = app, hosts
        self._token = token.encode() if token else None
        self._limits = limits
        self._calls: Counter[str] = Counter()
        self._unanswered: set[tuple[str, str]] = set()
        self._sessions: dict[str, float] = {}
        """The open sessions with the time of their last use, in that order."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        line = _RequestLogLine(scope, send)
        try:
            refusal = self._refusal(scope)
            if refusal is None and scope["method"] == "POST":
                refusal = await self._hand_on(scope, receive, line)
            elif refusal is None:
                with self._in_use(_session(scope)):
                    await self._app(scope, receive, line.send)
                if scope["method"] == "DELETE" and line.status < 400:
                    self._sessions.pop(_session(scope), None)
            if refusal is not None:
                await refusal(scope, receive, line.send)
        except ClientDisconnect:
            pass
        finally:
            line.write()

    def _refusal(self, scope: Scope) -> Response | None:
        """A response that does not need the body: to requests without access, and to health checks."""
        names = [name for name, _ in scope["headers"]]
        headers = dict(scope["headers"])
        framed_twice = b"content-length" in headers and b"transfer-encoding" in headers
        if framed_twice or any(names.count(name) > 1 for name in _ONCE):
            return PlainTextResponse("a header is repeated", 400)
        if scope["raw_path"] == HEALTH and scope["method"] in ("GET", "HEAD"):
            return JSONResponse({"status": "ok"})
        if scope["raw_path"] != PATH:
            return PlainTextResponse("not found", 404)
        local = (scope.get("server") or (None,))[0]
        if not self._hosts.allow(headers.get(b"host", b"").decode("latin-1"), local):
            return PlainTextResponse("this server does not accept that Host (see --allowed-host)", 421)
        if b"origin" in headers:
            scheme, _, host = headers[b"origin"].decode("latin-1").partition("://")
            if scheme not in ("http", "https") or not self._hosts.allow(host, local):
                return PlainTextResponse("that Origin may not use this server", 403)
        if self._token is not None and not self._is_known_session(headers.get(b"authorization"), scope):
            return PlainTextResponse("unauthorized", 401, {"www-authenticate": "Bearer"})
        if scope["method"] not in _METHODS:
            return PlainTextResponse("method not allowed", 405, {"allow": ", ".join(_METHODS)})
        if b"last-event-id" in headers:
            return PlainTextResponse("streams cannot be resumed: open a new one without Last-Event-ID", 400)
        return None

    def _is_known_session(self, given: bytes | None, scope: Scope) -> bool:
        if given is None:
            return False
        scheme, _, token = given.partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(token, self._token or b""):
            return True
        logger.warning("a wrong token from %s", _peer(scope))
        return False

    async def _hand_on(self, scope: Scope, receive: Receive, line: _RequestLogLine) -> Response | None:
        """Forward one message, or respond why not."""
        body = await self._body(scope, receive)
        if isinstance(body, Response):
            return body
        message = messages.read(body)
        if isinstance(message, messages.Refused):
            return Response(
                messages.encode_message(message.answer) if message.answer else b"", 400, None, "application/json"
            )
        if not isinstance(message, JSONRPCRequest):
            # Notifications are not counted, so that a client can always cancel.
            await self._app(scope, _replay(body, receive), line.send)
            return None
        return await self._answer_call(message, scope, _replay(body, receive), line)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response:
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        too_long = PlainTextResponse(f"a message may have {self._limits.body >> 20} MiB", 413)
        if int(declared) > self._limits.body:
            return too_long
        body = bytearray()
        try:
            with anyio.fail_after(self._limits.body_s):
                while True:
                    with anyio.fail_after(self._limits.body_pause_s):
                        part = await receive()
                    if part["type"] != "http.request":
                        raise ClientDisconnect
                    body += part.get("body", b"")
                    if len(body) > self._limits.body:
                        return too_long
                    if not part.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            return PlainTextResponse("the message did not arrive in time", 408, {"connection": "close"})

    async def _answer_call(
        self, message: JSONRPCRequest, scope: Scope, receive: Receive, line: _RequestLogLine
    ) -> Response | None:
        session = _session(scope)
        client = session if session in self._sessions else _peer(scope)
        # Without a session, each connection is a client of its own, because many users can share the address of a node.
        CLIENT.set(client if client == session else ":".join(map(str, scope.get("client") or ("local",))))
        if self._calls[client] >= self._limits.calls:
            told = f"{self._limits.calls} calls of this client are in progress: wait for some"
            return _error(429, messages.BUSY, told, message.id)
        key = (session, str(message.id))
        if session and key in self._unanswered:
            return _error(400, INVALID_REQUEST, messages.ID_IN_USE, message.id)
        opens = message.method == "initialize" and not session
        if opens:
            await self._make_room()
        self._unanswered.add(key)
        try:
            with self._in_use(client):
                await self._app(scope, receive, line.send)
        finally:
            self._unanswered.discard(key)
        if opens and line.session and line.status < 400:
            self._sessions[line.session] = time.monotonic()
        return None

    async def _make_room(self) -> None:
        """End the least recently used session if the maximum number is reached."""
        if len(self._sessions) < self._limits.sessions:
            return
        idle = [session for session in self._sessions if not self._calls[session]]
        if idle:
            oldest = min(idle, key=lambda session: self._sessions[session])
            del self._sessions[oldest]
            logger.info("session %s was ended to make room", oldest[:8])
            await _end(self._app, oldest)

    @contextmanager
    def _in_use(self, client: str) -> Iterator[None]:
        """Count a request of a client while it is in progress; a count of zero is removed."""
        self._calls[client] += 1
        try:
            yield
        finally:
            self._calls[client] -= 1
            if not self._calls[client]:
                del self._calls[client]
            if client in self._sessions:
                self._sessions[client] = time.monotonic()


class _RequestLogLine:
    """The log entry of one request, without body, query and token."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope, self._send = scope, send
        self._began = time.monotonic()
        self._size = 0
        self.status = 0
        self.session = _session(scope)

    async def send(self, message: Message) -> None:
        """Forward a part of the response, and record it for the log."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.session = self.session or dict(message.get("headers", [])).get(_SESSION, b"").decode("latin-1")
        else:
            self._size += len(message.get("body", b""))
        await self._send(message)

    def write(self) -> None:
        """Log it."""
        path = self._scope["raw_path"][:_LONGEST_PATH].decode("latin-1")
        logger.info(
            "%s %s %s %s %d B %.0f ms session %s",
            _peer(self._scope),
            ascii(self._scope["method"])[1:-1],
            ascii(path)[1:-1],
            self.status or "-",
            self._size,
            (time.monotonic() - self._began) * 1000,
            ascii(self.session[:8])[1:-1] or "-",
        )


def _session(scope: Scope) -> str:
    header: bytes = dict(scope["headers"]).get(_SESSION, b"")
    return header.decode("latin-1")


def _peer(scope: Scope) -> str:
    return str((scope.get("client") or ("local",))[0])


def _error(status: int, code: int, told: str, ident: RequestId) -> Response:
    answer = messages.refuse_message(code, told, ident).answer
    assert answer is not None
    headers = {"retry-after": "1"} if status == 429 else None
    return Response(messages.encode_message(answer), status, headers, "application/json")


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


async def _end(app: ASGIApp, session: str) -> None:
    """End a session in the same way as its client would."""
    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": "DELETE",
        "path": PATH.decode(), "raw_path": PATH, "root_path": "", "query_string": b"", "client": None, "server": None,
        "headers": [(_SESSION, session.encode("latin-1"))],
    }  # fmt: skip

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        pass

    await app(scope, receive, send)
