"""Known hot lines of examples/kernels, marked by comments, and how well find_hotspots finds them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rooflens.analysis.store.store import Store
from rooflens.tools.find_hotspots import find_hotspots

KERNELS = Path(__file__).resolve().parents[1] / "examples" / "kernels"
_SOURCES = ("*.cu", "*.h", "*.py")
_MARK = re.compile(r"^(?P<code>.*?)(?://|#)\s*hot: (?P<kernels>\w+(?:, \w+)*)(?: \((?P<below>\d+) lines below\))?\s*$")

Place = tuple[str, int]
"""File name and line number."""


def hot_lines(folder: Path = KERNELS) -> dict[str, list[Place]]:
    """Kernel -> its hot lines: lines that end with ``// hot: NAME`` (``#`` in Python), or that follow this comment on
    a line of its own. For repeated code, ``(8 lines below)`` marks all copies, which are equally hot."""
    found: dict[str, list[Place]] = {}
    for path in sorted(path for pattern in _SOURCES for path in folder.glob(pattern)):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if mark := _MARK.match(line):
                own = number + (not mark["code"].strip())
                lines = range(number + 1, number + 1 + int(mark["below"])) if mark["below"] else (own,)
                for kernel in mark["kernels"].split(", "):
                    found.setdefault(kernel, []).extend((path.name, line) for line in lines)
    return found


def rank(lines: Iterable[str | None], expected: Iterable[Place]) -> int | None:
    """The position, from 1, of the first of ``lines`` (``folder/file:7``) that is expected, or None."""
    places = {f"{file}:{line}" for file, line in expected}
    for number, line in enumerate(lines, 1):
        if (line or "").rpartition("/")[2] in places:
            return number
    return None


@dataclass(frozen=True)
class Score:
    """The result of find_hotspots for a kernel with known hot lines."""

    kernel: str
    expected: tuple[Place, ...]
    rank: int | None
    """Rank of the first hot line, from 1; None if the answer contains none."""
    pct: float | None
    """Share of the samples of the first line of the answer."""
    first: str | None
    samples: int
    why: str | None


def score(store: Store, workload: str, kernel: str, expected: Iterable[Place]) -> Score:
    """Compare the answer for one kernel with its marks. Raises what find_hotspots raises."""
    places = tuple(expected)
    found = find_hotspots(store, workload, rf"(^|[ :]){kernel}($|[<(])", top_n=10)
    column = found.hotspots.columns.index
    rows = found.hotspots.rows
    first = rows[0] if rows else [None] * len(found.hotspots.columns)
    why = first[column("why")] if "why" in found.hotspots.columns else None
    lines = [row[column("line")] for row in rows]
    return Score(kernel, places, rank(lines, places), first[column("pct")], first[column("line")], found.samples, why)


if __name__ == "__main__":
    for name, lines in hot_lines().items():
        sys.stdout.write(f"{name:20} {', '.join(f'{file}:{line}' for file, line in lines)}\n")
