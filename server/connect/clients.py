"""The clients that `rooflens connect` supports, and the configuration that each of them needs."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import tomli

from ...analysis.base.problems import LimitExceeded, near
from ...analysis.base.temporary_files import draft_of
from ...analysis.catalogue.files import CatalogueModel
from ..terminal.wording import problem

FILE = Path(__file__).with_name("clients.toml")
NAME = "rooflens"
"""The name of the server in the configuration of a client; tools then appear as mcp__rooflens__... or similar."""


@dataclass(frozen=True)
class StartCommand:
    """The command line with which a client starts the server, beginning with the program.

    ``variables`` are the names of the environment variables that the server needs, for example to reach its store.
    Their values, which may be secret, never become part of a configuration.
    """

    words: tuple[str, ...]
    variables: tuple[str, ...] = ()


class Client(CatalogueModel):
    """A client as described in clients.toml, where a comment at the top explains each field."""

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
    aliases: tuple[str, ...] = ()
    variable: str = ""
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    entries: str = ""

    def entry(self, launch: StartCommand) -> dict[str, Any]:
        """The entry for this server in the configuration of the client."""
        program, *arguments = launch.words
        entry: dict[str, Any] = {"type": "stdio"} if self.typed else {}
        entry |= {"command": program, "args": arguments}
        if launch.variables and self.variable:
            entry["env"] = {name: self.variable.format(name=name) for name in launch.variables}
        elif launch.variables:
            entry["env_vars"] = list(launch.variables)
        return entry

    def snippet(self, launch: StartCommand | None) -> str:
        """A complete configuration file with only this server, ending in a line break; empty without a command."""
        if launch is None:
            return ""
        entry = self.entry(launch)
        if self.format == "json":
            return json.dumps({self.servers: {NAME: entry}}, indent=2, ensure_ascii=False) + "\n"
        # Strings and lists of strings have the same syntax in JSON and TOML.
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items()]
        return "".join([f"[{self.servers}.{NAME}]\n", *lines])

    def own_command(self, launch: StartCommand) -> str | None:
        """The client's own command that adds the server, quoted for a shell; None if it has none.

        Commands that take the words of the program cannot refer to variables, so there is none if any are needed.
        """
        template = self.adds if launch.variables and "{command}" in self.own else self.own
        return shlex.join(self.fill(template, launch)) or None

    def install_link(self, launch: StartCommand) -> str | None:
        """A link that opens the client and asks to add the server; None if the client supports none."""
        return "".join(self.fill([self.link], launch)) or None

    def fill(self, template: Sequence[str], launch: StartCommand) -> list[str]:
        """The words of a template from clients.toml, with the entry and the start command in place of their names."""
        entry = self.entry(launch)
        named = _compact({"name": NAME, **entry})
        values = {
            "json": named,
            "entry": _compact({"type": "stdio", **entry}),
            "base64": quote(base64.b64encode(_compact(entry).encode()), safe=""),
            "percent": quote(named, safe=""),
        }
        parts = [launch.words if word == "{command}" else [word.format(**values)] for word in template]
        return [*chain.from_iterable(parts)]

    def file(self, home: Path, project: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
        """The configuration file for a project or for all projects; the latter may belong to the client alone."""
        if project is not None:
            return project / self.project
        elsewhere = environment.get(self.user_variable)
        return Path(elsewhere, Path(self.user).name) if elsewhere else home / (self.user or self.entries)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@cache
def clients() -> dict[str, Client]:
    """All clients by name, in the order of the file."""
    return {name: Client(name=name, **facts) for name, facts in tomli.loads(FILE.read_text(encoding="utf-8")).items()}


def client(name: str) -> Client:
    """The client with a name or an alias, in any case. Raises NotFound with similar names."""
    known = clients()
    word = name.lower().replace("_", "-").replace(" ", "-")
    name = next((one.name for one in known.values() if word == one.name or word in one.aliases), name)
    if name not in known:
        raise problem("unknown_client", name=name, hint=near(name, known) or f"Known: {', '.join(known)}")
    return known[name]


BACKUP = ".before-rooflens"
"""The suffix for the copy of a file before its first change."""
_LARGEST = 16_000_000
"""The maximum size in bytes; configurations of clients have a few thousand."""
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(frozen=True)
class WrittenConfiguration:
    """The result for a file; ``backup`` is a copy of its previous content, if this was the first change."""

    file: Path
    changed: bool
    backup: Path | None = None


def write(client: Client, launch: StartCommand | None, file: Path, within: Path | None = None) -> WrittenConfiguration:
    """Add or update the entry in ``file`` in one step, or remove it if ``launch`` is None; other content is kept.

    ``within`` is a project, whose content is untrusted: links in it are not followed to files outside. An existing
    backup is kept, because it contains the content before the first change.
    Raises BadInput for a file that cannot be changed without loss, LimitExceeded for a huge one, StoreProblem if it
    cannot be read or written, and NotAllowed if links lead elsewhere. In these cases the file is unchanged.
    """
    by_hand = f"Remove the entry {NAME!r} under {client.servers!r} by hand"
    if launch:
        by_hand = f"Add the entry by hand: `rooflens connect {client.name}` prints it"
    file = file.resolve()  # A link to a file in another place stays a link.
    if within is not None and not file.is_relative_to(within.resolve()):
        raise problem("outside_project", file=file, project=within, by_hand=by_hand)
    try:
        before = _read(file)
        text = _changed_text(client, launch, before)
        return WrittenConfiguration(file, False) if text is None else _replace(file, text)
    except (ValueError, RecursionError) as error:
        raise problem("unsafe_change", file=file, form=client.format.upper(), why=error, by_hand=by_hand) from error
    except OSError as error:
        raise problem("unwritten_client", file=file, why=error.strerror or error, by_hand=by_hand) from error


def existing_entry(client: Client, file: Path) -> dict[str, Any]:
    """The entry for this server in ``file``; empty if there is none, or if the file cannot be parsed."""
    try:
        entry: dict[str, Any] = _parse(client, _read(file))[client.servers].get(NAME, {})
    except (KeyError, ValueError, RecursionError, OSError, LimitExceeded):
        return {}
    return entry


def _read(file: Path) -> str:
    if not file.exists():
        return ""
    if file.stat().st_size > _LARGEST:
        raise problem("huge_configuration", file=file, bytes=_LARGEST)
    return file.read_text(encoding="utf-8")


def _changed_text(client: Client, launch: StartCommand | None, before: str) -> str | None:
    """The text with the entry, or without it; None if that is no change. Raises ValueError if something would be lost.

    Other keys of an existing entry are kept.
    """
    content = _parse(client, before)
    servers = content[client.servers]
    old = servers.pop(NAME, {})
    entry = {**old, **client.entry(launch)} if launch else {}
    if isinstance(old.get("env"), dict) and "env" in entry:
        entry["env"] = {**old["env"], **entry["env"]}
    if entry == old:
        return None
    if entry:
        servers[NAME] = entry
    if client.format == "toml":
        text = _toml(client, launch, before, old)
    else:
        indent = match[1] if (match := _INDENT.search(before)) else "  "
        text = json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
    if _parse(client, text) != content:
        raise ValueError("Its layout is unusual, and other entries would be affected")
    return text


def _parse(client: Client, text: str) -> dict[str, Any]:
    """Parse TOML or strict JSON, and add the table of servers if there is none. Raises ValueError for other shapes.

    Comments in JSON, duplicate keys and NaN are rejected, because writing would lose them.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(members := dict(pairs)) != len(pairs):
            raise ValueError("an object contains a key twice")
        return members

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not valid JSON")

    if client.format == "toml":
        content = tomli.loads(text)
    else:
        content = json.loads(text.strip() or "{}", object_pairs_hook=unique, parse_constant=refuse)
    servers = content.setdefault(client.servers, {}) if isinstance(content, dict) else None
    if not isinstance(servers, dict) or not isinstance(servers.get(NAME, {}), dict):
        raise ValueError(f"it contains no table of servers under {client.servers!r}: the value has another type")
    return content


