"""The hierarchy of all errors that a caller can act on.

Problem
├── NotFound         a workload, kernel, metric, run or file that does not exist (similar names are suggested)
├── BadArgument      an argument that is invalid or outside its range
├── BadInput         a profile or file whose content cannot be used
├── NotAllowed       something the server's mode or the sandbox forbids
├── LimitExceeded    a time, memory, size or row limit
├── MissingTool      a program or permission this machine lacks
└── StoreProblem     the store cannot be read or written
    └── Unreachable  a shared store as a whole: its server, its permissions
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import accumulate, islice

from .text import shorten

_NEAR_LENGTH, _NEAR_NAMES = 200, 2000
"""The characters of a name, and the number of names, that are searched for similar names."""
_NEAR_WORK = 3_000_000
"""The number of character pairs to compare, which allows many short names but fewer long ones."""

_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_WORD = re.compile(r"[a-z]+(?= [\w'\"(#])")
_WORDLIKE = {
    "clang", "cpu", "cuda", "duckdb", "git", "hip", "hipcc", "hiprtc", "libcuda", "libcupti", "localhost",
    "ncu", "nsys", "nvcc", "perf", "python", "rocprof", "rooflens", "torch", "uvx",
}  # fmt: skip
"""Names that look like words; they keep their case at the beginning of a sentence."""
_LAST_COMMAND = re.compile(r"\n  .*\Z")
_LONGEST = 2000
_PART = 600
"""The maximum length of a message, and of each part of a longer one, so that the fix is never cut off."""


class Problem(Exception):
    """An error that the caller can act on: what happened, why, and what to do."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(self.text)

    @property
    def code(self) -> str:
        """The type of problem for programs: the class name in snake case, such as not_found."""
        return _INNER_CAPITAL.sub("_", type(self).__name__).lower()

    @property
    def text(self) -> str:
        """The message for people and models, one sentence per part."""
        parts = [part for part in (self.what, self.why, self.fix) if part]
        if sum(map(len, parts)) > _LONGEST:
            parts = [shorten(part, _PART) for part in parts]
        return join_sentences(*parts[:1], *map(_capitalize, parts[1:]))


class NotFound(Problem):
    """Something named by the caller does not exist."""


class BadArgument(Problem):
    """An argument is invalid or outside its range."""


class BadInput(Problem):
    """A profile or file has content that cannot be used."""


class NotAllowed(Problem):
    """The server's mode or the sandbox forbids this."""


class LimitExceeded(Problem):
    """A time, memory, size or row limit was reached."""


class MissingTool(Problem):
    """A program or permission is missing on this machine."""


class StoreProblem(Problem):
    """The store cannot be read or written."""


class Unreachable(StoreProblem):
    """A shared store cannot be reached or denies access; no single workload is at fault."""


_SHOWN = 400
"""How many characters of a similar name are shown."""


def near(name: str, known: Iterable[str], n: int = 5) -> str:
    """A sentence that suggests known names close to ``name``, or an empty string.

    Names by edit similarity come first, then substring matches; case is ignored. To save time, only the beginning of
    long names and the first of many names are compared.
    """
    folded = {k[:_NEAR_LENGTH].casefold(): k for k in islice(known, _NEAR_NAMES)}
    low = name[:_NEAR_LENGTH].casefold()
    inside = [k for f, k in sorted(folded.items()) if low and low in f]
    work = accumulate(len(low) * len(f) for f in folded)
    compared = [f for f, so_far in zip(folded, work, strict=True) if so_far <= _NEAR_WORK]
    close = [folded[f] for f in get_close_matches(low, compared, n=n, cutoff=0.5)]
    hits = list(dict.fromkeys([*close, *inside]))[:n]
    return f"Near names: {', '.join(shorten(hit, _SHOWN) for hit in hits)}" if hits else ""


def command_advice(words: str, command: str) -> str:
    """``words`` with a command below them that keeps its case and stands on a line of its own, ready to be copied."""
    return f"{words}:\n  {command}"


def _capitalize(part: str) -> str:
    """``part`` as the beginning of a sentence: words are capitalised; names, paths and code stay unchanged."""
    part = part.strip()
    word = _WORD.match(part)
    return part if word is None or word[0] in _WORDLIKE else part[0].upper() + part[1:]


def join_sentences(*parts: str) -> str:
    """``parts`` as sentences one after the other; what follows a command begins on a new line."""
    text = ""
    for part in filter(None, map(str.strip, parts)):
        whole = _LAST_COMMAND.search(part) or part.endswith((".", "!", "?", ":"))
        text += ("\n" if _LAST_COMMAND.search(text) else " " if text else "") + part + ("" if whole else ".")
    return text
