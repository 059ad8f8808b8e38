"""The outcome of a subcommand, as text for people and as JSON for programs, and the only place that prints.

A command returns an Outcome and prints nothing. With --json, exactly one JSON object is written to the standard
output, whatever the exit status: the facts, or {"error": {"code", "what", "why", "fix"}}. Without it, the text is
written to the standard output, and an error to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from ...analysis.base.problems import Problem
from ...analysis.base.text import inert
from . import progress_bar

OK, REFUSED, USAGE, REGRESSED, INCONCLUSIVE, INTERRUPTED = 0, 1, 2, 3, 4, 130

MEANINGS = {
    OK: "done; of gate: no kernel is slower than allowed",
    REFUSED: "refused, with what happened, why and what to do",
    USAGE: "the command line was not understood",
    REGRESSED: "gate: a limit is exceeded",
    INCONCLUSIVE: "gate: not decided, because of noise or because the two cannot be compared",
    INTERRUPTED: "interrupted by Ctrl-C",
}


@dataclass(frozen=True)
class Outcome:
    """``facts`` are plain data (see ``rendering.document.clean``); ``words`` are lines of text with the same facts.

    ``words`` may be a generator that does the work while it yields lines, and that fills ``facts``; it is always
    consumed before the facts are used. ``complaint`` is an additional message on stderr.
    """

    facts: Mapping[str, Any]
    words: Iterable[str]
    status: int = OK
    complaint: str = ""
    verbatim: bool = False
    """Whether the text is trusted and meant for a program, such as a shell script, and is printed unchanged."""


class Misuse(Problem):
    """An invalid command line: ``what`` is wrong, and how to ``fix`` it."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what, "", fix)

    @property
    def code(self) -> str:
        """The code for programs."""
        return "usage"

    @property
    def text(self) -> str:
        """The message for people, which begins with the usage."""
        return "\n".join(filter(None, (self.fix, self.what)))


def tell(outcome: Outcome, as_json: bool) -> int:
    """Print an outcome and return its exit status."""
    if as_json:
        from ...tools.rendering.document import clean

        for _ in outcome.words:
            pass
        print_json(clean(dict(outcome.facts)))
        return outcome.status
    for line in outcome.words:
        print_line(line, verbatim=outcome.verbatim)
    if outcome.complaint:
        complain(outcome.complaint)
    return outcome.status


def refuse(problem: Problem, as_json: bool) -> int:
    """Print a problem and return the exit status."""
    if as_json:
        print_json({"error": error_facts(problem)})
    else:
        complain(problem.text)
    return USAGE if isinstance(problem, Misuse) else REFUSED


def error_facts(problem: Problem) -> dict[str, str]:
    """A problem as plain data: code, what, why, fix."""
    return {name: inert(getattr(problem, name)) for name in ("code", "what", "why", "fix")}


def print_line(line: str, *, verbatim: bool = False) -> None:
    """Print text for people, in place of the progress that is shown."""
    progress_bar.clear()
    _print(line if verbatim else inert(line), sys.stdout)


def print_json(facts: Any) -> None:
    """Print one JSON object."""
    _print(json.dumps(facts, ensure_ascii=False, allow_nan=False), sys.stdout)


def complain(text: str) -> None:
    """Print a message for people to stderr."""
    _print(inert(text), sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    """Print text. If the reader has closed the stream, only printing ends: all further output is discarded."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
