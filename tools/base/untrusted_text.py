"""Text of a profile made safe to store and to show: no control, bidi or ANSI characters, bounded length."""

from __future__ import annotations

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
