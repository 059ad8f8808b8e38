"""The clients that `rooflens connect` supports, and the configuration that each of them needs."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import tomli

from ...analysis.base.problems import BadInput, LimitExceeded, NotAllowed, NotFound, Problem, StoreProblem, near
from ...analysis.base.temporary_files import draft_of
from ...analysis.catalogue.files import CatalogueModel

FILE = Path(__file__).with_name("clients.toml")
NAME = "rooflens"
"""The name of the server in the configuration of a client; tools then appear as mcp__rooflens__... or similar."""
Scope = Literal["user", "project"]


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
        kind = {"type": "stdio"} if self.typed else {}
        program, *arguments = launch.words
        entry: dict[str, Any] = {**kind, "command": program, "args": arguments}
        if launch.variables and self.variable:
            entry["env"] = {name: self.variable.format(name=name) for name in launch.variables}
        elif launch.variables:
            entry["env_vars"] = list(launch.variables)
        return entry

    def snippet(self, launch: StartCommand) -> str:
        """A complete configuration file with only this server, ending in a line break."""
        if self.format == "toml":
            return table(self.servers, self.entry(launch))
        return json.dumps({self.servers: {NAME: self.entry(launch)}}, indent=2, ensure_ascii=False) + "\n"

    def own_command(self, launch: StartCommand) -> str | None:
        """The client's own command that adds the server, quoted for a shell; None if it has none.

        Commands that take the words of the program cannot refer to variables, so there is none if any are needed.
        """
        if launch.variables and "{command}" in self.own:
            return shlex.join(self.adding_command(launch)) if self.adds else None
        return shlex.join(self._fill(self.own, launch)) if self.own else None

    def adding_command(self, launch: StartCommand) -> list[str]:
        """The command that adds the server to a file that only the client writes; empty if it has none."""
        return self._fill(self.adds, launch)

    def _fill(self, template: Sequence[str], launch: StartCommand) -> list[str]:
        words: list[str] = []
        for word in template:
            if word == "{command}":
                words += launch.words
            else:
                named = word.replace("{json}", self._named_entry(launch))
                words.append(named.replace("{entry}", _compact({"type": "stdio", **self.entry(launch)})))
        return words

    def install_link(self, launch: StartCommand) -> str | None:
        """A link that opens the client and asks to add the server; None if the client supports none."""
        if not self.link:
            return None
        encoded = base64.b64encode(_compact(self.entry(launch)).encode()).decode()
        return self.link.format(base64=quote(encoded, safe=""), percent=quote(self._named_entry(launch), safe=""))

    def file(self, scope: Scope, home: Path, project: Path, environment: Mapping[str, str] = os.environ) -> Path:
        """The configuration file. Raises NotAllowed if only the client itself may write it."""
        if scope == "project":
            return project / self.project
        if not self.user:
            fix = (
                f"`rooflens connect {self.name}` without --write shows its command; or select a project with --project"
            )
            raise NotAllowed(f"{self.title} manages the servers of all projects itself", self.rewrites, fix)
        elsewhere = environment.get(self.user_variable, "") if self.user_variable else ""
        return Path(elsewhere) / Path(self.user).name if elsewhere else home / self.user

    def _named_entry(self, launch: StartCommand) -> str:
        return _compact({"name": NAME, **self.entry(launch)})


def table(servers: str, entry: Mapping[str, str | Sequence[str]]) -> str:
    """The TOML table of one entry. Strings and lists of strings have the same syntax in JSON and TOML."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[{servers}.{NAME}]", *lines]) + "\n"


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
        told = near(name, known) or f"Known: {', '.join(known)}"
        raise NotFound(f"There is no client {name!r}", told, "`rooflens connect` lists what each client needs")
    return known[name]


BACKUP = ".before-rooflens"
"""The suffix for the copy of a file before its first change."""
_LARGEST = 16_000_000
"""The maximum size in bytes; configurations of clients have a few thousand."""
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_HEADER = re.compile(r"^[ \t]*\[")


@dataclass(frozen=True)
class WrittenConfiguration:
    """The result for a file; ``backup`` is a copy of its previous content, if this was the first change."""

    file: Path
    changed: bool
    backup: Path | None = None


def write(client: Client, launch: StartCommand, file: Path, within: Path | None = None) -> WrittenConfiguration:
    """Add or update the entry in ``file``, in one step; other keys of an existing entry are kept.

    ``within`` is a project, whose content is untrusted: links in it are not followed to files outside. An existing
    backup is kept, because it contains the content before the first change.
    Raises BadInput for a file that cannot be changed without loss, LimitExceeded for a huge one, StoreProblem if it
    cannot be read or written, and NotAllowed if links lead elsewhere. In these cases the file is unchanged.
    """
    return _change(client, launch, file, within, f"Add the entry by hand: `rooflens connect {client.name}` prints it")


def remove(client: Client, file: Path, within: Path | None = None) -> WrittenConfiguration:
    """Remove the entry from ``file``, which otherwise keeps its content. Raises as `write` does."""
    return _change(client, None, file, within, f"Remove the entry {NAME!r} under {client.servers!r} by hand")


