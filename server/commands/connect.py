"""`rooflens connect`: configures a client for this server, or shows how to do it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...analysis.base.problems import BadArgument, MissingTool, NotAllowed, StoreProblem
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

if TYPE_CHECKING:
    from ..connect.clients import Client, Scope, StartCommand, WrittenConfiguration

_UV_CACHE = re.compile(r"(archive|environments)-v\d+")
"""Folders with environments in uv's cache."""

_OF_STORES = re.compile(r"AWS_\w+|PG[A-Z]+|ROOFLENS_(?:INSTALL_EXTENSIONS|CACHE_BYTES)")
"""The variables of the environment that shared stores are reached with: buckets, databases, and our own settings."""
_LONGEST_S = 60
"""The maximum time in seconds that a client's own command may take."""


def execute(options: Namespace, store: Store) -> Outcome:
    """List the clients, show what one of them needs, or write its configuration."""
    # Verbatim: our folder is also the caller's, and a symbolic link must be preserved.
    return Outcome(*_client_report(options, store), verbatim=True)


Told = tuple[dict[str, Any], list[str]]
"""The same facts as plain data and as text."""


def _client_report(options: Namespace, store: Store) -> Told:
    from ..connect import clients

    if options.client is None:
        if options.write or options.remove:
            raise BadArgument("This needs the name of a client", fix=f"Known: {', '.join(clients.clients())}")
        return _client_list(clients.clients().values())
    client = clients.client(options.client)
    if options.write and options.remove:
        raise BadArgument("--write and --remove contradict each other", fix="Give one of them")
    scope: Scope = "project" if options.project else "user"
    project = Path(options.project or ".")
    by_client = scope == "user" and not client.user  # only the client itself writes its file
    file = Path.home() / client.entries if by_client else client.file(scope, Path.home(), project)
    old = clients.existing_entry(client, file) if file.is_file() else {}
    within = project if options.project else None
    if options.remove:
        if by_client:
            return _run_client(client, [list(client.removes)])
        return _outcome(client, clients.remove(client, file, within), "removed", "there is no entry for rooflens")
    earlier = _earlier_options(old) if options.write else []
    given = _options(options, store)
    kept = [pair for pair in earlier if pair[0] not in {one[0] for one in given} or pair[0] == "--source-root"]
    pairs = [*kept, *(pair for pair in given if pair not in kept)]
    # A server needs these to reach a store that is not a folder.
    here = [] if store.address == str(store.root) else filter(_OF_STORES.fullmatch, os.environ)
    variables = {*here, *(old.get("env_vars", ()) if options.write else ())}
    serve = [word for pair in pairs for word in pair]
    launch = clients.StartCommand((*_program(options), "serve", *serve), tuple(sorted(variables)))
    if not options.write:
        return _ways(client, launch)
    remarks = _remarks(options, store, launch, kept)
    if by_client:
        before = [list(client.removes)] if old and client.removes else []
        facts, words = _run_client(client, [*before, client.adding_command(launch)])
    else:
        written = clients.write(client, launch, file, within)
        facts, words = _outcome(client, written, "written", "already up to date")
    return facts, [*words, *remarks, client.after]


def _outcome(client: Client, written: WrittenConfiguration, done: str, unchanged: str) -> Told:
    """What happened to a configuration file."""
    words = [f"{written.file}: {done if written.changed else unchanged}"]
    words += [f"{written.backup}: the previous content"] if written.backup else []
    backup = str(written.backup) if written.backup else None
    return {"client": client.name, "file": str(written.file), "changed": written.changed, "backup": backup}, words


