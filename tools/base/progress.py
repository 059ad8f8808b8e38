"""Progress reporting: a tool reports its progress to a listener, such as an MCP client or a terminal, if any."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ...analysis.base.text import inert, shorten


class Activity(str):
    """Description of the current activity; ``share`` is the completed fraction from 0 to 1, or None if unknown."""

    __slots__ = ("share",)
    share: float | None

    def __new__(cls, words: str, share: float | None = None) -> Activity:
        made = super().__new__(cls, words)
        made.share = share
        return made


Listener = Callable[[Activity], None]
_INTERVAL_S = 0.5
_LONGEST = 200
_listener: ContextVar[Listener | None] = ContextVar("progress", default=None)
_last_s: ContextVar[float] = ContextVar("progress_last", default=0.0)


def report(activity: str, share: float | None = None) -> None:
    """Report the current activity ("read 40,000 rows of a.csv") and the completed fraction.

    Calls in quick succession are dropped.
    """
    listener, now = _listener.get(), time.monotonic()
    if listener and now - _last_s.get() >= _INTERVAL_S:
        _last_s.set(now)
        listener(Activity(shorten(inert(activity), _LONGEST), share))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send what is reported within the block to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
