"""Every error that a caller can act on, as one small tree.

Problem
├── NotFound         a workload, kernel, metric, run or file that does not exist (near names are suggested)
├── BadArgument      an argument that cannot be understood or lies outside its range
├── BadInput         a profile or file whose content cannot be used
├── NotAllowed       something the server's mode or the sandbox forbids
├── LimitExceeded    a time, memory, size or row limit
├── MissingTool      a program or permission this machine lacks
└── StoreProblem     the store cannot be read or written
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class Problem(Exception):
    """A mistake or a lack that the caller can mend: what happened, why, and what to do."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(self.text)

    @property
    def text(self) -> str:
        """The message shown to people and models, one sentence a part."""
        return " ".join(_sentence(part) for part in (self.what, self.why, self.fix) if part)


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


def near(name: str, known: Iterable[str], n: int = 5) -> str:
    """A sentence that suggests known names close to ``name``, or an empty string.

    Substring matches come first, then names by edit similarity; case is ignored.
    """
    folded = {k.casefold(): k for k in known}
    low = name.casefold()
    inside = [k for f, k in sorted(folded.items()) if low and low in f]
    close = [folded[f] for f in get_close_matches(low, list(folded), n=n, cutoff=0.5)]
    hits = list(dict.fromkeys([*close, *inside]))[:n]
    return f"Near names: {', '.join(hits)}" if hits else ""


def _sentence(part: str) -> str:
    part = part.strip()
    return part if part.endswith((".", "!", "?", ":")) else part + "."
