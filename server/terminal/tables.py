"""The tables of an answer, aligned and no wider than the terminal: long names and the last columns give way."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from itertools import product

_RULE = re.compile(r"---(?: \| ---)*")
_CELLS = re.compile(r"(?<!\\) \| ")
_TITLED = re.compile(r"( *\w+:) (.*)")
"""The first line of a table that follows the name of its field."""
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?")
_CALLS = re.compile(r"/[^/]*\(\d+\): ")
"""In a path of calls as torch.profiler writes it: a/b.py(3): f/c.py(7): g."""
_PATHS = frozenset(("range", "path", "file", "place", "call_site"))
"""Columns of which long cells are shown by their last element."""
_LONG = 40
_PARENTS = re.compile(r".+(?=/[^/])")
_IN_A_PIPE = (100, 24)
_SHORT = 60
"""To how many characters the cells of a table that is too wide are shortened before a column is left out."""
_SHORT_NAMES = (60, 40, 30)
"""The same for the first column, in the order in which it is tried."""


def align_tables(text: str) -> str:
    """``text`` with every Markdown table in it aligned, and fitted into the width of the terminal or of $COLUMNS."""
    width = shutil.get_terminal_size(_IN_A_PIPE).columns
    lines = text.split("\n")
    starts = [at - 1 for at, line in enumerate(lines) if at and _RULE.fullmatch(line)]
    paths: dict[str, str] = {}
    for start in reversed(starts):
        if titled := _TITLED.fullmatch(lines[start]):
            lines[start : start + 1] = [titled[1], titled[2]]
            start += 1
        columns = len(_CELLS.split(lines[start]))
        end = start + 2
        while end < len(lines) and lines[end] and len(_CELLS.split(lines[end])) == columns:
            end += 1
        head, _, *rows = (_CELLS.split(line) for line in lines[start:end])
        for row in rows:
            for at, cell in enumerate(row):
                if _CALLS.search(cell) or (head[at] in _PATHS and len(cell) > _LONG):
                    row[at] = paths[cell] = _PARENTS.sub("…", cell)
        lines[start:end] = fit_table(head, rows, width)
    text = "\n".join(lines)
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, paths[path])
    return text


def fit_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table, and a last one with the names of columns that do not fit into ``width`` characters.

    Long cells are shortened first. The first column and the first one with numbers are never left out.
    """
    columns = [list(column) for column in zip(head, *rows, strict=True)]
    numeric = [_is_numeric(cells) for _, *cells in columns]
    spare = [at for at in range(1, len(columns)) if at != (numeric.index(True) if any(numeric) else 0)]
    longest = max(len(cell) for column in columns for cell in column)
    for left_out, most in product(range(len(spare) + 1), (longest, *_SHORT_NAMES)):
        dropped = spare[len(spare) - left_out :]
        kept = [at for at in range(len(columns)) if at not in dropped]
        shown = [[_shorten_middle(cell, max(most, _SHORT) if at else most) for cell in columns[at]] for at in kept]
        widths = [max(map(len, column)) for column in shown]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
    right = [numeric[at] for at in kept]
    lines = [
        "  ".join(cell.rjust(n) if ends else cell.ljust(n) for cell, n, ends in zip(row, widths, right, strict=True))
        for row in zip(*shown, strict=True)
    ]
    names = ", ".join(head[at] for at in dropped)
    hint = [f"({names}: too wide to show here; --json and --csv have them)"] if names else []
    return [lines[0].rstrip(), "  ".join("-" * n for n in widths), *(line.rstrip() for line in lines[1:]), *hint]


def _shorten_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


def _is_numeric(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(map(_NUMBER.fullmatch, filled))
