"""A model behind an HTTP endpoint, accessed with the standard library; the key is taken from the environment."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message as Headers
from typing import IO, Any

import anyio.to_thread

from rooflens.eval.agent.players.dialects import DIALECTS
from rooflens.eval.agent.players.turn import PlayerFailed, Position, Reply

ANSWER_BYTES = 8_000_000
"""Maximum size of a response."""
ERROR_CHARACTERS = 500
TRY_AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
LONGEST_WAIT_S = 60.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Address:
    """The endpoint of a model: base address including the version (``https://host/v1``), dialect and model name.

    ``key_variable`` is the environment variable with the key; None if the endpoint requires none.
    """

    base: str
    dialect: str
    model: str
    key_variable: str | None = None


class EndpointPlayer:
    """A player that uses HTTP POST. Redirects are refused, so that the key is sent only to the given host."""

    def __init__(self, address: Address, *, most_tokens: int = 8192, timeout_s: float = 300, tries: int = 4) -> None:
        """Raises PlayerFailed if the address or the key is invalid."""
        parts = urllib.parse.urlsplit(address.base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PlayerFailed(f"{address.base} is not an http(s) address")
        if parts.username or parts.password:
            raise PlayerFailed("an address must not contain a password; name a variable with --key-env")
        if address.dialect not in DIALECTS:
            raise PlayerFailed(f"dialect {address.dialect} is not one of {', '.join(DIALECTS)}")
        if address.key_variable and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise PlayerFailed(f"{address.base}: a key is sent over https only")
        if address.key_variable and not os.environ.get(address.key_variable, "").strip():
            raise PlayerFailed(f"the variable {address.key_variable} is not set; it must contain the key")
        if address.key_variable and not _key(address.key_variable).isprintable():
            raise PlayerFailed(f"the variable {address.key_variable} contains something other than a key")
        self.name = address.model
        self._address, self._dialect = address, DIALECTS[address.dialect]
        self._most_tokens, self._timeout_s, self._tries = most_tokens, timeout_s, tries
        self._opener = urllib.request.build_opener(_NoRedirect())

    async def reply(self, position: Position) -> Reply:
        """Send one request, and retry if the endpoint is busy. Raises PlayerFailed."""
        body = self._dialect.request(self._address.model, position, self._most_tokens)
        answer = await anyio.to_thread.run_sync(self._post, body)
        try:
            return self._dialect.reply(answer)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise PlayerFailed(f"the endpoint's response does not match the dialect {self._address.dialect}") from error

    async def close(self) -> None:
        """Nothing to close: no connection is kept between requests."""

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._address.base.rstrip("/") + self._dialect.path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **self._key_headers()},
            method="POST",
        )
        for left in reversed(range(self._tries)):
            try:
                with self._opener.open(request, timeout=self._timeout_s) as response:
                    return self._read(response)
            except urllib.error.HTTPError as error:
                if error.code not in TRY_AGAIN or not left:
                    raise PlayerFailed(f"HTTP {error.code}: {self._scrubbed(error)}") from None
                time.sleep(_wait_s(error.headers, self._tries - left))
            except (OSError, http.client.HTTPException) as error:
                raise PlayerFailed(f"{self._address.base}: {error}") from None
        raise PlayerFailed(f"{self._address.base} was never called")

    def _read(self, response: IO[bytes]) -> dict[str, Any]:
        text = response.read(ANSWER_BYTES + 1)
        if len(text) > ANSWER_BYTES:
            raise PlayerFailed(f"the endpoint's response is longer than {ANSWER_BYTES} bytes")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            raise PlayerFailed("the endpoint's response is not JSON") from None
        if not isinstance(answer, dict):
            raise PlayerFailed("the endpoint's response is not a JSON object")
        return answer

    def _key_headers(self) -> dict[str, str]:
        variable = self._address.key_variable
        return self._dialect.headers(_key(variable)) if variable else {}

    def _scrubbed(self, error: urllib.error.HTTPError) -> str:
        text = ""
        with suppress(OSError, http.client.HTTPException):
            text = error.read(4 * ERROR_CHARACTERS).decode(errors="replace")
        variable = self._address.key_variable
        return (text.replace(_key(variable), "(key)") if variable else text)[:ERROR_CHARACTERS]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Headers, newurl: str
    ) -> None:
        """Refuses redirects: the response becomes an HTTPError."""


def _key(variable: str) -> str:
    """The key, without a trailing newline, which it may have if it was read from a file."""
    return os.environ[variable].strip()


def _wait_s(headers: Headers, tried: int) -> float:
    """Seconds until the next attempt: as requested by the endpoint, else doubled each time."""
    asked = headers.get("Retry-After", "")
    wait = float(asked) if asked.replace(".", "", 1).isdigit() else 2.0**tried
    return min(wait, LONGEST_WAIT_S)
