"""The server on streamable HTTP: who gets in, what is refused, what ends in time, and how the server ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.mcp import access, app, http
from rooflens.server.mcp.admission import DEFAULT_LIMITS, ServerLimits
from rooflens.tests.support.malformed import HOSTILE, MALFORMED, NOT_FOR_US, OF_EACH_KIND
from rooflens.tests.support.waiting import END_S, free_port, until
from rooflens.tests.system.server.test_calls import COLD, SLOW_SQL, below
from rooflens.tests.system.server.test_execution import FAMILY, alive, profiling

TOKEN = "sixteen-characters-or-more"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"},
}}).encode()  # fmt: skip


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, object]:
        """The one message in a plain answer or in a stream of events."""
        lines = self.body.split(b"\n")
        text = next((line.partition(b":")[2] for line in lines if line.startswith(b"data:")), self.body)
        return dict(json.loads(text))


@dataclass(frozen=True)
class Place:
    """A running server, spoken to in bytes."""

    port: int
    admission: Any = None
    """Where it is in this process."""

    def send(self, data: bytes) -> bytes:
        """What comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=END_S) as peer:
            peer.sendall(data)
            found = b""
            while part := peer.recv(1 << 16):
                found += part
        return found

    def head(self, line: str, extra: list[str], **headers: str | None) -> bytes:
        usual: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream", "Connection": "close",
        }  # fmt: skip
        named = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
        lines = [f"{name}: {value}" for name, value in named.items() if value is not None]
        return "\r\n".join([f"{line} HTTP/1.1", *lines, *extra, "", ""]).encode()

    def ask(self, line: str, body: bytes = b"", extra: list[str] | None = None, **headers: str | None) -> Reply:
        if body:
            headers = {"Content-Length": str(len(body)), **headers}
        found = self.send(self.head(line, extra or [], **headers) + body)
        top, _, rest = found.partition(b"\r\n\r\n")
        first, *others = top.decode("latin-1").split("\r\n")
        pairs = [entry.partition(": ") for entry in others]
        return Reply(int(first.split()[1]), {name.lower(): value for name, _, value in pairs}, rest)

    def post(self, body: bytes, extra: list[str] | None = None, **headers: str | None) -> Reply:
        return self.ask("POST /mcp", body, extra, **headers)

    def session(self) -> str:
        return self.post(INITIALIZE).headers["mcp-session-id"]


@contextmanager
def _process(
    store: Store, log: Path, *options: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[bytes], Place]]:
    kept = {name: value for name, value in os.environ.items() if name != access.TOKEN}
    with free_port() as port:
        command = [sys.executable, "-m", COLD, "serve", "--http", f"127.0.0.1:{port}", "--store", str(store.root)]
        with log.open("wb") as errors:
            process = subprocess.Popen([*command, *options], env={**kept, **environment}, stderr=errors)
        try:
            until(lambda: process.poll() is not None or b"rooflens serves" in log.read_bytes())
            assert process.poll() is None, log.read_text()
            yield process, Place(port)
        finally:
            process.kill()
            process.wait()


@contextmanager
def _inside(store: Store, limits: ServerLimits = DEFAULT_LIMITS, token: str | None = TOKEN) -> Iterator[Place]:
    """A server in a thread of this process."""
    with free_port() as port:
        address = access.parse(f"127.0.0.1:{port}")
        server = http.service(app.build(store), access.hosts(address, []), token, limits)
        thread = threading.Thread(target=server.run, args=([access.listen(address)],))
        thread.start()
        try:
            yield Place(port, server.config.app)
        finally:
            server.should_exit = True
            thread.join(END_S)
            assert not thread.is_alive(), "it ends before the next test begins"


STATELESS = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
             "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"}}  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "stderr"


@pytest.fixture(scope="module")
def place(samples: Store, log: Path) -> Iterator[Place]:
    with _process(samples, log, "--allowed-host", "proxy.example", ROOFLENS_TOKEN=TOKEN) as (_, found):
        yield found


@pytest.fixture(scope="module")
def session(place: Place) -> str:
    return place.session()


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_gets_metrics_over_http(place: Place, mode: str) -> None:
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"}) as own:
        transport = streamable_http_client(f"http://127.0.0.1:{place.port}/mcp", http_client=own)
        async with Client(transport, mode=mode) as client:
            answer = await client.call_tool("compute_metrics", {"workload": "yax_after", "metrics": ["17.3.7"]})
    assert not answer.is_error


