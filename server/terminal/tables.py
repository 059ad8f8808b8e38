"""Markdown tables with aligned columns, as a terminal shows them best."""

from __future__ import annotations

import re

_RULE = re.compile(r"---(?: \| ---)*")
_CELLS = re.compile(r"(?<!\\) \| ")
_WIDEST = 60
"""Longer cells do not widen their column, because every other row would get that many spaces."""
_TITLED = re.compile(r"( *\w+:) (.*)")
"""The first line of a table that follows the name of its field."""
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?")


def align_tables(text: str) -> str:
    """``text`` with the columns of every Markdown table in it aligned, numbers to the right."""
    lines = text.split("\n")
    starts = [at - 1 for at, line in enumerate(lines) if at and _RULE.fullmatch(line)]
    for start in reversed(starts):
        if titled := _TITLED.fullmatch(lines[start]):
            lines[start : start + 1] = [titled[1], titled[2]]
            start += 1
        width = len(_CELLS.split(lines[start]))
        end = start + 2
        while end < len(lines) and lines[end] and len(_CELLS.split(lines[end])) == width:
            end += 1
        lines[start:end] = _aligned([_CELLS.split(line) for line in lines[start:end]])
    return "\n".join(lines)


def _aligned(rows: list[list[str]]) -> list[str]:
    body = [row for number, row in enumerate(rows) if number != 1]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*body, strict=True)]
    right = [_is_numeric(column[1:]) for column in zip(*body, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(n) if at_right else cell.ljust(n) for cell, n, at_right in zip(row, widths, right, strict=True)
        )
        for row in body
    ]
    return [lines[0].rstrip(), "  ".join("-" * n for n in widths), *(line.rstrip() for line in lines[1:])]


def _is_numeric(cells: tuple[str, ...]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(_NUMBER.fullmatch(cell) for cell in filled)
