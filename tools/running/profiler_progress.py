"""How far a running step is, read from what its profiler prints or writes while it works."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...analysis.base.text import reads_like_a_sentence, shorten, visible

_TAIL = 8192
"""Bytes of the end of a text that are looked at."""
_FILE_TAIL = 1 << 20
"""The same of a file, which may name every launch that was measured."""
_EVERY_S = 0.5
_KERNEL = 60


@dataclass(frozen=True)
class ProfilerProgress:
    """How far a profiler is with a run of the program; None where it does not say."""

    kernel: str
    """The kernel that it measures, or measured last; a text of others."""
    launch: int | None = None
    """Its number among the launches that are measured, from 1."""
    launches: int | None = None
    """How many will be measured."""
    passes: int | None = None
    """How often the launch was run, known when it is done."""
    share: float | None = None
    """Of the launch."""
    doing: str = ""
    """What it does, in our words, where it tells nothing of launches."""

    @property
    def finished_share(self) -> float:
        """The share of all launches that is done, 0 where it is not known how many there are."""
        return (self.launch - 1 + (self.share or 0.0)) / self.launches if self.launch and self.launches else 0.0

    @property
    def words(self) -> str:
        """In words: launch 37 of 120 (gemm_kernel), 20 passes."""
        if self.doing:
            return self.doing
        name = shorten(visible(self.kernel).strip(), _KERNEL)
        # What stands here is read as ours.
        kernel_text = f" ({name})" if name and not reads_like_a_sentence(name) else ""
        of = f" of {self.launches}" if self.launches else ""
        launch = f"launch {self.launch}{of}" if self.launch else "a launch"
        passes = f", {self.passes} {'pass' if self.passes == 1 else 'passes'}" if self.passes else ""
        part = f", {100 * self.share:.0f} %" if self.share and not passes else ""
        return f"{launch}{kernel_text}{passes}{part}"


Read = Callable[[str], ProfilerProgress | None]
"""What the end of a profiler's text says, or None; pure."""


class Follower:
    """Hears both streams of a program, looks into one file of it, and tells ``tell`` what changed."""

    def __init__(self, read: Read, tell: Callable[[ProfilerProgress], None], file: Path | None = None) -> None:
        self._read, self._tell, self._file = read, tell, file
        self._tails: dict[int, bytes] = {}
        self._changed: set[int] = set()
        self._size = 0
        self._last: ProfilerProgress | None = None
        self._next_s = 0.0

    def hear(self, stream: int, piece: bytes) -> None:
        """Take in what a stream brought."""
        self._tails[stream] = (self._tails.get(stream, b"") + piece[-_TAIL:])[-_TAIL:]
        self._changed.add(stream)

    def read_news(self) -> None:
        """Read what is new, if the last look was long enough ago."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _EVERY_S
        texts = [self._tails[stream] for stream in sorted(self._changed)]
        self._changed.clear()
        texts += self._news()
        for text in texts:
            progress = self._read(text.decode("utf-8", "replace"))
            if progress and progress != self._last:
                self._last = progress
                self._tell(progress)

    def _news(self) -> list[bytes]:
        """The end of the file, where it has grown."""
        try:
            if self._file is None or (size := self._file.stat().st_size) == self._size:
                return []
            self._size = size
            with self._file.open("rb") as file:
                file.seek(max(0, size - _FILE_TAIL))
                return [file.read(_FILE_TAIL)]
        except OSError:
            return []