def test_without_the_token_nobody_gets_in_and_nothing_is_told(place: Place, log: Path) -> None:
    for given in (None, f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer", "", "Bearer wrong"):
        before = log.read_text().count("a wrong token from 127.0.0.1")
        reply = place.post(PING, Authorization=given)
        assert (reply.status, reply.headers["www-authenticate"], reply.body) == (401, "Bearer", b"unauthorized"), given
    assert TOKEN not in log.read_text() and "Bearer wrong" not in log.read_text()
    assert log.read_text().count("a wrong token from 127.0.0.1") == before + 1


def test_a_foreign_host_is_refused(place: Place, session: str) -> None:
    for host in ("evil.example", "evil.example:{}", "localhost", "127.0.0.1:1", "", "localhost:{}."):
        assert place.post(PING, Host=host.format(place.port)).status == 421, host
    for host in ("LOCALHOST:{}", "[::1]:{}", "proxy.example", "Proxy.Example:{}"):
        assert place.post(PING, Host=host.format(place.port), Mcp_Session_Id=session).status == 200, host


def test_a_foreign_or_empty_origin_is_refused(place: Place, session: str) -> None:
    refused = ("", "null", "http://evil.example", "http://", "ftp://localhost:{}", "localhost:{}")
    for origin in (*refused, "http://localhost:{}", "https://proxy.example"):
        status = place.post(PING, Origin=origin.format(place.port), Mcp_Session_Id=session).status
        assert status == (403 if origin in refused else 200), origin


def test_a_header_that_could_be_read_in_two_ways_is_refused(place: Place, session: str) -> None:
    for twice in (
        "Host: evil.example", "Authorization: Bearer wrong", "Content-Length: 3", "Origin: null\r\nOrigin: null",
        "Mcp-Session-Id: b", "Transfer-Encoding: chunked", "Content-Type: text/plain",
    ):  # fmt: skip
        assert place.post(PING, [twice], Mcp_Session_Id=session).status == 400, twice
    for separator in ("\r\n ", "\r\n\t", "\n "):
        folded = place.post(PING, Mcp_Session_Id=session, Authorization=f"Bearer{separator}{TOKEN}")
        assert folded.status == 400, "a header over two lines"


def test_health_needs_no_token_and_tells_nothing_else(place: Place, log: Path) -> None:
    assert f"http://127.0.0.1:{place.port}/mcp" in log.read_text()
    reply = place.ask("GET /health", Authorization=None, Host="anything.example")
    assert (reply.status, json.loads(reply.body)) == (200, {"status": "ok"})
    reply = place.ask("HEAD /health", Authorization=None)
    assert (reply.status, reply.body) == (200, b"")


def test_other_paths_and_methods_do_not_exist_for_anybody(place: Place) -> None:
    for line in ("GET /", "GET /mcp/", "GET /%6dcp", "POST /health", "GET /docs", "GET http://evil/mcp"):
        replies = [place.ask(line, Authorization=given) for given in (None, f"Bearer {TOKEN}")]
        assert [(reply.status, reply.body) for reply in replies] == [(404, b"not found")] * 2, line
    for method in ("PUT", "OPTIONS", "TRACE", "HEAD", "PATCH"):
        assert place.ask(f"{method} /mcp").status == 405, method


def test_the_log_has_a_line_for_each_request_without_queries_or_control_characters(place: Place, log: Path) -> None:
    place.ask("GET /a%0Ab?token=secret")
    place.ask("GET /seen", Mcp_Session_Id="x\x9by")
    place.ask("GET /last")
    text = log.read_text()
    assert "127.0.0.1 GET /a%0Ab 404" in text and "secret" not in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_an_oversized_body_is_refused(place: Place) -> None:
    head = place.head("POST /mcp", [f"Content-Length: {5 << 20}"])
    assert b" 413 " in place.send(head).split(b"\r\n")[0], "before it is sent"
    chunks = place.head("POST /mcp", ["Transfer-Encoding: chunked"]) + (b"100000\r\n" + b" " * (1 << 20) + b"\r\n") * 4
    assert b" 413 " in place.send(chunks + b"1\r\n \r\n").split(b"\r\n")[0], "and when it turns out so"


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_a_malformed_message_is_answered_and_a_notification_is_not(place: Place, session: str, era: str) -> None:
    for name in OF_EACH_KIND:
        raw, expected = MALFORMED[name]
        reply = place.post(raw, Mcp_Protocol_Version=era, Mcp_Session_Id=session if era == "2025-11-25" else None)
        assert reply.status == 400, name
        if expected is None:
            assert reply.body == b"", name
        else:
            error = reply.message["error"]
            assert isinstance(error, dict) and (error["code"], reply.message["id"]) == expected, name
    for raw in NOT_FOR_US:
        reply = place.post(raw, Mcp_Session_Id=session)
        assert (reply.status, reply.body) == (202, b"")


def test_an_address_in_use_is_a_problem(samples: Store, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", str(samples.root), "serve", "--http", f"127.0.0.1:{place.port}"]) == 1
    assert "cannot be listened on" in capsys.readouterr().err


def test_insecure_local_asks_for_no_token_but_still_for_a_host(samples: Store) -> None:
    with _inside(samples, token=None) as place:
        assert place.post(INITIALIZE, Authorization=None).status == 200
        assert place.post(INITIALIZE, Authorization=None, Host="evil.example").status == 421


def test_a_unix_socket_takes_a_made_token_told_once_and_is_removed_at_the_end(
    samples: Store, tmp_path: Path, short_place: Path
) -> None:
    path, log = short_place / "socket", tmp_path / "log"
    with _process(samples, log, "--http", f"unix:{path}") as (process, place):
        token = log.read_text().partition("Authorization: Bearer ")[2].split()[0]
        for given, status in ((None, b"401"), (f"Bearer {token}", b"200")):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(path))
                length = [f"Content-Length: {len(INITIALIZE)}"]
                peer.sendall(place.head("POST /mcp", length, Host="localhost", Authorization=given) + INITIALIZE)
                assert peer.recv(100).startswith(b"HTTP/1.1 " + status)
        assert log.read_text().count(token) == 1
        process.terminate()
        assert process.wait(END_S) == 0 and not path.exists()


def test_a_signal_ends_the_server_in_time_with_streams_and_calls_open(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    pids, own = tmp_path / "pids", {**environment, "ROOFLENS_TOKEN": TOKEN}
    with _process(Store(tmp_path / "store"), tmp_path / "log", "--allow-exec", **own) as (process, place):
        session = place.session()
        calls = [_slow(5), _call(6, "profile_command", profiling(FAMILY, str(pids)))]
        requests = [
            place.head("GET /mcp", [], Mcp_Session_Id=session),
            *(place.head("POST /mcp", [f"Content-Length: {len(c)}"], Mcp_Session_Id=session) + c for c in calls),
            b"POST /mcp HTTP/1.1\r\nHost:",
        ]
        peers = [socket.create_connection(("127.0.0.1", place.port)) for _ in requests]
        for peer, request in zip(peers, requests, strict=True):
            peer.sendall(request)
        assert peers[0].recv(4096).startswith(b"HTTP/1.1 200"), "the stream is open"
        until(lambda: pids.exists() and len(below(process.pid)) >= 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == 0, "the stream would go on for ever"
        assert b"structuredContent" not in _rest(peers[1]) + _rest(peers[2]), "the calls were not waited for"
        until(lambda: not alive(pids))
        assert "Traceback" not in (tmp_path / "log").read_text()
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", place.port))
        for peer in peers:
            peer.close()


def _rest(peer: socket.socket) -> bytes:
    """What was sent before the connection ended."""
    found = b""
    with suppress(ConnectionError):
        while part := peer.recv(1 << 16):
            found += part
    return found


def _closed(peer: socket.socket, trickle: bytes) -> bool:
    """Whether the server closes a connection that sends one byte now and then."""
    began = time.monotonic()
    peer.settimeout(0.05)
    while time.monotonic() - began < END_S:
        try:
            peer.sendall(trickle)
            if not peer.recv(4096):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


UNFINISHED = {
    "silent": (b"", b""),
    "half-open": (b"POST /mcp HTTP/1.1\r\n", b""),
    "slow head": (b"POST /mcp HTTP/1.1\r\nX: ", b"a"),
    "slow second head": (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.1\r\nX: ", b"a"),
    "refused, then a slow body": (b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n", b"a"),
}
"""What a client begins with, and what it sends now and then afterwards."""


def test_a_connection_that_does_not_finish_its_head_is_closed(samples: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEAD_S", 0.2)
    monkeypatch.setattr(http, "KEEP_ALIVE_S", 0.2)
    with _inside(samples) as place:
        for start, trickle in UNFINISHED.values():
            with socket.create_connection(("127.0.0.1", place.port)) as peer:
                peer.sendall(start)
                assert _closed(peer, trickle), start


def test_a_body_that_stops_or_trickles_is_given_up(samples: Store) -> None:
    with _inside(samples, ServerLimits(body_pause_s=0.2, body_s=0.5)) as place:
        for trickle in (b"", b" "):
            with socket.create_connection(("127.0.0.1", place.port)) as peer:
                peer.sendall(place.head("POST /mcp", ["Content-Length: 1000"]))
                assert _closed(peer, trickle)


def test_when_connections_run_out_the_idlest_gives_way(samples: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS", 5)
    with _inside(samples) as place:
        silent = [socket.create_connection(("127.0.0.1", place.port)) for _ in range(12)]
        assert place.session()
        silent[0].settimeout(END_S)
        with pytest.raises(ConnectionError):
            if not silent[0].recv(1):
                raise ConnectionError
        for peer in silent:
            peer.close()


def _call(ident: int, tool: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}).encode()


def _slow(ident: int) -> bytes:
    return _call(ident, "query_counters", SLOW_SQL)


def test_calls_of_one_client_are_limited_and_an_id_in_use_is_refused(samples: Store) -> None:
    with _inside(samples, ServerLimits(calls=2)) as place:
        session = place.session()
        with socket.create_connection(("127.0.0.1", place.port)) as peer:
            body = _slow(1)
            peer.sendall(place.head("POST /mcp", [f"Content-Length: {len(body)}"], Mcp_Session_Id=session) + body)
            until(lambda: len(place.admission._unanswered) == 1)
            again = place.post(body, Mcp_Session_Id=session)
            assert (again.status, again.message["id"]) == (400, 1)
            with socket.create_connection(("127.0.0.1", place.port)) as other:
                body = _slow(2)
                other.sendall(place.head("POST /mcp", [f"Content-Length: {len(body)}"], Mcp_Session_Id=session) + body)
                until(lambda: len(place.admission._unanswered) == 2)
                busy = place.post(_slow(3), Mcp_Session_Id=session)
                assert (busy.status, busy.headers["retry-after"], busy.message["id"]) == (429, "1", 3)
                cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
                assert place.post(cancel, Mcp_Session_Id=session).status == 202, "a client can always cancel"
                assert place.post(PING, Mcp_Session_Id=place.session()).status == 200, "others are served"


def test_the_longest_idle_session_makes_room_for_a_new_one(samples: Store) -> None:
    with _inside(samples, ServerLimits(sessions=3)) as place:
        first, *others = [place.session() for _ in range(3)]
        assert place.post(PING, Mcp_Session_Id=others[0]).status == 200
        for _ in range(2):
            assert place.session()
        statuses = [place.post(PING, Mcp_Session_Id=one).status for one in (first, *others)]
        assert statuses == [404, 200, 404], "the one that was used last stays"


def test_a_head_that_is_too_long_is_refused(place: Place, session: str) -> None:
    for extra in (["x: y"] * 200, ["x: y"] * 10_000, ["x: " + "y" * 40_000], ["x: " + "y" * 9000] * 4):
        assert place.post(PING, extra, Mcp_Session_Id=session).status == 400
    assert place.post(PING, ["x: y"] * 80, Mcp_Session_Id=session).status == 200


def test_resuming_a_stream_is_refused_in_words(place: Place, session: str) -> None:
    reply = place.ask("GET /mcp", Mcp_Session_Id=session, Last_Event_ID="5")
    assert reply.status == 400 and b"Last-Event-ID" in reply.body


_ODD_HEADERS = {
    "Last-Event-ID": ("", "5", "\x00", "é"), "Accept": ("", "text/html", "*/*;q=0"),
    "Content-Type": ("", "text/plain", "application/json; charset=x"), "Mcp-Session-Id": ("", "none", "é" * 40),
    "Mcp-Protocol-Version": ("", "1999-01-01", "x" * 500), "Expect": ("100-continue", "200-x"),
    "Content-Length": ("-1", "1e3", "", "99999999999999999999"), "Transfer-Encoding": ("gzip", "chunked, chunked"),
    "Upgrade": ("websocket", "h2c"), "Range": ("bytes=0-",), "Content-Encoding": ("gzip",),
}  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_no_request_with_odd_headers_is_answered_by_an_error_of_the_server(
    place: Place, log: Path, method: str
) -> None:
    for name, values in _ODD_HEADERS.items():
        for value in values:
            with socket.create_connection(("127.0.0.1", place.port), timeout=END_S) as peer:
                session = {} if name == "Mcp-Session-Id" or method == "DELETE" else {"Mcp_Session_Id": place.session()}
                body = b"{" if method == "POST" else b""
                length = {} if name == "Content-Length" else {"Content-Length": str(len(body))}
                head = place.head(f"{method} /mcp", [], **session, **length, **{name: value})
                peer.sendall(head + body)
                first = peer.recv(64).split()
            assert not first or (first[0].startswith(b"HTTP/1.1") and int(first[1]) < 500), (name, value)
    assert "Traceback" not in log.read_text() and "without starting response" not in log.read_text()


def test_errors_over_http_repeat_little_of_a_request_and_nothing_hidden(place: Place) -> None:
    for odd in ("m" * 2_000_000, HOSTILE):
        params = {"uri": f"rooflens://workload/{odd}", "_meta": STATELESS}
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params}).encode()
        told = place.post(message, Mcp_Protocol_Version="2026-07-28")
        assert len(told.body) < 1500, told.body[:200]
        assert not any(part in told.body.decode() for part in ("\u202e", "\\u001b", "<img", "![a]")), told.body
