"""What a program that failed said itself: the end of both of its streams, without its profiler's messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...analysis.base.text import visible

LINES = 15
"""Lines of an answer that are given to it."""
_LINE = 300
_FEW = 5
"""Lines of the lesser stream where both say something."""
_TRACEBACK = "Traceback (most recent call last):"
_REPEATED = re.compile(r"\r(?!\n)")


def own_lines(text: str, banner: re.Pattern[str] | None) -> list[str]:
    """The lines of a stream that are the program's, as a terminal would have left them."""
    lines = (_REPEATED.split(line.rstrip("\r"))[-1].rstrip() for line in text.split("\n"))
    return [line for line in lines if line.strip() and not (banner and banner.match(line))]


def last_words(err: Sequence[str], out: Sequence[str], messages: Sequence[str]) -> str:
    """The end of both streams, errors first, then ``messages`` of the profiler; at most ``LINES`` lines.

    Of a Python traceback the beginning and the end are kept: what was called, and what went wrong.
    """
    parts = [list(messages[-_FEW:])] if messages else []
    room = LINES - sum(map(len, parts))
    streams = [lines for lines in (_end(err), list(out)) if lines]
    if len(streams) == 2:
        less = streams[1][-_FEW:]
        parts = [_keep_end(streams[0], room - len(less) - 1), ["output:", *less], *parts]
    elif streams:
        parts = [_keep_end(streams[0], room), *parts]
    return "\n".join(_shorten_line(line) for part in parts for line in part)


def _end(lines: Sequence[str]) -> list[str]:
    """The lines from the last traceback on, or all where there is none."""
    begins = [i for i, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    # Of an exception that another one caused, the first tells more; both are kept while they fit.
    for begin in begins:
        if len(lines) - begin <= LINES:
            return list(lines[begin:])
    return list(lines[begins[-1] :] if begins else lines)


def _keep_end(lines: list[str], room: int) -> list[str]:
    if len(lines) <= room:
        return lines
    if lines[0].endswith(_TRACEBACK):
        return [lines[0], "  ...", *lines[2 - room :]]
    return lines[-room:]


def _shorten_line(line: str) -> str:
    line = visible(line[: 4 * _LINE])
    return line if len(line) <= _LINE else f"{line[: _LINE - 3]}..."
