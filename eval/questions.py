"""Questions in plain words with one checkable answer each, answered by prescribed calls: the ideal agent's."""

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
"""Relative difference at which a number still counts as the answer, unless the question states its own."""
CHARACTERS_PER_TOKEN = 4
_KEPT = "$"


@dataclass(frozen=True)
class Call:
    """One tool call; ``keep`` names values of its answer that later calls take as ``$name``."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    keep: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A question, its calls, where in the last answer its answer stands, and what that must be.

    A number is compared with ``tolerance`` (relative); text must contain the answer; true and false must be equal.
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
    """What came of a question; ``tokens`` are those of the answers' text, a quarter of their characters."""

    question: Question
    given: Any
    right: bool
    calls: int
    tokens: int
    problem: str | None = None


def questions(path: Path = HERE / "questions.toml") -> tuple[Question, ...]:
    """Every question of the file. Raises TypeError for a field that is not known or missing."""
    stated = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
    return tuple(Question(**{**one, "calls": tuple(Call(**call) for call in one["calls"])}) for one in stated)


async def answered(client: Client, question: Question) -> Outcome:
    """Make the calls of a question one after the other and judge what the last one says."""
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
    """A value of an answer: ``field`` is a dotted path into it; ``table``, ``where`` and ``column`` choose a cell.

    Raises LookupError where the answer has no such place.
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
    """Whether what was given is the answer."""
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
    """Arguments with what earlier calls kept."""
    if isinstance(value, dict):
        return {name: _filled(part, kept) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, kept) for part in value]
    return kept[value[1:]] if isinstance(value, str) and value.startswith(_KEPT) else value