def _toml(client: Client, launch: StartCommand | None, before: str, old: dict[str, Any]) -> str:
    """The text with our table in place of its older one, or else at its end; comments elsewhere are kept.

    Lines of the older table with other keys are kept too. Without a command, our tables are removed.
    """
    fresh = client.snippet(launch)
    if not old:
        return (before.rstrip("\n") + "\n\n" if before.strip() else "") + fresh
    header = rf"^[ \t]*\[\s*{client.servers}\.{NAME}\s*"
    if launch is None:
        return re.sub(rf"(?ms){header}[].].*?(?=^[ \t]*\[|\Z)", "", before)
    ours = re.compile(rf"(?ms){header}\].*?(?=^[ \t]*\[|\Z)")
    replaced = re.compile(rf"(?m)^[ \t]*(\[|({'|'.join(client.entry(launch))})[ \t]*=).*\n?")
    return ours.sub(lambda match: fresh + replaced.sub("", match[0]), before)


def _replace(file: Path, text: str) -> WrittenConfiguration:
    """Write the new text in one step, after a copy of the first state was saved."""
    backup = file.with_name(file.name + BACKUP)
    if backup.is_symlink():
        raise problem("linked_backup", backup=backup)
    there = file.exists()
    fresh = there and not backup.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    if fresh:
        with draft_of(backup) as draft:
            shutil.copy2(file, draft)
    with draft_of(file) as draft:
        draft.write_text(text, encoding="utf-8")
        if there:
            shutil.copymode(file, draft)
    return WrittenConfiguration(file, changed=True, backup=backup if fresh else None)
