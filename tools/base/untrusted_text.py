"""Make text from a profile safe to store and show: no control, bidi or ANSI characters, and a bounded length."""

from __future__ import annotations

import re

from ...analysis.base.text import visible, visible_sql

KERNEL_LIMIT = 4000
_NOTE_LIMIT = 1000
_CUT_AT = KERNEL_LIMIT - 20
_SUFFIX = r"( \[clone \.kd\]| \(\.kd\)|\.kd)$"
NO_NAME = "(no name)"
"""Placeholder for a missing name."""


def plain_text(text: str, limit: int = 200) -> str:
    """Return ``text`` on one line, without terminal sequences and invisible characters, cut to ``limit`` characters."""
    shown = visible(text[: 8 * limit]).strip(" ")
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def plain_log_text(text: str | None) -> str:
    """Return a text as it is stored in the experiment log."""
    return plain_text(text or "", _NOTE_LIMIT)


def bounded_name(expression: str) -> str:
    """Return SQL that cuts an overlong kernel name; a hash of the whole name keeps different names distinct."""
    cut = f"left({expression}, {_CUT_AT}) || ' #' || left(md5({expression}), 12)"
    return f"CASE WHEN length({expression}) > {KERNEL_LIMIT} THEN {cut} ELSE {expression} END"


def visible_name(expression: str) -> str:
    """Return SQL that applies plain_text to a kernel name, without cutting it."""
    plain = f"regexp_full_match({expression}, '[!-~](?:[ -~]*[!-~])?')"  # far faster, and true of almost all names
    shown = f"coalesce(nullif(trim({visible_sql(expression)}), ''), '{NO_NAME}')"
    return f"CASE WHEN {plain} THEN {expression} ELSE {shown} END"


def plain_kernel_name(expression: str) -> str:
    """Return SQL that strips what profilers append to a kernel's name: `` [clone .kd]``, `` (.kd)``, ``.kd``."""
    return f"regexp_replace({expression}, '{_SUFFIX}', '')"


_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,5})?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_DIGITS_LIMIT = 400
_UNDERSCORED = re.compile(rb"_\d[\d_.eE+-]*[ \t]*(?=[\",;\r\n]|$)")
_CELL = re.compile(rb"[ \t]*[+-]?\d[\d_.]*(?:[eE][+-]?[\d_]+)?[ \t]*")
_REACH = 64


def decimal(text: str) -> float | None:
    """Parse a plain decimal number with optional exponent; None for ``1_000``, ``0x10``, ``nan`` and anything else."""
    text = text.strip()
    return float(text) if len(text) <= _DIGITS_LIMIT and _DECIMAL.fullmatch(text) else None


def grouped_number(text: str) -> float | None:
    """Parse a decimal number that may have commas between groups of three digits: ``2,230``, but not ``2,23``."""
    text = text.strip()
    return decimal(text.replace(",", "") if _GROUPED.fullmatch(text) else text)


def whole(text: str, most_digits: int = 18) -> int | None:
    """Parse a whole number; None if ``text`` is not one or has more than ``most_digits`` digits."""
    text = text.strip()
    return int(text) if 0 < len(text) <= most_digits and text.isascii() and text.isdecimal() else None


def numbers_with_underscores(block: bytes) -> list[bytes]:
    """Return the cells in part of a CSV file that are written like ``1_000``, which DuckDB would read as 1000."""
    cells = []
    for match in _UNDERSCORED.finditer(block):
        before = block[max(0, match.start() - _REACH) : match.start()]
        start = max(before.rfind(mark) for mark in (b'"', b",", b";", b"\n", b"\r")) + 1
        cell = before[start:] + match[0]
        if _CELL.fullmatch(cell):
            cells.append(cell)
    return cells
