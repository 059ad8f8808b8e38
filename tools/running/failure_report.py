"""Why a step of a run failed, and what was said of it: from the logs of its program and of its profiler."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...analysis.base.text import visible
from ..base.profile_files import head
from .known_failures import PROGRAM, explain_failure, messages
from .run_state import LOGS, UNFINISHED, ProblemText, ProfileRun, RunState

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


_HEAD = 20_000
_ECHO = re.compile(r"==(?:PROF|WARNING)==|The application returned an error|An error occurred while trying to profile")
"""What ncu says of a program that failed for itself."""
_GUESSED = ("BadInput", "MissingTool")
"""Kinds of problems that say no more than that something ended badly."""


def explain_run_failure(run: ProfileRun, state: RunState, folder: Path, problem: ProblemText) -> ProblemText:
    """``problem`` of the step at fault in our words, where what the profiler or the program printed is known to us."""
    from .drivers import registry

    if not (run.profiler and state.fault and problem.kind in _GUESSED):
        return problem
    # A failure after the last step concerns all of them.
    steps = state.steps or run.steps
    at_fault = [step for step in steps if step == state.fault] or steps
    streams = [text for stream in ("err", "out") for step in at_fault if (text := _log(folder, step, stream))]
    own_logs = [text for step in at_fault if (text := _own_log(run, step, folder))]
    status = state.status or 0
    problem_known = registry.profiler(run.profiler).explain(status, "\n".join([*streams, *own_logs]))
    if problem_known is None:
        program_output = "\n".join(line for text in streams for line in own_lines(text, messages(run.profiler)))
        problem_known = explain_failure(PROGRAM, status, program_output, {"interpreter": _interpreter(run)})
    return ProblemText.of(problem_known) if problem_known else problem


def last_lines(run: ProfileRun, state: RunState, folder: Path) -> str:
    """The last lines of what the program at fault printed. What our own calls print is for the log alone."""
    if state.fault not in (state.steps or run.steps):
        return ""
    banner = messages(run.profiler)
    err, out = (_log(folder, state.fault, stream) for stream in ("err", "out"))
    all_lines = [line for text in (err, out, _own_log(run, state.fault, folder)) for line in text.splitlines()]
    profiler_messages = [line for line in all_lines if banner and banner.match(line)]
    own = own_lines(err, banner), own_lines(out, banner)
    # Where the program tells why it failed, its profiler's account of that says nothing.
    return last_words(*own, [line for line in profiler_messages if not any(own) or not _ECHO.search(line)])


def _interpreter(run: ProfileRun) -> str:
    """What the first word of the command is, where that can be told now."""
    first = shlex.split(run.command)[0] if run.command else ""
    if "/" in first or "PATH" in run.variables:
        return first
    path = shutil.which(first, path=os.environ.get("PATH"))
    return f"{path}, the {first} on the server's PATH" if path else first


def _log(folder: Path, step: str, stream: str) -> str:
    """What a step printed, as far as it was kept."""
    path = folder / LOGS / f"{step}.{stream}"
    # Bytes, because reading it as a text would make lines of what a carriage return overwrites.
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


def _own_log(run: ProfileRun, step: str, folder: Path) -> str:
    """The head of the file into which the profiler itself writes what it has to say, if it keeps one."""
    from .drivers import registry

    name = registry.profiler(run.profiler).LOG if run.profiler else None
    if name is None:
        return ""
    # Where it writes a page itself, its messages stand before the table.
    places = [place / step for place in (folder / UNFINISHED, folder / run.out)]
    files = [file for place in places for file in (place / name, *sorted(place.glob("*.csv"))) if file.is_file()]
    return head(files[0], _HEAD).decode("utf-8", "replace") if files else ""
