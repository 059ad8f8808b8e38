"""Why a step of a run failed, and what was said of it: from the logs of its program and of its profiler."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

from ..base.profile_files import head
from .known_failures import PROGRAM, explain_failure, messages
from .program_output import last_words, own_lines
from .run_state import LOGS, UNFINISHED, ProblemText, ProfileRun, RunState

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
