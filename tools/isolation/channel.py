"""Messages between a process and its child: one JSON object per line over a socket, with size limit and deadline."""

from __future__ import annotations

import json
import select
import socket
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

MESSAGE_BYTES = 32_000_000
"""Maximum length of a received message."""
_PIECE = 1 << 18


class ChannelClosed(Exception):
    """The other side is gone, or sent a message that is too long."""


class Channel:
    """One end of a connected socket (``end``), for blocking use in one thread."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._lines: deque[bytearray] = deque()
        self._begun = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message; if the other side is gone, the next ``receive`` reports it."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.end.sendall(encode_message(message))

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """Return the next message.

        Raises TimeoutError at ``deadline`` (time.monotonic), ChannelClosed if nothing more arrives, and RecursionError
        for a message that is nested too deeply.
        """
        poll = select.poll()
        poll.register(self.end, select.POLLIN)
        while not self._lines:
            if deadline is not None:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not poll.poll(1000 * left_s):
                    raise TimeoutError
            try:
                piece = self.end.recv(_PIECE)
            except ConnectionResetError:
                piece = b""
            if not piece or len(self._begun) > MESSAGE_BYTES:
                raise ChannelClosed
            self._begun += piece
            if b"\n" in piece:
                *lines, self._begun = self._begun.split(b"\n")
                self._lines.extend(line for line in lines if line)
        return json.loads(self._lines.popleft())  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the channel."""
        self.end.close()


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Encode a message for sending; in ASCII, so that lone surrogates survive."""
    return json.dumps(message).encode() + b"\n"
