"""How far a running step is, read from what its profiler prints or writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...analysis.base.text import count_text, reads_like_a_sentence, shorten, visible

_TAIL = 8192
"""Number of bytes examined at the end of a stream."""
_FILE_TAIL = 1 << 20
"""The same for a file, which may list every measured launch."""
_EVERY_S = 0.5
_KERNEL = 60


@dataclass(frozen=True)
class ProfilerProgress:
    """Progress of a profiler within one run of the program; fields are None if it does not report them."""

    kernel: str
    """The kernel being measured, or measured last; text from an untrusted source."""
    launch: int | None = None
    """Its number among the measured launches, from 1."""
    launches: int | None = None
    """Total number of launches to measure."""
    passes: int | None = None
    """How many passes the launch was replayed for, known once it is done."""
    share: float | None = None
    """Finished share of the current launch, 0 to 1."""
    doing: str = ""
    """A description of the activity, for profilers that do not report launches."""

    @property
    def finished_share(self) -> float:
        """Finished share of all launches; 0 if their number is not known."""
        return (self.launch - 1 + (self.share or 0.0)) / self.launches if self.launch and self.launches else 0.0

    @property
    def words(self) -> str:
        """Describe the progress, for example: launch 37 of 120 (gemm_kernel), 20 passes."""
        if self.doing:
            return self.doing
        name = shorten(visible(self.kernel).strip(), _KERNEL)
        # This text appears as rooflens' own, so a kernel name that reads like a sentence is omitted.
        kernel_text = f" ({name})" if name and not reads_like_a_sentence(name) else ""
        of = f" of {self.launches}" if self.launches else ""
        launch = f"launch {self.launch}{of}" if self.launch else "a launch"
        passes = f", {count_text(self.passes, 'pass')}" if self.passes else ""
        part = f", {100 * self.share:.0f} %" if self.share and not passes else ""
        return f"{launch}{kernel_text}{passes}{part}"


Read = Callable[[str], ProfilerProgress | None]
"""A pure function that reads the end of a profiler's output; None if it shows no progress."""


class Follower:
    """Follows both streams of a program and optionally one of its files, and passes each change to ``tell``."""

    def __init__(self, read: Read, tell: Callable[[ProfilerProgress], None], file: Path | None = None) -> None:
        self._read, self._tell, self._file = read, tell, file
        self._tails: dict[int, bytes] = {}
        self._changed: set[int] = set()
        self._size = 0
        self._last: ProfilerProgress | None = None
        self._next_s = 0.0

    def hear(self, stream: int, piece: bytes) -> None:
        """Add bytes from a stream."""
        self._tails[stream] = (self._tails.get(stream, b"") + piece[-_TAIL:])[-_TAIL:]
        self._changed.add(stream)

    def read_news(self) -> None:
        """Parse new output, unless the last check was very recent."""
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
        """Return the end of the file if it has grown."""
        try:
            if self._file is None or (size := self._file.stat().st_size) == self._size:
                return []
            self._size = size
            with self._file.open("rb") as file:
                file.seek(max(0, size - _FILE_TAIL))
                return [file.read(_FILE_TAIL)]
        except OSError:
            return []