def _change(
    client: Client, launch: StartCommand | None, file: Path, within: Path | None, by_hand: str
) -> WrittenConfiguration:
    """Write the entry for ``launch``, or remove it if that is None."""
    file = _resolve(file, within, by_hand)
    before = _read(file)
    stated, servers = _servers(client, before, file, by_hand)
    old = servers.pop(NAME, {})
    entry = {**old, **client.entry(launch)} if launch else {}
    if isinstance(old.get("env"), dict) and isinstance(entry.get("env"), dict):
        entry["env"] = {**old["env"], **entry["env"]}
    if entry == old:
        return WrittenConfiguration(file, changed=False)
    wanted = {**stated, client.servers: {**servers, NAME: entry} if launch else servers}
    text = _toml(before, client, launch, old) if client.format == "toml" else _dump_json(wanted, before, file, by_hand)
    without = {key: value for key, value in wanted.items() if key != client.servers or value}
    return _replace(file, before, _faithful(client, text, file, by_hand, wanted, without), by_hand)


def _resolve(file: Path, within: Path | None, by_hand: str) -> Path:
    """The file that a path leads to: a link to a file in another place stays a link. Raises NotAllowed outside."""
    file = file.resolve()
    if within is not None and not file.is_relative_to(within.resolve()):
        raise NotAllowed(f"{file} is outside the project {within}", "a link in the project leads there", by_hand)
    return file


def existing_entry(client: Client, file: Path) -> dict[str, Any]:
    """The entry for this server in ``file``; empty if there is none, or if the file cannot be parsed."""
    try:
        entry: dict[str, Any] = _servers(client, _read(file.resolve()), file, "")[1].get(NAME, {})
    except Problem:
        return {}
    return entry


def _replace(file: Path, before: str, renewed: str, by_hand: str) -> WrittenConfiguration:
    """Write the new text in one step, after a copy of the first state was saved."""
    if renewed == before:
        return WrittenConfiguration(file, changed=False)
    backup = file.with_name(file.name + BACKUP)
    if backup.is_symlink():
        raise NotAllowed(
            f"{backup} is a link", "the previous content of the file would be saved there", "Remove the link"
        )
    there = file.exists()
    fresh = there and not os.path.lexists(backup)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            with draft_of(backup) as draft:
                shutil.copy2(file, draft)
        with draft_of(file) as draft:
            draft.write_text(renewed, encoding="utf-8")
            if there:
                shutil.copymode(file, draft)
    except OSError as error:
        raise _unusable(file, "written", error, by_hand) from error
    return WrittenConfiguration(file, changed=True, backup=backup if fresh else None)


def _read(file: Path) -> str:
    try:
        if file.exists() and file.stat().st_size > _LARGEST:
            raise LimitExceeded(f"{file} has more than {_LARGEST:,} bytes", "that is not a configuration of a client")
        return file.read_text(encoding="utf-8") if file.exists() else ""
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not a text file in UTF-8", str(error)) from error
    except OSError as error:
        raise _unusable(file, "read", error, "Correct its permissions, or add the entry by hand") from error


def _unusable(file: Path, verb: str, error: OSError, fix: str) -> Problem:
    return StoreProblem(f"{file} cannot be {verb}", error.strerror or str(error), fix)


def _servers(client: Client, before: str, file: Path, by_hand: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parsed file, and its table of servers. Raises BadInput if it has another shape."""
    try:
        stated = _parse(client, before) if before.strip() else {}
    except (ValueError, RecursionError) as error:
        why = "It nests too deep" if isinstance(error, RecursionError) else str(error)
        raise BadInput(f"{file} is not {client.format.upper()} that can be changed safely", why, by_hand) from error
    servers: Any = stated.get(client.servers, {}) if isinstance(stated, dict) else None
    if not isinstance(servers, dict) or not isinstance(servers.get(NAME, {}), dict):
        raise BadInput(
            f"{file} contains no table of servers under {client.servers!r}", "the value has another type", by_hand
        )
    return stated, servers


def _faithful(client: Client, text: str, file: Path, by_hand: str, *wanted: object) -> str:
    """The new text, if its content is a wanted one; BadInput otherwise, because something would be lost."""
    with suppress(ValueError):
        if _parse(client, text) in wanted:
            return text
    raise BadInput(f"{file} cannot be changed without affecting other entries", "Its layout is unusual", by_hand)


def _parse(client: Client, text: str) -> Any:
    """Parse TOML or strict JSON: comments, duplicate keys and NaN are rejected, because writing would lose them."""
    if client.format == "toml":
        return tomli.loads(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(members := dict(pairs)) != len(pairs):
            raise ValueError("an object contains a key twice")
        return members

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not valid JSON")

    return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)


def _dump_json(wanted: object, before: str, file: Path, by_hand: str) -> str:
    indent = match[1] if (match := _INDENT.search(before)) else "  "
    try:
        return json.dumps(wanted, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:  # the number is too large for a float
        raise BadInput(f"{file} contains a number that cannot be written back", str(error), by_hand) from error


def _toml(before: str, client: Client, launch: StartCommand | None, old: dict[str, Any]) -> str:
    """The text with our table instead of its older one, or else at its end; comments elsewhere are kept.

    Lines of the older table with other keys are kept too. Without ``launch``, our tables are removed. The caller checks
    that the result is correct.
    """
    fresh = table(client.servers, client.entry(launch)) if launch else ""
    if not old:
        return (before.rstrip("\n") + "\n\n" if before.strip() else "") + fresh
    ours = re.compile(rf"[ \t]*\[\s*{client.servers}\.{NAME}\s*(\]|{'$' if launch else '[.]'})")
    replaced = re.compile(rf"[ \t]*({'|'.join(client.entry(launch)) if launch else '.*'})[ \t]*=")
    kept, inside = [], False
    for line in before.splitlines(keepends=True):
        if _HEADER.match(line):
            inside = ours.match(line) is not None
            kept.append(fresh if inside else line)
        elif not (inside and (launch is None or replaced.match(line))):
            kept.append(line)
    return "".join(kept)
