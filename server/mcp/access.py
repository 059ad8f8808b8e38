"""Access over HTTP: the address to listen on, the token, and the host names that requests may use."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...analysis.base.problems import BadArgument, MissingTool, NotAllowed

TOKEN = "ROOFLENS_TOKEN"
SHORTEST_TOKEN = 16
_NAME = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_PORT = r"[1-9][0-9]{0,4}"
_LISTEN = re.compile(f"({_NAME}):({_PORT})")
_ALLOWED = re.compile(f"({_NAME})(?::({_PORT}))?")
_HIGHEST_PORT = 65535
_HTTP_PORT = 80
_UNIX = "unix:"


@dataclass(frozen=True)
class Address:
    """The address to listen on, as given and as resolved; ``host`` of an IPv6 address is in brackets.

    With ``path`` it is a Unix socket, which clients address as localhost.
    """

    host: str
    port: int
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address
    path: Path | None = None

    @property
    def url(self) -> str:
        """The URL for a client on this machine, or on another one if the server listens on all interfaces."""
        if self.path:
            return f"http://localhost/mcp on the Unix socket {self.path}"
        host = socket.gethostname() if self.ip.is_unspecified else self.host
        return f"http://{host}:{self.port}/mcp"


@dataclass(frozen=True)
class Hosts:
    """The accepted values of the header Host, in lower case.

    With ``own``, also the local address of a connection: a foreign web page can make a browser send the page's own
    host name, but never a numeric address.
    """

    names: frozenset[str]
    port: int
    own: bool = False

    def allow(self, host: str, local: str | None) -> bool:
        """Whether a request that was received on the address ``local`` may have the header Host ``host``."""
        host = host.lower()
        own = _with_port(local.removeprefix("::ffff:"), self.port) if self.own and local is not None else ()
        return host in self.names or host in own


def parse(text: str) -> Address:
    """Parse HOST:PORT, strictly in ASCII, or unix:PATH. Raises BadArgument, also for an unknown host name."""
    if text.startswith(_UNIX) and text != _UNIX and "\0" not in text:
        local = ipaddress.IPv4Address("127.0.0.1")
        return Address("localhost", _HTTP_PORT, local, Path(text.removeprefix(_UNIX)).absolute())
    match = _LISTEN.fullmatch(text)
    if not match or int(match[2]) > _HIGHEST_PORT:
        raise BadArgument(
            f"--http {text!a} is not an address",
            fix="Use HOST:PORT, for example 127.0.0.1:8321 or [::1]:8321, or unix:PATH",
        )
    host, port = match[1], int(match[2])
    try:
        resolved = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BadArgument(
            f"{host} cannot be resolved here", str(error.strerror or error), "Use an address of this machine"
        ) from error
    first = min(resolved, key=lambda entry: entry[0] != socket.AF_INET)
    return Address(host, port, ipaddress.ip_address(str(first[4][0]).partition("%")[0]))


def listen(address: Address) -> socket.socket:
    """A listening socket. The kernel drops a peer that is gone, or that reads nothing of its answer for a minute."""
    place, fix = f"{address.host}:{address.port}", "Choose another port, or end the program that uses this one"
    if address.path:
        place, fix = str(address.path), "Name another path"
    try:
        return _listen_unix(address.path) if address.path else _listen_tcp(address)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise MissingTool(f"{place} cannot be listened on", why, fix) from error


def _listen_tcp(address: Address) -> socket.socket:
    family = socket.AF_INET6 if address.ip.version == 6 else socket.AF_INET
    listener = socket.create_server(
        (str(address.ip), address.port),
        family=family,
        backlog=256,
        dualstack_ipv6=family == socket.AF_INET6 and address.ip.is_unspecified and socket.has_dualstack_ipv6(),
    )
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
    return listener


def _listen_unix(path: Path) -> socket.socket:
    """A socket that only its owner can use. It replaces one that a killed server left behind."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and probe.connect_ex(str(path)) != 0:
                path.unlink()
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener


def hosts(address: Address, allowed: Iterable[str]) -> Hosts:
    """The accepted host names: the address itself, its usual names, and what the user allows in addition.

    For all interfaces, these are this machine's name, the names of loopback and each of its addresses.
    """
    names = _with_port(address.host, address.port)
    everywhere = address.ip.is_unspecified
    if address.ip.is_loopback or everywhere:
        names |= {form for name in ("127.0.0.1", "localhost", "[::1]") for form in _with_port(name, address.port)}
    if everywhere:
        machine = socket.gethostname()
        names |= _with_port(machine, address.port) | _with_port(machine.partition(".")[0], address.port)
    for text in allowed:
        match = _ALLOWED.fullmatch(text)
        if not match or int(match[2] or 1) > _HIGHEST_PORT:
            raise BadArgument(f"--allowed-host {text!a} is not a host", fix="Use NAME or NAME:PORT, without http://")
        # A name without a port stands for both forms, because a proxy on a default port sends none.
        names |= {text.lower()} if match[2] else {text.lower(), *_with_port(text, address.port)}
    return Hosts(frozenset(names), address.port, everywhere)


def token(address: Address, *, insecure_local: bool, executes: bool) -> str | None:
    """The token that clients must send: the user's, or else a new one; None only with ``--insecure-local``.

    Raises NotAllowed if a server without a token would be unsafe, and BadArgument for an invalid token.
    """
    if insecure_local:
        if not address.ip.is_loopback:
            raise NotAllowed(
                f"{address.host} is reachable from other machines",
                "--insecure-local is for loopback addresses",
                f"Omit --insecure-local, or bind 127.0.0.1:{address.port}",
            )
        if executes and not address.path:
            raise NotAllowed(
                "--insecure-local cannot be combined with --allow-exec",
                "every user of this machine could run programs as you",
                "Omit one of them",
            )
        return None
    given = os.environ.get(TOKEN)
    if not given:
        return secrets.token_urlsafe(32)
    if len(given) < SHORTEST_TOKEN or not all("!" <= character <= "~" for character in given):
        raise BadArgument(
            f"{TOKEN} cannot be used",
            f"it must have {SHORTEST_TOKEN} or more ASCII characters and no spaces",
            'For example: python3 -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return given


def invitation(address: Address, token: str | None) -> str:
    """The address and the header for clients. A token that the user chose is not repeated."""
    if token is None:
        return f"rooflens serves {address.url}"
    shown = f"${TOKEN}" if token == os.environ.get(TOKEN) else token
    return f"rooflens serves {address.url}\nClients send the header  Authorization: Bearer {shown}"


def _with_port(host: str, port: int) -> set[str]:
    """The value of Host for a server: the port may be omitted only if it is the default port."""
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return {f"{host}:{port}".lower(), *({host.lower()} if port == _HTTP_PORT else ())}
