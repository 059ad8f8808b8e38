"""The server on streamable HTTP: loopback works, other addresses and foreign hosts are refused."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from mcp.client import Client
from rooflens.analysis.problems import BadArgument, NotAllowed
from rooflens.analysis.store import Store
from rooflens.server.serve import serve


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(store: Store, port: int, **environment: str) -> subprocess.Popen[bytes]:
    import os

    process = subprocess.Popen(
        [sys.executable, "-m", "rooflens", "serve", "--http", f"127.0.0.1:{port}", "--store", str(store.root)],
        env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the server did not listen within 30 s")


@pytest.fixture(scope="module")
def url(samples: Store) -> Iterator[str]:
    port = _free_port()
    process = _start(samples, port)
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait(10)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_gets_metrics_over_http(url: str, mode: str) -> None:
    async with Client(url, mode=mode) as client:
        answer = await client.call_tool("compute_metrics", {"workload": "yax_after", "metrics": ["17.3.7"]})
    assert not answer.is_error


@pytest.mark.parametrize(("header", "value"), [("Host", "evil.example"), ("Origin", "http://evil.example")])
def test_a_foreign_host_or_origin_is_refused(url: str, header: str, value: str) -> None:
    request = urllib.request.Request(url, data=b"{}", headers={"Content-Type": "application/json", header: value})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code in (403, 421)


def test_an_oversized_body_is_refused(url: str) -> None:
    request = urllib.request.Request(url, data=b" " * (5 << 20), headers={"Content-Type": "application/json"})
    with pytest.raises((urllib.error.HTTPError, urllib.error.URLError, ConnectionError)) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert not isinstance(refused.value, urllib.error.HTTPError) or refused.value.code == 413


def test_a_token_is_asked_for_when_one_is_set(samples: Store) -> None:
    port = _free_port()
    process = _start(samples, port, ROOFLENS_TOKEN="right")
    try:
        for token, expected in (("wrong", 401), ("right", None)):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/mcp", data=b"{}",
                headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
            )  # fmt: skip
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=10)
            assert (refused.value.code == 401) is (expected == 401)
    finally:
        process.terminate()
        process.wait(10)


def test_an_address_that_others_can_reach_needs_a_token(samples: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOFLENS_TOKEN", raising=False)
    with pytest.raises(NotAllowed, match="ROOFLENS_TOKEN"):
        serve(samples, http="0.0.0.0:8321")


@pytest.mark.parametrize("address", ["8321", "localhost", "127.0.0.1:0", "127.0.0.1:x"])
def test_a_malformed_address_says_how_to_write_one(samples: Store, address: str) -> None:
    with pytest.raises(BadArgument, match="HOST:PORT"):
        serve(samples, http=address)
