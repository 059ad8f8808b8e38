"""Bounded views of an untrusted file, and what may be spent on reading one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from ...analysis.problems import BadInput, LimitExceeded

READ_LIMIT = 64 << 20
"""Bytes that one read may ask for; a table of notes or a compressed bundle is never larger."""


@dataclass
class Budget:
    """What may still be spent on one file, so that a small file cannot keep rooflens busy or fill its memory."""

    headers: int = 300_000
    objects: int = 10_000
    kernels: int = 100_000
    note_bytes: int = 64 << 20
    unpacked_bytes: int = 2 << 30

    def spend(self, what: str, amount: int) -> None:
        """Take ``amount`` of one allowance; LimitExceeded where it is used up."""
        left = getattr(self, what)
        if amount > left:
            allowed = getattr(Budget, what)
            raise LimitExceeded(
                f"The file has too much to read ({what.replace('_', ' ')})",
                f"{allowed:,} are allowed, {allowed - left:,} were read and {amount:,} more are announced",
                "Extract the wanted code object with clang-offload-bundler --unbundle",
            )
        setattr(self, what, left - amount)


class Window:
    """A read-only view of ``size`` bytes of a file, itself a file for pyelftools; no read can ask for absurd sizes."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file, self._start, self.size, self._at = file, start, size, 0

    def read(self, count: int = -1) -> bytes:
        """As a file's; BadInput before memory is taken for more than READ_LIMIT."""
        left = max(self.size - self._at, 0)
        count = left if count < 0 else min(count, left)
        if count > READ_LIMIT:
            raise BadInput("The file cannot be used", f"one of its tables has {count:,} bytes; {READ_LIMIT:,} are read")
        self._file.seek(self._start + self._at)
        found = self._file.read(count)
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """As a file's."""
        self._at = max((0, self._at, self.size)[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        """As a file's."""
        return self._at

    def start(self, count: int) -> bytes:
        """The first bytes, fewer where there are no more."""
        self.seek(0)
        return self.read(count)

    def at(self, offset: int, count: int) -> bytes:
        """Exactly these bytes; BadInput where the file ends before them."""
        part = self.part(offset, count)
        found = part.read()
        if len(found) < count:
            raise self._cut(offset, count)
        return found

    def part(self, offset: int, size: int) -> Window:
        """A view of a part; BadInput where it does not lie inside."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self._cut(offset, size)
        return Window(self._file, self._start + offset, size)

    def _cut(self, offset: int, size: int) -> BadInput:
        return BadInput(
            "The file is cut off or damaged",
            f"{size:,} bytes are announced at offset {offset:,} of {self.size:,}",
            "Copy or build it again",
        )
