"""One dialogue between a player and a game: replies, tool calls within a budget, and their cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rooflens.eval.agent.games.server import Toolbox
from rooflens.eval.agent.games.transcript import Transcript
from rooflens.eval.agent.players.turn import Call, Message, Player, PlayerFailed, Position, Reply, Result, Usage

NO_CALLS_LEFT = "The budget of calls is used up. Give your answer now."
_TURNS_TO_SPARE = 3
"""Number of further attempts of a player without remaining calls before the dialogue ends."""


@dataclass
class Cost:
    """The cost of a task. ``estimated``: some token counts were not reported, but estimated from characters."""

    calls: int = 0
    failed_calls: int = 0
    turns: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        return self.tokens_read + self.tokens_written


@dataclass
class Dialogue:
    """A conversation; with ``tools`` None, it is played without tools."""

    player: Player
    rules: str
    transcript: Transcript
    tools: Toolbox | None = None
    most_calls: int = 16
    cost: Cost = field(default_factory=Cost)
    problem: str | None = None
    """Why the player cannot continue."""
    failed: bool = False
    """Whether the player gave no reply at all."""
    _messages: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.transcript.write("rules", text=self.rules, tools=[o.name for o in self.tools.offers] if self.tools else [])

    async def say(self, text: str) -> str:
        """Send the player a message; return its text once it makes no more calls, empty if it failed (``problem``)."""
        self._add(Message("game", text))
        for _ in range(self.most_calls + _TURNS_TO_SPARE):
            offers = self.tools.offers if self.tools else ()
            position = Position(self.rules, tuple(self._messages), offers)
            try:
                reply = await self.player.reply(position)
            except PlayerFailed as failed:
                self.problem, self.failed = str(failed), True
                self.transcript.write("failed", problem=self.problem)
                return ""
            self._count(position, reply)
            self._add(Message("player", reply.text, reply.calls))
            if not reply.calls:
                return reply.text
            self._add(Message("tools", results=tuple([await self._answer(call) for call in reply.calls])))
        self.problem = "it went on calling tools after its budget was used up"
        self.transcript.write("failed", problem=self.problem)
        return ""

    async def _answer(self, call: Call) -> Result:
        self.cost.calls += 1
        if self.tools is None:
            result = Result(call.id, "No tools are offered in this game.", failed=True)
        elif self.cost.calls > self.most_calls:
            result = Result(call.id, NO_CALLS_LEFT, failed=True)
        else:
            result = await self.tools.call(call)
        self.cost.failed_calls += result.failed
        return result

    def _count(self, position: Position, reply: Reply) -> None:
        usage: Usage = reply.usage or position.estimate(reply)
        self.cost.estimated |= reply.usage is None
        self.cost.turns += 1
        self.cost.tokens_read += usage.read
        self.cost.tokens_written += usage.written

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        plain: dict[str, Any] = asdict(message)
        for result in plain["results"]:
            del result["content"]  # the same content as its text
        self.transcript.write(message.role, **{k: v for k, v in plain.items() if k != "role" and v})