def _run_client(client: Client, commands: list[list[str]]) -> Told:
    """Run the client's own commands. Raises NotAllowed if it has none, MissingTool, or StoreProblem if one fails."""
    if not all(commands):
        why = f"{client.rewrites}, and it has no command for this"
        raise NotAllowed(f"{client.title} manages its servers itself", why, client.after)
    for command in commands:
        if (program := shutil.which(command[0])) is None:
            why = f"{client.rewrites}; its own command would do it"
            fix = f"Put {command[0]} on the PATH, or select one project with --project"
            raise MissingTool(f"The program {command[0]} is not on the PATH", why, fix)
        try:
            done = subprocess.run(
                [program, *command[1:]], capture_output=True, text=True, timeout=_LONGEST_S, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StoreProblem(f"{shlex.join(command)} failed", str(error), "Run it by hand") from error
        if done.returncode:
            why = (done.stderr or done.stdout).strip()[-500:] or f"exit status {done.returncode}"
            raise StoreProblem(f"{shlex.join(command)} failed", why, "Run it by hand")
    return {"client": client.name, "commands": commands}, [f"ran {shlex.join(command)}" for command in commands]


def _earlier_options(entry: dict[str, Any]) -> list[list[str]]:
    """The options of `rooflens serve` in an existing entry, each with its value."""
    words = [word for word in entry.get("args", ()) if isinstance(word, str)]
    pairs: list[list[str]] = []
    for word in words[words.index("serve") + 1 :] if "serve" in words else []:
        if word.startswith("-"):
            pairs.append(word.split("=", 1) if word.startswith("--") else [word])
        elif pairs:
            pairs[-1].append(word)
    return pairs


def _remarks(options: Namespace, store: Store, launch: StartCommand, kept: list[list[str]]) -> list[str]:
    """What a person should know about the entry that was written."""
    words = []
    if kept:
        words.append(f"Kept from the earlier entry: {shlex.join(word for pair in kept for word in pair)}")
    if launch.variables:
        names = ", ".join(launch.variables)
        words.append(f"The client must be started with {names} set: the entry names the variables, not their values.")
    if options.project and "--store" not in launch.words and os.environ.get("ROOFLENS_STORE"):
        words.append(f"The store {store.address} is not part of a file that others share; --store adds it.")
    return words


def _client_list(known: Collection[Client]) -> Told:
    facts = [
        {"client": one.name, "title": one.title, "user": one.user or None, "project": one.project} for one in known
    ]
    words = [f"{one.name:12} {one.title}: {'' if one.user else 'its own command, or '}{_files(one)}" for one in known]
    return {"clients": facts}, words


def _files(one: Client) -> str:
    return f"~/{one.user}, or {one.project} of a project" if one.user else f"{one.project} of a project"


def _ways(client: Client, launch: StartCommand) -> Told:
    """Every way to configure ``client``, for a person to choose from."""
    own, link, snippet = client.own_command(launch), client.install_link(launch), client.snippet(launch)
    ways = [[verb, "", f"    {what}", ""] for verb, what in (("Run", own), ("Open", link)) if what]
    put = [f"Add this to {_files(client)}, or use --write", ""]
    ways.append([*put, *(f"    {line}" for line in snippet.splitlines()), ""])
    words = [line for way in ways for line in ("or", "", *way)]
    words[:2] = [client.title, ""]
    entry = client.entry(launch)
    return {"client": client.name, "entry": entry, "command": own}, [*words, client.after]


def _options(options: Namespace, store: Store) -> list[list[str]]:
    """The options of `rooflens serve`, each with its value; folders as absolute paths, because clients start elsewhere.

    The store of $ROOFLENS_STORE is one of them, because clients do not pass variables on to servers; in the file of a
    project, only if it is the same for everyone.
    """
    shared = store.address != str(store.root) or not options.project
    named = hasattr(options, "store") or (bool(os.environ.get("ROOFLENS_STORE")) and shared)
    given = [["--store", store.address]] if named else []
    given += [["--allow-exec"]] if options.allow_exec else []
    given += [["--read-only"]] if options.read_only else []
    return given + [["--source-root", str(Path(root).absolute())] for root in options.source_root]


def _program(options: Namespace) -> list[str]:
    """The command that starts rooflens: the given one, plain ``rooflens`` for shared projects, or else this program."""
    if options.command is not None:
        try:
            words = shlex.split(options.command)
        except ValueError as error:
            raise BadArgument(f"--command cannot be parsed: {error}", fix="Quote it as for a shell") from error
        if not words:
            raise BadArgument(
                "--command is empty", fix='Name the program, for instance --command "uvx --from FOLDER rooflens"'
            )
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
            'Install it (`uv tool install`, `pipx install`), or use --command "uvx --from FOLDER rooflens"',
        )
    return words


def _fleeting(prefix: Path) -> bool:
    """Whether this is a temporary environment of uvx or `pipx run`. Poetry's are in a cache too, but permanent."""
    parts = prefix.parts
    return any(map(_UV_CACHE.fullmatch, parts)) or ("pipx" in parts and "venvs" not in parts)
