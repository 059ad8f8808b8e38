"""Answers as text and as data with the same facts, with inert strings and a limited size."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.base.text import inert, shorten
from ..base.results import NextCall, Result, Table
from .document import Cut, Document, clean
from .layout import TableStyle, markdown_lines, words_of

CHARACTERS = 32_000
"""The maximum number of characters of an answer, about 8,000 tokens."""
NOTE_CHARACTERS = 1_000
_ROOM_FOR_NOTES = 600
_PAGED_BY_ROW = ("compute_metrics", "list_workloads", "search_metrics")
_CUTS = ((2000, 400), (1000, 200), (500, 100), (300, 50), (200, 25), (120, 12), (80, 6), (60, 3), (40, 2))
"""The maximum characters of a text and entries of a list; they are reduced until the answer fits."""


def text(answer: Result | Document, tables: TableStyle = markdown_lines, *, following: bool = True) -> str:
    """The answer in words (see layout.py) within the size limit, with the calls that may follow.

    Kernels have short names, which are unique.
    """
    document = answer if isinstance(answer, Document) else Document(answer)
    words = words_of(document, document.cut, tables, following=following)
    for cut in _cuts(len(words)):
        if len(words) <= CHARACTERS:
            break
        words = words_of(document, cut, tables, following=following)
    return words


def structured_content(result: Result) -> dict[str, Any]:
    """The result as data for JSON in the terms of its vendor, without NaN, hidden characters and active markup."""
    return Document(result).content


def refusal(problem: Problem) -> str:
    """The text of a Problem for clients and terminals."""
    return inert(problem.text)


def fit_answer(result: Result, tool: str, arguments: dict[str, Any]) -> Document:
    """The answer with its largest tables truncated to the size limit; a note and a next call say how to get the rest.

    If that is not enough, long texts and lists are truncated too.
    """
    result = result.brief(arguments)
    if any(len(note) > NOTE_CHARACTERS for note in result.notes):
        result = result.model_copy(update={"notes": [shorten(note, NOTE_CHARACTERS) for note in result.notes]})
    document = Document(result)
    if document.size <= CHARACTERS:
        return document
    sizes = {
        name: len(json.dumps(clean(value.rows))) for name, value in result if isinstance(value, Table) and value.rows
    }
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if document.size <= CHARACTERS:
            break
        result = _with_fewer_rows(result, name, document.size - sizes[name], tool, arguments)
        document = Document(result)
    for cut in _cuts(document.size):
        if document.size <= CHARACTERS:
            break
        document = Document(result, cut)
    return document


def _cuts(size: int) -> Sequence[Cut]:
    """The limits to try for ``size`` characters: each halves texts or lists, rarely both."""
    return [Cut(*one) for one in _CUTS[min(int(math.log2(max(1, size / CHARACTERS))) // 2, len(_CUTS) - 1) :]]


def _with_fewer_rows(result: Result, name: str, rest: int, tool: str, arguments: dict[str, Any]) -> Result:
    """The result with as many rows of one table as fit in addition to the other ``rest`` characters of the answer."""
    longest: Table = getattr(result, name)
    keep = max(1, _fitting(longest.rows, CHARACTERS - rest - _ROOM_FOR_NOTES))
    if keep == len(longest.rows):
        return result
    cut_table = longest.model_copy(update={"rows": longest.rows[:keep], "truncated": True})
    update: dict[str, Any] = {
        name: cut_table,
        "notes": [
            *result.notes,
            f"Truncated to {keep} of {len(longest.rows)} rows of this page (size limit); request the rest, "
            "fewer columns, or use `rooflens call --full` in scripts.",
        ],
    }
    rest_of_rows = {**arguments, "offset": int(arguments.get("offset", 0)) + keep}
    if tool in _PAGED_BY_ROW and len(json.dumps(rest_of_rows)) <= _ROOM_FOR_NOTES:
        update["next"] = [NextCall(tool=tool, arguments=rest_of_rows, why="the following rows"), *result.next]
    return result.model_copy(update=update)


def _fitting(rows: list[list[Any]], room: int) -> int:
    """The number of leading rows that fit into ``room`` characters of JSON."""
    for index, row in enumerate(rows):
        room -= len(json.dumps(clean(row))) + 2
        if room < 0:
            return index
    return len(rows)
