"""A player without a model: it knows the right calls for each question and the best version of each kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rooflens.eval.agent.players.turn import Call, PlayerFailed, Position, Reply

Read = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
"""Extracts a value from a structured answer: ``read(content, where)``. Raises LookupError."""


@dataclass(frozen=True)
class Step:
    """One prescribed call; ``keep`` names values of its answer that later steps use as ``$name``."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    keep: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """The script for the message ``cue`` of the game: calls, then a reply made from the content of the last answer.

    ``words`` is called with the last content and the kept values; without calls, with two empty mappings.
    """

    cue: str
    words: Callable[[Mapping[str, Any], Mapping[str, Any]], str]
    steps: tuple[Step, ...] = ()


class ScriptPlayer:
    """Finds its part for the last message of the game and plays it, whatever the answers are."""

    name = "script"

    def __init__(self, parts: Sequence[Part], read: Read) -> None:
        self._parts, self._read = parts, read

    async def reply(self, position: Position) -> Reply:
        """Return the next prescribed call, or else the reply. Raises PlayerFailed without either."""
        start = max(i for i, message in enumerate(position.messages) if message.role == "game")
        told = position.messages[start].text
        part = next((p for p in self._parts if p.cue in told), None)
        if part is None:
            raise PlayerFailed("the script has no part for this")
        answers = [result for message in position.messages[start:] for result in message.results]
        kept: dict[str, Any] = {}
        try:
            for step, answer in zip(part.steps, answers, strict=False):
                kept |= {name: self._read(answer.content, where) for name, where in step.keep.items()}
            if part.steps and not position.tools:
                return Reply("Without tools the script cannot answer.")
            if len(answers) < len(part.steps):
                step = part.steps[len(answers)]
                return Reply(calls=(Call(f"call_{len(answers)}", step.tool, _filled(step.arguments, kept)),))
            return Reply(part.words(answers[-1].content if answers else {}, kept))
        except (LookupError, TypeError) as missing:
            said = f": {answers[-1].text[:300]}" if answers and answers[-1].failed else ""
            raise PlayerFailed(f"the answer does not contain it ({missing}){said}") from missing

    async def close(self) -> None:
        """Nothing to close."""


class SilentPlayer:
    """Gives the same reply to everything, as a baseline that requires no knowledge."""

    def __init__(self, words: str) -> None:
        self.name, self._words = "silent", words

    async def reply(self, position: Position) -> Reply:
        """Return the fixed reply."""
        return Reply(self._words)

    async def close(self) -> None:
        """Nothing to close."""


def _filled(value: Any, kept: Mapping[str, Any]) -> Any:
    """Replace ``$name`` in arguments by values kept from earlier answers."""
    if isinstance(value, dict):
        return {name: _filled(part, kept) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, kept) for part in value]
    return kept[value[1:]] if isinstance(value, str) and value.startswith("$") else value
