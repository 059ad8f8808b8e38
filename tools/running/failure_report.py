"""Explain why a step of a run failed, from the logs of its program and its profiler."""

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
from .run_state import CHECK, LOGS, UNFINISHED, ProblemText, ProfileRun, RunState

LINES = 15
"""Maximum number of log lines in an answer."""
_LINE = 300
_FEW = 5
"""Maximum lines of the less important stream if both contain text."""
_TRACEBACK = "Traceback (most recent call last):"
_REPEATED = re.compile(r"\r(?!\n)")


def own_lines(text: str, banner: re.Pattern[str] | None) -> list[str]:
    """Return the lines of a stream that the program wrote, with carriage returns applied as a terminal would."""
    lines = (_REPEATED.split(line.rstrip("\r"))[-1].rstrip() for line in text.split("\n"))
    return [line for line in lines if line.strip() and not (banner and banner.match(line))]


def last_words(err: Sequence[str], out: Sequence[str], messages: Sequence[str]) -> str:
    """Return the end of both streams, errors first, then ``messages`` of the profiler; at most ``LINES`` lines.

    Of a Python traceback, the beginning and the end are kept: what was called, and what went wrong.
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
    """Return the lines from the last traceback on, or all lines if there is none."""
    begins = [i for i, line in enumerate(lines) if line.endswith(_TRACEBACK)] or [0]
    # In a chain of exceptions the first is the most informative; the whole chain is kept if it fits.
    first = next((begin for begin in begins if len(lines) - begin <= LINES), begins[-1])
    return list(lines[first:])


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
"""What ncu prints about a program that failed by itself."""
_GUESSED = ("BadInput", "MissingTool")
"""Kinds of problems that state only that something failed, without a known cause."""


def explain_run_failure(run: ProfileRun, state: RunState, folder: Path, problem: ProblemText) -> ProblemText:
    """Return a known explanation of the failure, based on what the profiler or program printed, or else ``problem``."""
    if not (run.profiler and state.fault and problem.kind in _GUESSED):
        return problem
    # A failure after the last step concerns all steps.
    steps = state.steps or run.steps
    at_fault = [step for step in steps if step == state.fault] or steps
    streams = [text for stream in ("err", "out") for step in at_fault if (text := _log(folder, step, stream))]
    own_logs = [text for step in at_fault if (text := _own_log(run, step, folder))]
    status = state.status or 0
    problem_known = explain_failure(run.profiler, status, "\n".join([*streams, *own_logs]))
    if problem_known is None:
        program_output = "\n".join(line for text in streams for line in own_lines(text, messages(run.profiler)))
        problem_known = explain_failure(PROGRAM, status, program_output, {"interpreter": _interpreter(run)})
    return ProblemText.of(problem_known) if problem_known else problem


def last_lines(run: ProfileRun, state: RunState, folder: Path) -> str:
    """Return the last lines that the failed program printed. Output of rooflens' own calls is only logged."""
    if state.fault != CHECK and state.fault not in (state.steps or run.steps):
        return ""
    banner = messages(run.profiler)
    err, out = (_log(folder, state.fault, stream) for stream in ("err", "out"))
    all_lines = [line for text in (err, out, _own_log(run, state.fault, folder)) for line in text.splitlines()]
    profiler_messages = [line for line in all_lines if banner and banner.match(line)]
    own = own_lines(err, banner), own_lines(out, banner)
    # If the program says why it failed, the profiler's report of that failure adds nothing.
    return last_words(*own, [line for line in profiler_messages if not any(own) or not _ECHO.search(line)])


def _interpreter(run: ProfileRun) -> str:
    """Return the path that the first word of the command resolves to, if it can be determined now."""
    first = shlex.split(run.command)[0] if run.command else ""
    if "/" in first or "PATH" in run.variables:
        return first
    path = shutil.which(first, path=os.environ.get("PATH"))
    return f"{path}, the {first} on the server's PATH" if path else first


def _log(folder: Path, step: str, stream: str) -> str:
    """Return the stored output of a step."""
    path = folder / LOGS / f"{step}.{stream}"
    # Read as bytes: text mode would turn carriage returns, which overwrite a line, into line ends.
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


def _own_log(run: ProfileRun, step: str, folder: Path) -> str:
    """Return the beginning of the profiler's own log file, if it writes one."""
    from .drivers import registry

    name = registry.profiler(run.profiler).LOG if run.profiler else None
    if name is None:
        return ""
    # If the profiler writes its results into the same file, its messages come before the table.
    places = [place / step for place in (folder / UNFINISHED, folder / run.out)]
    files = [file for place in places for file in (place / name, *sorted(place.glob("*.csv"))) if file.is_file()]
    return head(files[0], _HEAD).decode("utf-8", "replace") if files else ""
