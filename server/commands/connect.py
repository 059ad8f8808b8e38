"""`rooflens connect`: configures a client for this server, or shows how to do it."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...analysis.base.problems import BadArgument, NotAllowed
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome
from .call import source_roots

if TYPE_CHECKING:
    from ..connect.clients import Client, Scope, StartCommand

_UV_CACHE = re.compile(r"(archive|environments)-v\d+")
"""Folders with environments in uv's cache."""

HELP = "show what Claude Code, Codex, Gemini CLI, Cursor or VS Code need to use this server; --write configures it"


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument(
        "client", metavar="CLIENT", nargs="?", help="one of the supported clients; without it, they are listed"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="add or update the entry in the client's configuration file, and change nothing else; a copy is kept",
    )
    parser.add_argument(
        "--project",
        metavar="DIR",
        nargs="?",
        const=".",
        help="configure one project (this folder, or DIR) instead of all your projects",
    )
    parser.add_argument(
        "--command", metavar="WORDS", help='how the client starts rooflens, for instance "uvx rooflens" (this program)'
    )
    parser.add_argument(
        "--allow-exec", action="store_true", help="as for `rooflens serve`: the server may run programs as you"
    )
    parser.add_argument("--read-only", action="store_true", help="as for `rooflens serve`: the server writes nothing")
    source_roots(parser)


def execute(options: Namespace, store: Store) -> Outcome:
    """List the clients, show what one of them needs, or write its configuration."""
    facts, words = _client_report(options, store)
    return Outcome(
        facts, words, verbatim=True
    )  # our folder, which is also the caller's; a symbolic link must be preserved


Told = tuple[dict[str, Any], list[str]]
"""The same facts as plain data and as text."""


def _client_report(options: Namespace, store: Store) -> Told:
    from ..connect import clients

    if options.client is None:
        if options.write:
            raise BadArgument("--write needs the name of a client", fix=f"Known: {', '.join(clients.clients())}")
        return _client_list(clients.clients().values())
    client = clients.client(options.client)
    launch = clients.StartCommand((*_program(options), "serve", *_options(options, store)))
    if not options.write:
        return _ways(client, launch)
    scope: Scope = "project" if options.project else "user"
    project = Path(options.project or ".")
    file = client.file(scope, Path.home(), project)
    written = clients.write(client, launch, file, within=project if options.project else None)
    words = [f"{written.file}: {'written' if written.changed else 'already up to date'}"]
    words += [f"{written.backup}: the previous content"] if written.backup else []
    backup = str(written.backup) if written.backup else None
    facts = {"client": client.name, "file": str(written.file), "changed": written.changed, "backup": backup}
    return facts, [*words, client.after]


def _client_list(known: Iterable[Client]) -> Told:
    facts, words = [], []
    for one in known:
        facts.append({"client": one.name, "title": one.title, "user": one.user or None, "project": one.project})
        words.append(f"{one.name:12} {one.title}: {'' if one.user else 'its own command, or '}{_files(one)}")
    return {"clients": facts}, words


def _files(one: Client) -> str:
    return f"~/{one.user}, or {one.project} of a project" if one.user else f"{one.project} of a project"


def _ways(client: Client, launch: StartCommand) -> Told:
    """Every way to configure ``client``, for a person to choose from."""
    own, link, snippet = client.own_command(launch), client.install_link(launch), client.snippet(launch)
    ways = [["Run", "", f"    {own}", ""]] if own else []
    ways += [["Open", "", f"    {link}", ""]] if link else []
    put = [f"Add this to {_files(client)}, or use --write", ""]
    ways.append([*put, *(f"    {line}" for line in snippet.splitlines()), ""])
    words = [client.title, ""]
    for number, way in enumerate(ways):
        words += (["or", ""] if number else []) + way
    entry = client.entry(launch)
    return {"client": client.name, "entry": entry, "command": own}, [*words, client.after]


def _options(options: Namespace, store: Store) -> list[str]:
    """The given options of `rooflens serve`; folders as absolute paths, because clients start in other folders."""
    given = ["--store", store.address] if hasattr(options, "store") else []
    given += ["--allow-exec"] if options.allow_exec else []
    given += ["--read-only"] if options.read_only else []
    for root in options.source_root:
        given += ["--source-root", str(Path(root).absolute())]
    return given


def _program(options: Namespace) -> list[str]:
    """The command that starts rooflens: the given one, plain ``rooflens`` for shared projects, or else this program."""
    if options.command is not None:
        try:
            words = shlex.split(options.command)
        except ValueError as error:
            raise BadArgument(f"--command cannot be parsed: {error}", fix="Quote it as for a shell") from error
        if not words:
            raise BadArgument("--command is empty", fix='Name the program, for instance --command "uvx rooflens"')
        return words
    if options.project:
        return ["rooflens"]
    return this_program()


def this_program() -> list[str]:
    """The command that starts this installation from any folder. Raises NotAllowed for a temporary installation."""
    started = shutil.which(sys.argv[0]) if Path(sys.argv[0]).name == "rooflens" else None
    words = [str(Path(started).absolute())] if started else [sys.executable, "-m", "rooflens"]
    if _fleeting(Path(sys.prefix)):
        raise NotAllowed(
            f"This rooflens runs from {sys.prefix}, which may be removed at any time",
            "uvx and `pipx run` create temporary installations",
            'Install it (`uv tool install`, `pipx install`), or use --command "uvx rooflens"',
        )
    return words


def _fleeting(prefix: Path) -> bool:
    """Whether this is a temporary environment of uvx or `pipx run`. Poetry's are in a cache too, but permanent."""
    parts = prefix.parts
    return any(map(_UV_CACHE.fullmatch, parts)) or ("pipx" in parts and "venvs" not in parts)
