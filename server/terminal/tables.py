"""The tables of an answer, aligned and no wider than the terminal: long names and the last columns give way."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

_NUMBER = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?")
_CALLS = re.compile(r"/[^/]*\(\d+\): ")
"""In a path of calls as torch.profiler writes it: a/b.py(3): f/c.py(7): g."""
_PATHS = frozenset(("range", "path", "file", "place", "call_site"))
"""Columns of which long cells are shown by their last element."""
_LONG = 60
"""The number of characters of a cell from which it is shortened before any column is left out."""
_LONG_PATH = 40
"""The same for a path, which is shown by its last element."""
_PARENTS = re.compile(r".+(?=/[^/])")
_IN_A_PIPE = (100, 24)


class TerminalTables:
    """Lays out the tables of one answer for a terminal, or 100 columns in a pipe; $COLUMNS overrides both."""

    def __init__(self) -> None:
        self._width = shutil.get_terminal_size(_IN_A_PIPE).columns
        self._paths: dict[str, str] = {}

    def __call__(self, headings: Sequence[str], rows: Sequence[Sequence[str]], minor: Sequence[bool]) -> list[str]:
        """Return the lines of a table; paths of calls and of ranges are shown by their last element."""
        cells = [list(map(self._last_element, headings, row)) for row in rows]
        return fit_table(headings, cells, self._width, minor)

    def _last_element(self, heading: str, cell: str) -> str:
        if not (_CALLS.search(cell) or (heading in _PATHS and len(cell) > _LONG_PATH)):
            return cell
        return self._paths.setdefault(cell, _PARENTS.sub("…", cell))

    def shorten_paths(self, text: str) -> str:
        """Return text whose sentences quote the paths as the tables show them."""
        for path in sorted(self._paths, key=len, reverse=True):
            text = text.replace(path, self._paths[path])
        return text


def fit_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int, minor: Sequence[bool] = ()) -> list[str]:
    """The lines of a table, and a last one with the names of columns that do not fit into ``width`` characters.

    Very long cells are shortened first. Then ``minor`` columns are left out, other cells are shortened, and at last the
    last columns are left out; never the first column and the first one with numbers.
    """
    columns = [list(column) for column in zip(head, *rows, strict=True)]
    numeric = [_is_numeric(cells) for _, *cells in columns]
    spare = [at for at in range(1, len(columns)) if at != (numeric.index(True) if any(numeric) else 0)]
    spare.sort(key=lambda at: (at < len(minor) and minor[at], at))
    longest = max(len(cell) for column in columns for cell in column)
    minors = sum(minor[at] for at in spare if at < len(minor))  # the first columns stay, also if they are minor
    steps = [(0, longest, longest), *((left_out, _LONG, _LONG) for left_out in range(minors + 1)), (minors, 40, 40)]
    for left_out, first, most in (*steps, *((left_out, 30, 24) for left_out in range(minors, len(spare) + 1))):
        dropped = sorted(spare[len(spare) - left_out :])
        kept = [at for at in range(len(columns)) if at not in dropped]
        shown = [[_shorten_middle(cell, most if at else first) for cell in columns[at]] for at in kept]
        widths = [max(map(len, column)) for column in shown]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
    right = [numeric[at] for at in kept]
    lines = [
        "  ".join(cell.rjust(n) if ends else cell.ljust(n) for cell, n, ends in zip(row, widths, right, strict=True))
        for row in zip(*shown, strict=True)
    ]
    names = ", ".join(head[at] for at in dropped)
    hint = [f"({names}: too wide to show here; --json has them)"] if names else []
    return [lines[0].rstrip(), "  ".join("-" * n for n in widths), *(line.rstrip() for line in lines[1:]), *hint]


def _shorten_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


def _is_numeric(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(map(_NUMBER.fullmatch, filled))
