"""Progress for people: one line at the bottom of the terminal, removed when the work is done (tqdm); or log lines.

Where stderr is no terminal, a script's log gets a plain line every few seconds of work that takes longer than that.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...analysis.base.text import visible
from ...tools.base.progress import Activity, listening

if TYPE_CHECKING:
    from tqdm import tqdm

_QUIET_S = 0.5
"""Shorter work shows no progress bar."""
_LOG_QUIET_S, _LOG_EVERY_S = 2.0, 5.0
"""Shorter work writes no line to a log; between two lines pass at least this many seconds."""
_WITH_BAR, _WITHOUT_BAR = "{percentage:3.0f} % |{bar:20}| {elapsed} {desc}", "{elapsed} {desc}"
_USUAL, _ROWS = 80, 20
_BESIDE = 42
"""Columns used by the bar and the time; the description gets the rest."""


@contextmanager
def show_progress() -> Iterator[None]:
    """Show what ``tools.base.progress.report`` reports: a line on a terminal, or lines in a log."""
    global _shown
    line = _shown = _ProgressLine() if sys.stderr.isatty() else None
    try:
        with listening(line.tell if line else _ProgressLog().tell):
            yield
    finally:
        _shown = None
        if line:
            line.clear(for_good=True)


def clear() -> None:
    """Remove the line from the terminal before other text is printed there; the next report shows it again."""
    if _shown:
        _shown.clear()


class _ProgressLog:
    """Lines in a log, each with the elapsed time."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._next_s = self._start_s + _LOG_QUIET_S

    def tell(self, activity: Activity) -> None:
        """Write the current activity, unless a line was written a moment ago."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _LOG_EVERY_S
            done = "" if activity.share is None else f"{100 * _done(activity):3.0f} % "
            print(f"{now_s - self._start_s:.0f} s {done}{visible(activity)}", file=sys.stderr, flush=True)


class _ProgressLine:
    """The line, whose bar is created at the first report."""

    _bar: tqdm[None] | None = None

    def tell(self, activity: Activity) -> None:
        """Show the current activity, and the completed fraction if it is known."""
        self._bar = bar = self._bar or _bar()
        bar.ncols = _columns() - 1
        bar.bar_format = _WITHOUT_BAR if activity.share is None or bar.ncols < _BESIDE else _WITH_BAR
        bar.n = _done(activity)
        bar.set_description_str(visible(activity), refresh=False)
        if bar.format_dict["elapsed"] >= _QUIET_S:
            bar.refresh()

    def clear(self, *, for_good: bool = False) -> None:
        """Remove it until the next report, or for good."""
        if self._bar is not None:
            self._bar.close() if for_good else self._bar.clear()


_shown: _ProgressLine | None = None
"""The line that is on the terminal now."""


def _done(activity: Activity) -> float:
    return min(max(activity.share or 0.0, 0.0), 1.0)


def _columns() -> int:
    """The width of the terminal, or a usual one if it is unknown."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL
    except OSError:
        return _USUAL


def _bar() -> tqdm[None]:
    import threading

    from tqdm import tqdm

    # Disable tqdm's monitoring thread, and use a lock that needs no system semaphore.
    tqdm.monitor_interval = 0
    tqdm.set_lock(threading.RLock())
    # The number of rows is given because tqdm hides every bar on a terminal that states to have none.
    return tqdm(
        total=1.0, leave=False, file=sys.stderr, delay=_QUIET_S, ascii=" #", nrows=_ROWS, bar_format=_WITHOUT_BAR
    )
