"""A progress bar for people: one line at the bottom of the terminal, removed when the work is done (tqdm).

It is shown only if stderr is a terminal, so it never appears in the log of a script or in an MCP client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...analysis.base.text import visible
from ...tools.base.progress import Activity, listening

if TYPE_CHECKING:
    from tqdm import tqdm

_QUIET_S = 0.5
"""Shorter work shows no progress bar."""
_WITH_BAR, _WITHOUT_BAR = "{percentage:3.0f} % |{bar:20}| {elapsed} {desc}", "{elapsed} {desc}"
_USUAL = 80
_BESIDE = 42
"""Columns used by the bar and the time; the description gets the rest."""


@contextmanager
def show_progress() -> Iterator[None]:
    """Show what ``tools.base.progress.report`` reports on the terminal, if stderr is one."""
    if not sys.stderr.isatty():
        yield
        return
    line = _ProgressLine()
    try:
        with listening(line.tell):
            yield
    finally:
        line.close()


class _ProgressLine:
    """The line, which is created at the first report."""

    def __init__(self) -> None:
        self._bar: tqdm[None] | None = None

    def tell(self, activity: str) -> None:
        """Show the current activity, and the completed fraction if it is known."""
        if self._bar is None:
            self._bar = _bar()
        share = activity.share if isinstance(activity, Activity) else None
        width = (_columns() or _USUAL) - 1
        self._bar.bar_format = _WITHOUT_BAR if share is None or width < _BESIDE else _WITH_BAR
        self._bar.ncols = width
        self._bar.n = 0.0 if share is None else min(max(share, 0.0), 1.0)
        self._bar.set_description_str(visible(activity), refresh=False)
        if self._bar.format_dict["elapsed"] >= _QUIET_S:
            self._bar.refresh()

    def close(self) -> None:
        """Clear it."""
        if self._bar is not None:
            self._bar.close()


def _columns() -> int:
    """The width of the terminal in columns; 0 if it is unknown."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 0


def _bar() -> tqdm[None]:
    import threading

    from tqdm import tqdm

    # Disable tqdm's monitoring thread, and use a lock that needs no system semaphore.
    tqdm.monitor_interval = 0
    tqdm.set_lock(threading.RLock())
    return tqdm(total=1.0, bar_format=_WITHOUT_BAR, leave=False, file=sys.stderr, delay=_QUIET_S, ascii=" #")
