"""The first and the last part of what a program prints, however much that is."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ...analysis.store import write_atomically
from .environment import redacted

_HEAD, _TAIL = 16_384, 131_072
"""Bytes kept of the beginning and of the end of a stream."""


class Capture:
    """Keeps a bounded part of one stream and writes it, secrets taken out, to ``path``."""

    def __init__(self, path: Path, hidden: Sequence[str]) -> None:
        self.path, self.hidden = path, hidden
        self.total = self._written = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0

    def feed(self, piece: bytes) -> None:
        """Take in what was read."""
        self.total += len(piece)
        if len(self._head) < _HEAD:
            taken = piece[: _HEAD - len(self._head)]
            self._head += taken
            piece = piece[len(taken) :]
        if piece:
            self._tail.append(piece)
            self._held += len(piece)
        while self._tail and self._held - len(self._tail[0]) >= _TAIL:
            self._held -= len(self._tail.popleft())

    @property
    def text(self) -> str:
        """What was kept, with a line that says how much was left out between."""
        tail = b"".join(self._tail)[-_TAIL:]
        missing = self.total - len(self._head) - len(tail)
        gap = f"\n[... {missing} bytes left out ...]\n".encode() if missing else b""
        # A secret cut in two by the gap would not be recognised: the pieces beside it go as well.
        if missing and self.hidden:
            longest = max(len(s.encode()) for s in self.hidden)
            return redacted(
                (bytes(self._head)[:-longest] + gap + tail[longest:]).decode("utf-8", "replace"), self.hidden
            )
        return redacted((bytes(self._head) + gap + tail).decode("utf-8", "replace"), self.hidden)

    def save(self) -> None:
        """Write what was kept, if anything came since the last time."""
        if self.total != self._written or not self.path.exists():
            write_atomically(self.path, self.text)
            self._written = self.total
