"""The clients that `rooflens connect` knows, and what each of them wants to read about this server."""

from __future__ import annotations

import base64
import json
import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from ...analysis.base.problems import NotAllowed, NotFound, near

FILE = Path(__file__).with_name("clients.toml")
NAME = "rooflens"
"""What the server is called among a client's servers: tools then show as mcp__rooflens__... or the like."""
Scope = Literal["user", "project"]


@dataclass(frozen=True)
class Launch:
    """How a client starts the server: the words of the command line, the first of them the program."""

    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The program."""
        return self.words[0]

    @property
    def args(self) -> list[str]:
        """The rest of the words."""
        return list(self.words[1:])


@dataclass(frozen=True)
class Client:
    """One client as clients.toml describes it; the comment at its head says what each field is."""

    name: str
    title: str
    servers: str
    format: Literal["json", "toml"]
    typed: bool
    project: str
    after: str
    source: str
    tried: str
    user: str = ""
    user_variable: str = ""
    rewrites: str = ""
    own: tuple[str, ...] = ()
    link: str = ""

    def entry(self, launch: Launch) -> dict[str, Any]:
        """What stands under the server's name in the client's configuration."""
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": launch.command, "args": launch.args}

    def snippet(self, launch: Launch) -> str:
        """A whole configuration file that holds this server alone, ending in a line break."""
        if self.format == "toml":
            return table(self.servers, self.entry(launch))
        return json.dumps({self.servers: {NAME: self.entry(launch)}}, indent=2, ensure_ascii=False) + "\n"

    def own_command(self, launch: Launch) -> str | None:
        """The client's own command that adds the server, quoted for a shell; None where it has none."""
        if not self.own:
            return None
        words: list[str] = []
        for word in self.own:
            words += launch.words if word == "{command}" else [word.replace("{json}", self._named_entry(launch))]
        return shlex.join(words)

    def install_link(self, launch: Launch) -> str | None:
        """A link that opens the client and asks to add the server; None where it has none."""
        if not self.link:
            return None
        encoded = base64.b64encode(_compact(self.entry(launch)).encode()).decode()
        return self.link.format(base64=quote(encoded, safe=""), percent=quote(self._named_entry(launch), safe=""))

    def file(self, scope: Scope, home: Path, project: Path, environment: Mapping[str, str] = os.environ) -> Path:
        """The configuration file. Raises NotAllowed where the client keeps it to itself."""
        if scope == "project":
            return project / self.project
        if not self.user:
            fix = f"`rooflens connect {self.name}` without --write shows its command; or name a project with --project"
            raise NotAllowed(f"The servers of every project of {self.title} are not written here", self.rewrites, fix)
        elsewhere = environment.get(self.user_variable, "") if self.user_variable else ""
        return Path(elsewhere) / Path(self.user).name if elsewhere else home / self.user

    def _named_entry(self, launch: Launch) -> str:
        return _compact({"name": NAME, **self.entry(launch)})


def table(servers: str, entry: Mapping[str, str | Sequence[str]]) -> str:
    """The TOML table of one entry. JSON's strings and lists of strings are TOML's too."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[{servers}.{NAME}]", *lines]) + "\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@cache
def clients() -> dict[str, Client]:
    """Every client by name, in the order of the file."""
    known = {field.name for field in fields(Client)}
    stated = tomllib.loads(FILE.read_text(encoding="utf-8"))
    for name, one in stated.items():
        if unknown := set(one) - known:
            raise ValueError(f"clients.toml: {name} has unknown keys {sorted(unknown)}")
    return {name: Client(name, **{**one, "own": tuple(one.get("own", ()))}) for name, one in stated.items()}


def client(name: str) -> Client:
    """The client of that name. Raises NotFound with near names."""
    known = clients()
    if name not in known:
        told = near(name, known) or f"Known: {', '.join(known)}"
        raise NotFound(f"There is no client {name!r}", told, "`rooflens connect` lists what each client needs")
    return known[name]
