"""`rooflens connect`: configures a client for this server, or shows how to do it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Collection, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome
from ..terminal.wording import problem

if TYPE_CHECKING:
    from ..connect.clients import Client, StartCommand, WrittenConfiguration

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


Report = tuple[dict[str, Any], list[str]]
"""The same facts as plain data and as text."""


def _client_report(options: Namespace, store: Store) -> Report:
    from ..connect import clients

    if options.write and options.remove:
        raise problem("write_and_remove")
    if options.client is None:
        if options.write or options.remove:
            raise problem("no_client", known=list(clients.clients()))
        return _client_list(clients.clients().values())
    client = clients.client(options.client)
    project = Path(options.project) if options.project else None
    file = client.file(Path.home(), project)
    old = clients.existing_entry(client, file) if file.is_file() else {}
    launch, kept = (None, []) if options.remove else _start_command(options, store, old if options.write else {})
    if launch and not options.write:
        return _ways(client, launch)
    if project or client.user:
        facts, words = _outcome(client, clients.write(client, launch, file, project), launch is not None)
    else:  # only the client itself writes its file
        removing = [client.removes] if launch is None or (old and client.removes) else []
        adding = [client.fill(client.adds, launch)] if launch else []
        facts, words = _run_client(client, [*removing, *adding])
    if launch is None:
        return facts, words
    return facts, [*words, *_remarks(options, store, launch, kept), client.after]


def _start_command(options: Namespace, store: Store, old: dict[str, Any]) -> tuple[StartCommand, list[list[str]]]:
    """The command that starts the server, and the options that are kept from an ``old`` entry."""
    from ..connect.clients import StartCommand

    given = _options(options, store)
    names = {pair[0] for pair in given} - {"--source-root"}
    kept = [pair for pair in _earlier_options(old) if pair[0] not in names]
    serve = [word for pair in [*kept, *(pair for pair in given if pair not in kept)] for word in pair]
    # A server needs these to reach a store that is not a folder.
    here = [] if store.address == str(store.root) else filter(_OF_STORES.fullmatch, os.environ)
    variables = tuple(sorted({*here, *old.get("env_vars", ())}))
    return StartCommand((*_program(options), "serve", *serve), variables), kept


def _outcome(client: Client, written: WrittenConfiguration, added: bool) -> Report:
    """What happened to a configuration file."""
    done, unchanged = ("written", "already up to date") if added else ("removed", "there is no entry for rooflens")
    words = [f"{written.file}: {done if written.changed else unchanged}"]
    words += [f"{written.backup}: the previous content"] if written.backup else []
    backup = str(written.backup) if written.backup else None
    return {"client": client.name, "file": str(written.file), "changed": written.changed, "backup": backup}, words


def _run_client(client: Client, commands: Sequence[Sequence[str]]) -> Report:
    """Run the client's own commands. Raises NotAllowed if it has none, MissingTool, or StoreProblem if one fails."""
    if not all(commands):
        raise problem("no_client_command", client=client)
    for command in commands:
        if (program := shutil.which(command[0])) is None:
            raise problem("no_client_program", client=client, program=command[0])
        try:
            subprocess.run(
                [program, *command[1:]],
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_LONGEST_S,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError) as error:
            printed = error.stdout.strip() if isinstance(error, subprocess.CalledProcessError) else ""
            why = printed[-500:] or str(error)
            raise problem("client_failed", command=shlex.join(command), why=why) from error
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


def _client_list(known: Collection[Client]) -> Report:
    facts = [
        {"client": one.name, "title": one.title, "user": one.user or None, "project": one.project} for one in known
    ]
    words = [f"{one.name:12} {one.title}: {'' if one.user else 'its own command, or '}{_files(one)}" for one in known]
    return {"clients": facts}, words


def _files(one: Client) -> str:
    return f"~/{one.user}, or {one.project} of a project" if one.user else f"{one.project} of a project"


def _ways(client: Client, launch: StartCommand) -> Report:
    """Every way to configure ``client``, for a person to choose from."""
    own = client.own_command(launch)
    file = f"Add this to {_files(client)}, or use --write"
    ways = {"Run": own, "Open": client.install_link(launch), file: client.snippet(launch)}
    words = [f"{way}\n\n{indent(text, '    ').rstrip()}\n" for way, text in ways.items() if text]
    facts = {"client": client.name, "entry": client.entry(launch), "command": own}
    return facts, [client.title, "", "\nor\n\n".join(words), client.after]


def _options(options: Namespace, store: Store) -> list[list[str]]:
    """The options of `rooflens serve`, each with its value; folders as absolute paths, because clients start elsewhere.

    The store of $ROOFLENS_STORE is one of them, because clients do not pass variables on to servers; in the file of a
    project, only if it is the same for everyone.
    """
    shared = store.address != str(store.root) or not options.project
    named = hasattr(options, "store") or (os.environ.get("ROOFLENS_STORE") and shared)
    given = [["--store", store.address]] if named else []
    given += [[f"--{name}"] for name in ("allow-exec", "read-only") if getattr(options, name.replace("-", "_"))]
    return given + [["--source-root", str(Path(root).absolute())] for root in options.source_root]


def _program(options: Namespace) -> list[str]:
    """The command that starts rooflens: the given one, plain ``rooflens`` for shared projects, or else this program.

    Raises BadArgument for a command that is not valid, and NotAllowed for a temporary installation.
    """
    if options.command is not None:
        try:
            if words := shlex.split(options.command):
                return words
        except ValueError as error:
            raise problem("unparsable_command", why=error) from error
        raise problem("empty_command")
    if options.project:
        return ["rooflens"]
    parts = Path(sys.prefix).parts
    # Environments of Poetry are in a cache too, but permanent.
    if any(map(_UV_CACHE.fullmatch, parts)) or ("pipx" in parts and "venvs" not in parts):
        raise problem("temporary_installation", folder=sys.prefix)
    started = shutil.which(sys.argv[0]) if Path(sys.argv[0]).name == "rooflens" else None
    return [str(Path(started).absolute())] if started else [sys.executable, "-m", "rooflens"]
