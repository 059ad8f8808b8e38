"""Who may connect: addresses, tokens and hosts are taken strictly."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool, NotAllowed
from rooflens.server.mcp import access
from rooflens.server.mcp.http import serve

GOOD = "sixteen-characters-or-more"


@pytest.mark.parametrize(
    "text",
    ["8321", "localhost", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:+80", "127.0.0.1: 80", "127.0.0.1:8321 ", "::1:80",
     "127.0.0.1:65536", "127.0.0.1:\u0661\u0662", "127.0.0.1:8_0", "127.0.0.1:08321", ":80", "[::1:80", "a b:80",
     "127.0.0.1:80\n", "unix:", "\u0661.0.0.1:80", ""],
)  # fmt: skip
def test_a_malformed_address_says_how_to_write_one(text: str) -> None:
    with pytest.raises(BadArgument, match="HOST:PORT"):
        access.parse(text)


def test_an_address_that_cannot_be_bound_is_a_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MissingTool, match="Choose another port"):
            access.listen(access.parse(f"127.0.0.1:{port}"))
    with pytest.raises(MissingTool, match="cannot be listened on"):
        access.listen(access.parse("192.0.2.1:8321"))


def test_a_unix_socket_is_its_owners_alone_and_replaces_one_that_nobody_serves(short_place: Path) -> None:
    address = access.parse(f"unix:{short_place}/socket")
    access.listen(address).close()
    with access.listen(address):
        assert (short_place / "socket").stat().st_mode & 0o777 == 0o600
        with pytest.raises(MissingTool, match="cannot be listened on"):
            access.listen(address)
    (short_place / "file").write_text("kept")
    with pytest.raises(MissingTool):
        access.listen(access.parse(f"unix:{short_place}/file"))
    assert (short_place / "file").read_text() == "kept"
    assert access.hosts(address, []).allow("localhost", None) and not access.hosts(address, []).allow("evil", None)


def test_what_an_address_is_decided_by_what_it_resolves_to() -> None:
    assert access.parse("localhost:8321").ip.is_loopback
    assert access.parse("0:8321").ip.is_unspecified, "another way to write all interfaces"
    assert access.parse("[::1]:8321").ip.is_loopback


def test_a_token_is_made_where_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(access.TOKEN, raising=False)
    address = access.parse("0.0.0.0:8321")
    made = [access.token(address, insecure_local=False, executes=True) for _ in range(2)]
    assert made[0] and made[1] and made[0] != made[1] and len(made[0]) >= 32
    monkeypatch.setenv(access.TOKEN, GOOD)
    assert access.token(address, insecure_local=False, executes=False) == GOOD


@pytest.mark.parametrize(
    "bad", ["short", "fifteen-letters", "\u00e9" * 20, "with a space in it", "with\ttab-and-more-letters"]
)
def test_a_token_that_is_short_or_cannot_be_sent_is_refused(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv(access.TOKEN, bad)
    with pytest.raises(BadArgument, match=r"16 or more") as refused:
        access.token(access.parse("127.0.0.1:8321"), insecure_local=False, executes=False)
    assert bad not in refused.value.text


def test_no_token_only_on_loopback_and_without_execution() -> None:
    local = access.parse("127.0.0.1:8321")
    assert access.token(local, insecure_local=True, executes=False) is None
    for text, executes in (("0.0.0.0:8321", False), ("[::]:8321", False), ("0:8321", False), ("127.0.0.1:8321", True)):
        with pytest.raises(NotAllowed, match="insecure-local"):
            access.token(access.parse(text), insecure_local=True, executes=executes)


def test_options_of_http_without_http_are_refused(samples: object) -> None:
    for options in ({"insecure_local": True}, {"allowed_hosts": ["proxy"]}):
        with pytest.raises(BadArgument, match="--http"):
            serve(samples, **options)  # type: ignore[arg-type]


def test_loopback_answers_to_its_own_names_with_their_port() -> None:
    hosts = access.hosts(access.parse("127.0.0.1:8321"), [])
    assert all(hosts.allow(name, "127.0.0.1") for name in ("127.0.0.1:8321", "LocalHost:8321", "[::1]:8321"))
    refused = (
        "",
        "localhost",
        "localhost:80",
        "evil.example",
        "evil.example:8321",
        "localhost.evil:8321",
        "127.0.0.1:8321:1",
    )
    assert not any(hosts.allow(name, "127.0.0.1") for name in refused)


def test_all_interfaces_answer_to_this_machine_and_to_the_address_of_the_connection() -> None:
    hosts = access.hosts(access.parse("0.0.0.0:8321"), [])
    assert hosts.allow(f"{socket.gethostname()}:8321", "10.1.2.3")
    assert hosts.allow("10.1.2.3:8321", "10.1.2.3") and hosts.allow("10.1.2.3:8321", "::ffff:10.1.2.3")
    assert hosts.allow("[fe80::1]:8321", "fe80::1")
    assert not hosts.allow("10.9.9.9:8321", "10.1.2.3") and not hosts.allow("evil.example:8321", "10.1.2.3")


def test_an_allowed_host_is_answered_with_its_port_or_with_any_usual_one() -> None:
    hosts = access.hosts(access.parse("127.0.0.1:8321"), ["Proxy.example", "other.example:8443"])
    assert all(hosts.allow(name, None) for name in ("proxy.example", "proxy.example:8321", "other.example:8443"))
    assert not hosts.allow("other.example", None) and not hosts.allow("proxy.example:99", None)


@pytest.mark.parametrize("text", ["", "*", "http://proxy", "a b", "proxy:", "proxy:0", "proxy:99999", "pr\u00f6xy"])
def test_a_malformed_allowed_host_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="--allowed-host"):
        access.hosts(access.parse("127.0.0.1:8321"), [text])
