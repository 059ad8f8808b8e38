"""The lines of examples/kernels that are known to be hot, as comments mark them, and how far an answer meets them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "examples" / "kernels"
_SOURCES = ("*.cu", "*.h", "*.py")
_MARK = re.compile(r"^(?P<code>.*?)(?://|#)\s*hot: (?P<kernels>\w+(?:, \w+)*)\s*$")

Place = tuple[str, int]
"""Name of a file, and a line in it."""


def hot_lines(folder: Path = KERNELS) -> dict[str, list[Place]]:
    """Kernel -> its hot lines: those that end in ``// hot: NAME`` (``#`` in Python), or follow such a comment that
    stands alone."""
    found: dict[str, list[Place]] = {}
    for path in sorted(path for pattern in _SOURCES for path in folder.glob(pattern)):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if mark := _MARK.match(line):
                for kernel in mark["kernels"].split(", "):
                    found.setdefault(kernel, []).append((path.name, number + (not mark["code"].strip())))
    return found


def rank(rows: Iterable[Mapping[str, object]], expected: Iterable[Place]) -> int | None:
    """The place, from 1, of the first row whose ``file`` and ``line`` are one of the expected; None without such."""
    places = set(expected)
    for number, row in enumerate(rows, 1):
        if (Path(str(row["file"] or "")).name, row["line"]) in places:
            return number
    return None


if __name__ == "__main__":
    for name, lines in hot_lines().items():
        sys.stdout.write(f"{name:20} {', '.join(f'{file}:{line}' for file, line in lines)}\n")
