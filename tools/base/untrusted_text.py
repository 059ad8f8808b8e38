"""Text of a profile made safe to store and to show: no control, bidi or ANSI characters, bounded length."""

from __future__ import annotations

import re

from ...analysis.base.text import visible, visible_sql

KERNEL_LIMIT = 4000
_NOTE_LIMIT = 1000
_CUT_AT = KERNEL_LIMIT - 20
_SUFFIX = r"( \[clone \.kd\]| \(\.kd\)|\.kd)$"
NO_NAME = "(no name)"
"""Stands for a name that nobody told."""


def plain_text(text: str, limit: int = 200) -> str:
    """``text`` on one line: terminal sequences and invisible characters gone, cut after ``limit`` characters."""
    shown = visible(text[: 8 * limit]).strip(" ")
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def plain_log_text(text: str | None) -> str:
    """A text for the experiment log as it is kept."""
    return plain_text(text or "", _NOTE_LIMIT)


def bounded_name(expression: str) -> str:
    """SQL that cuts a kernel name of absurd length; the hash of the whole keeps such names apart."""
    cut = f"left({expression}, {_CUT_AT}) || ' #' || left(md5({expression}), 12)"
    return f"CASE WHEN length({expression}) > {KERNEL_LIMIT} THEN {cut} ELSE {expression} END"


def visible_name(expression: str) -> str:
    """SQL that does for a kernel name what plain_text does, without cutting it."""
    return f"coalesce(nullif(trim({visible_sql(expression)}), ''), '{NO_NAME}')"


def plain_kernel_name(expression: str) -> str:
    """SQL that strips what profilers append to a kernel's name: `` [clone .kd]``, `` (.kd)``, ``.kd``."""
    return f"regexp_replace({expression}, '{_SUFFIX}', '')"


_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,5})?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_DIGITS_LIMIT = 400
_UNDERSCORED = re.compile(rb"_\d[\d_.eE+-]*[ \t]*(?=[\",;\r\n]|$)")
_CELL = re.compile(rb"[ \t]*[+-]?\d[\d_.]*(?:[eE][+-]?[\d_]+)?[ \t]*")
_REACH = 64


def decimal(text: str) -> float | None:
    """The number that ``text`` is: digits, point and exponent; None for ``1_000``, ``0x10``, ``nan`` and all else."""
    text = text.strip()
    return float(text) if len(text) <= _DIGITS_LIMIT and _DECIMAL.fullmatch(text) else None


def grouped_number(text: str) -> float | None:
    """The same, also with commas between groups of three digits: ``2,230``, but not ``2,23``."""
    text = text.strip()
    return decimal(text.replace(",", "") if _GROUPED.fullmatch(text) else text)


def whole(text: str, most_digits: int = 18) -> int | None:
    """The whole number that ``text`` is; None where it is none, or has absurdly many digits."""
    text = text.strip()
    return int(text) if 0 < len(text) <= most_digits and text.isascii() and text.isdecimal() else None


def numbers_with_underscores(block: bytes) -> list[bytes]:
    """The cells of a part of a CSV file that are numbers written like ``1_000``, which DuckDB takes for 1000."""
    cells = []
    for match in _UNDERSCORED.finditer(block):
        before = block[max(0, match.start() - _REACH) : match.start()]
        start = max(before.rfind(mark) for mark in (b'"', b",", b";", b"\n", b"\r")) + 1
        cell = before[start:] + match[0]
        if _CELL.fullmatch(cell):
            cells.append(cell)
    return cells
