"""The MCP prompts: one Markdown file each, with its title and arguments in TOML at its head."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import Prompt, PromptArgument

from ...analysis.base.text import inert, shorten
from .offered import offered_only

FOLDER = Path(__file__).parents[2] / "prompts"
_FENCE = "+++\n"
ANY_SERVER = "any_server"
"""Stands among the tools where a text is for no one server, as the skill is: it then says what to do without some."""


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt as its file states it; ``arguments`` maps each name to what it is for, none of them required."""

    name: str
    title: str
    description: str
    arguments: dict[str, str]
    text: str

    def fill(self, given: dict[str, Any], tools: Collection[str]) -> str:
        """The text for a server that offers these tools, then what the user gave, marked as the user's words."""
        text = offered_only(self.text, tools)
        said = [f"- {name}: {value}" for name in self.arguments if (value := _quote_user_text(given.get(name)))]
        return "\n".join([text.rstrip(), "", "## Given by the user", "", *said, ""]) if said else text


_LONGEST = 10_000
"""Characters of one argument that are repeated."""


def _quote_user_text(value: Any) -> str:
    return inert(shorten(str(value or "").strip(), _LONGEST))


@cache
def prompts() -> tuple[PromptTemplate, ...]:
    """Every prompt, by name. Raises ValueError for a file without a head."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.md")))


def add_prompts(mcp: MCPServer[Any], tools: Collection[str]) -> None:
    """Register every prompt on ``mcp``, with the words for a server that offers these tools."""
    for written in prompts():
        mcp.add_prompt(
            Prompt(
                name=written.name,
                title=written.title,
                description=written.description,
                arguments=[PromptArgument(name=name, description=what) for name, what in written.arguments.items()],
                fn=_renderer(written, tools),
                context_kwarg=None,
            )
        )


def _renderer(written: PromptTemplate, tools: Collection[str]) -> Any:
    def render(**given: Any) -> str:
        return written.fill(given, tools)

    return render


def _read(path: Path) -> PromptTemplate:
    start, fence, rest = path.read_text(encoding="utf-8").partition(_FENCE)
    head, closing, text = rest.partition(_FENCE)
    if start or not fence or not closing:
        raise ValueError(f"{path.name} does not start with TOML between two lines of +++")
    stated = tomllib.loads(head)
    return PromptTemplate(path.stem, stated["title"], stated["description"], stated.get("arguments", {}), text)
