"""The data of a dialogue with a player: messages, offered tools, and replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

CHARACTERS_PER_TOKEN = 4
"""Characters per token, for the estimate if a player reports no usage."""


class PlayerFailed(Exception):
    """A player gave no usable reply; the message says what happened, without secrets."""


@dataclass(frozen=True)
class Offer:
    """A tool that a player may call; ``schema`` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call by a player; ``id`` identifies it in the dialogue."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """The result of a tool call. ``content`` is the structured form, which only scripted players read."""

    id: str
    text: str
    failed: bool = False
    content: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """One entry of a dialogue: text of the game or of the player, calls of the player, or results of tools."""

    role: Literal["game", "player", "tools"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()

    @property
    def characters(self) -> int:
        said = len(self.text) + sum(len(result.text) for result in self.results)
        return said + sum(len(call.name) + len(str(call.arguments)) for call in self.calls)


@dataclass(frozen=True)
class Usage:
    """Tokens that a reply cost, as the player counts them."""

    read: int
    written: int


@dataclass(frozen=True)
class Reply:
    """The reply of a player: calls, or only text if it is done. ``usage`` is None if it was not reported."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True)
class Position:
    """Everything that a player sees at its turn."""

    rules: str
    messages: tuple[Message, ...]
    tools: tuple[Offer, ...]

    def estimate(self, reply: Reply) -> Usage:
        """Estimate the tokens of this turn from characters, for players that report none."""
        offered = sum(len(o.name) + len(o.description) + len(str(o.schema)) for o in self.tools)
        read = len(self.rules) + offered + sum(message.characters for message in self.messages)
        written = Message("player", reply.text, reply.calls).characters
        return Usage(read // CHARACTERS_PER_TOKEN, written // CHARACTERS_PER_TOKEN)


class Player(Protocol):
    """The interface of players: a model behind an endpoint, a local program, or a script."""

    name: str

    async def reply(self, position: Position) -> Reply:
        """Return the next reply. Raises PlayerFailed."""
        ...

    async def close(self) -> None:
        """Release resources."""
        ...


def calls_of(stated: Sequence[Any]) -> tuple[Call, ...]:
    """Parse calls from plain data with ``name``, ``arguments`` and optional ``id``. Raises PlayerFailed if invalid."""
    calls = []
    for number, one in enumerate(stated):
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise PlayerFailed("a call needs a name")
        arguments = one.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise PlayerFailed(f"the arguments of {one['name']} are not an object")
        calls.append(Call(str(one.get("id") or f"call_{number}"), one["name"], arguments))
    return tuple(calls)
