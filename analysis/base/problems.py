"""Every error that a caller can act on, as one small tree.

Problem
├── NotFound         a workload, kernel, metric, run or file that does not exist (near names are suggested)
├── BadArgument      an argument that cannot be understood or lies outside its range
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
"""Characters of a name, and names, that are looked at for near names."""
_NEAR_WORK = 3_000_000
"""Pairs of characters that are compared: as many short names, but fewer long ones."""

_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_WORD = re.compile(r"[a-z]+(?= [\w'\"(#])")
_WORDLIKE = {
    "chmod", "clang", "cpu", "cuda", "duckdb", "git", "hip", "hipcc", "hiprtc", "libcuda", "libcupti", "localhost",
    "ncu", "nsys", "nvcc", "perf", "pip", "python", "rocprof", "rooflens", "torch", "uvx",
}  # fmt: skip
"""Names that look like words: they keep their case where a sentence begins with them."""
_LONGEST = 2000
_PART = 600
"""Characters of a message, and of each part of a longer one: what to do must survive what happened."""


class Problem(Exception):
    """A mistake or a lack that the caller can mend: what happened, why, and what to do."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(self.text)

    @property
    def code(self) -> str:
        """What kind of problem it is, for programs: the class in lower case, such as not_found."""
        return _INNER_CAPITAL.sub("_", type(self).__name__).lower()

    @property
    def text(self) -> str:
        """The message shown to people and models, one sentence a part."""
        parts = [part for part in (self.what, self.why, self.fix) if part]
        if sum(map(len, parts)) > _LONGEST:
            parts = [shorten(part, _PART) for part in parts]
        return " ".join([*map(_sentence, parts[:1]), *(_sentence(_capitalize(part)) for part in parts[1:])])


class NotFound(Problem):
    """Something named by the caller does not exist."""


class BadArgument(Problem):
    """An argument cannot be understood or lies outside its range."""


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
    """A shared store cannot be reached or refuses; nothing is wrong with any one workload."""


_SHOWN = 400
"""Characters of a near name that are repeated."""


def near(name: str, known: Iterable[str], n: int = 5) -> str:
    """A sentence that suggests known names close to ``name``, or an empty string.

    Names by edit similarity come first, then substring matches; case is ignored. Of long names the beginning counts,
    of many the first: a slip of the pen is worth no more time.
    """
    folded = {k[:_NEAR_LENGTH].casefold(): k for k in islice(known, _NEAR_NAMES)}
    low = name[:_NEAR_LENGTH].casefold()
    inside = [k for f, k in sorted(folded.items()) if low and low in f]
    work = accumulate(len(low) * len(f) for f in folded)
    compared = [f for f, so_far in zip(folded, work, strict=True) if so_far <= _NEAR_WORK]
    close = [folded[f] for f in get_close_matches(low, compared, n=n, cutoff=0.5)]
    hits = list(dict.fromkeys([*close, *inside]))[:n]
    return f"Near names: {', '.join(shorten(hit, _SHOWN) for hit in hits)}" if hits else ""


def _capitalize(part: str) -> str:
    """``part`` as the beginning of a sentence: a word gets its capital, a name, a path or code stays as it is."""
    part = part.strip()
    word = _WORD.match(part)
    return part if word is None or word[0] in _WORDLIKE else part[0].upper() + part[1:]


def _sentence(part: str) -> str:
    part = part.strip()
    return part if part.endswith((".", "!", "?", ":")) else part + "."
