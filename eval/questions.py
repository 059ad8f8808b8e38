"""Questions in plain words, each with one verifiable answer and the prescribed calls of an ideal agent."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.client import Client

HERE = Path(__file__).resolve().parent
MOST_CALLS = 3
TOLERANCE = 0.005
"""Relative tolerance for numbers, unless the question states its own."""
CHARACTERS_PER_TOKEN = 4
_KEPT = "$"


@dataclass(frozen=True)
class Call:
    """One tool call; ``keep`` names values of its answer that later calls use as ``$name``."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    keep: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A question, its calls, the position of the value in the last answer, and the expected value.

    A number is compared with ``tolerance`` (relative); text must contain the expected text; booleans must be equal.
    """

    ask: str
    calls: tuple[Call, ...]
    read: dict[str, Any]
    answer: Any
    source: str
    unit: str | None = None
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Outcome:
    """The result of a question; ``tokens`` are estimated as a quarter of the characters of the answers."""

    question: Question
    given: Any
    right: bool
    calls: int
    tokens: int
    problem: str | None = None


def questions(path: Path = HERE / "questions.toml") -> tuple[Question, ...]:
    """Read all questions of the file. Raises TypeError for an unknown or missing field."""
    stated = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
    return tuple(Question(**{**one, "calls": tuple(Call(**call) for call in one["calls"])}) for one in stated)


async def answered(client: Client, question: Question) -> Outcome:
    """Make the calls of a question in order, and check the last answer."""
    kept: dict[str, Any] = {}
    tokens = 0
    content: dict[str, Any] = {}
    for call in question.calls:
        result = await client.call_tool(call.tool, _filled(call.arguments, kept))
        text = "".join(getattr(block, "text", "") for block in result.content)
        tokens += len(text) // CHARACTERS_PER_TOKEN
        if result.is_error:
            return Outcome(question, None, False, len(question.calls), tokens, text)
        content = result.structured_content or {}
        kept |= {name: read(content, where) for name, where in call.keep.items()}
    given = read(content, question.read)
    return Outcome(question, given, fits(given, question.answer, question.tolerance), len(question.calls), tokens)


def read(content: Mapping[str, Any], where: Mapping[str, Any]) -> Any:
    """Extract a value from an answer: ``field`` is a dotted path; ``table``, ``where`` and ``column`` select a cell.

    Raises LookupError if the answer does not contain it.
    """
    if "field" in where:
        return _at(content, where["field"])
    table = _at(content, where.get("table", "table"))
    columns = table["columns"]
    wanted = {columns.index(name): value for name, value in where.get("where", {}).items()}
    for row in table["rows"]:
        if all(value == row[i] or _within(value, row[i]) for i, value in wanted.items()):
            return row[columns.index(where["column"])]
    raise LookupError(f"no row where {dict(where.get('where', {}))}")


def fits(given: Any, answer: Any, tolerance: float) -> bool:
    """Whether the given value is correct."""
    if isinstance(answer, bool) or answer is None or given is None:
        return given is answer
    if isinstance(answer, int | float):
        return isinstance(given, int | float) and math.isclose(given, answer, rel_tol=tolerance)
    return _within(answer, given)


def _within(part: Any, whole: Any) -> bool:
    return isinstance(part, str) and part.casefold() in str(whole).casefold()


def _at(content: Any, path: str) -> Any:
    for step in path.split("."):
        content = content[int(step)] if isinstance(content, list) else content[step]
    return content


def _filled(value: Any, kept: Mapping[str, Any]) -> Any:
    """Replace ``$name`` in arguments by values kept from earlier calls."""
    if isinstance(value, dict):
        return {name: _filled(part, kept) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, kept) for part in value]
    return kept[value[1:]] if isinstance(value, str) and value.startswith(_KEPT) else value
