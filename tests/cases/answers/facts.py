"""What counts in an answer: its figures, statuses, verdicts, names, units, order and calls; of sentences their codes.

An answer is taken as a client gets it (``render.structured_content``). Reasons and notes stand in it as their codes
while ``codes_for_words`` is open; of any other sentence the figures count, so that other words are no difference.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rooflens.analysis.base.notes import Note, Reason
from rooflens.analysis.base.problems import Problem
from rooflens.tools.base.results import Result
from rooflens.tools.rendering import render

_SENTENCES = """
    about advice answer because caveat claim description detail doubt evidence falsify loads meaning note notes
    operations own_traffic reading reason reasons said steps summary then title tried undecided unsupported waits walls
    warnings what_if why window"""
PROSE = frozenset(_SENTENCES.split())
"""Fields and columns that hold sentences."""
CODE = frozenset(("context", "hottest", "instruction", "lines", "source"))
"""Fields and columns that may hold lines of a program, which are not ours to keep."""
OF_THE_MOMENT = frozenset(("branch", "commit", "created", "created_ns", "png_path", "svg_path"))
"""Fields and columns that are others in every run: times, versions of these sources, files that were written."""
WHOLE_ROWS, DIGITS = 20, 5
"""Rows of a table whose numbers are kept with all of their digits, and the digits kept of those in other rows."""
_LONG, _BEGINNING = 100, 40
_CODED = re.compile(r"⟦([^⟧]*)⟧|((?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)")
_PLAIN = re.compile(r"[a-z_. ]{1,24}")


@contextmanager
def codes_for_words() -> Iterator[None]:
    """Within, every reason and note reads as its code, also as a part of a sentence.

    This is all that is known here of how reasons and notes are made: each has a ``code``, and ``text`` is its words.
    """

    def code(self: Reason | Note) -> str:
        return f"⟦{self.code}⟧"

    def keep(self: Reason | Note, text: str) -> None:
        vars(self)["text"] = text

    kinds: tuple[Any, ...] = (Reason, Note)
    for kind in kinds:
        kind.text = property(code, keep)
    try:
        yield
    finally:
        for kind in kinds:
            del kind.text


def plain(answer: Result | Problem) -> dict[str, Any]:
    """An answer as JSON-ready data; a refusal is its kind."""
    return {"refused": answer.code} if isinstance(answer, Problem) else render.structured_content(answer)


def facts(answer: dict[str, Any], without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What counts in a plain answer: tables by column, everything else by its place.

    Fields and columns of ``without`` do not count.
    """
    return dict(_parts(answer, "", "", without | OF_THE_MOMENT))


def sentence(text: str) -> str:
    """What counts in a sentence: its codes and figures."""
    return f"~ {' '.join(code or figure for code, figure in _CODED.findall(text))}".rstrip()


def _parts(value: Any, path: str, field: str, without: frozenset[str]) -> Iterator[tuple[str, Any]]:
    if field in without:
        return
    if isinstance(value, dict) and isinstance(value.get("rows"), list) and isinstance(value.get("columns"), list):
        yield path, _table(value, without)
        value = {key: inner for key, inner in value.items() if key not in ("columns", "units", "rows")}
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "next":
                yield f"{path}.next", [[call["tool"], call["arguments"]] for call in inner]
            else:
                yield from _parts(inner, f"{path}.{_cell(key, field)}", field if field in PROSE else key, without)
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        yield f"{path}.length", len(value)
        for number, inner in enumerate(value):
            yield from _parts(inner, f"{path}.{number}", field, without)
    else:
        yield path, _cell(value, field)


def _table(table: dict[str, Any], without: frozenset[str]) -> dict[str, Any]:
    """A table by column: its unit, its cells, and a checksum of all their digits where not all are kept."""
    columns: dict[str, Any] = {}
    for at, (name, unit) in enumerate(zip(table["columns"], table["units"], strict=True)):
        column = columns.setdefault(name if name not in columns else f"{name} {at}", {"unit": unit} if unit else {})
        if name in without:
            continue
        cells = [_cell(row[at], name) for row in table["rows"]]
        column["cells"] = [_with_fewer_digits(cell) if i >= WHOLE_ROWS else cell for i, cell in enumerate(cells)]
        if column["cells"] != cells:
            column["checksum"] = _checksum(json.dumps(cells))
    return {"rows": len(table["rows"]), "columns": columns}


def _cell(value: Any, field: str) -> Any:
    if isinstance(value, str):
        if field in PROSE or "⟦" in value:
            return sentence(value)
        if field in CODE and not _PLAIN.fullmatch(value):
            return f"# {_checksum(value)}"
        return value if len(value) <= _LONG else f"{value[:_BEGINNING]}... {_checksum(value)}"
    if isinstance(value, list):
        return [_cell(inner, field) for inner in value]
    if isinstance(value, dict):
        return {_cell(key, field): _cell(inner, field) for key, inner in value.items()}
    return value


def _with_fewer_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [_with_fewer_digits(inner) for inner in value] if isinstance(value, list) else value


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
