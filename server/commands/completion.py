"""`rooflens completion`: the script with which a shell completes this command line."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome
from .verbs import Verb


def execute(options: Namespace, store: Store) -> Outcome:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    script = shellcode(["rooflens"], shell=options.shell)
    return Outcome({"shell": options.shell, "script": script}, [script.rstrip("\n")], verbatim=True)


_WORD = re.compile(r"\w[\w.+@:-]{0,99}", re.ASCII)
_MOST = 500


def words_so_far() -> list[str]:
    """The words of the command line that a shell asks to complete, without the name of the program."""
    line = os.environ.get("COMP_LINE", "")
    try:
        return shlex.split(line)[1:]
    except ValueError:  # an open quote
        return line.split()[1:]


def complete(parser: argparse.ArgumentParser) -> None:
    """If a shell asks for completions by its environment variables, answer it and end the process."""
    import argcomplete

    for action in _actions(parser):
        if completer := _completer(action):
            action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)


def _actions(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from _actions(one)


def _completer(action: argparse.Action) -> Callable[..., Iterable[str]] | None:
    from argcomplete.completers import ChoicesCompleter, DirectoriesCompleter, FilesCompleter, SuppressCompleter

    if verb := getattr(action, "verb", None):
        return partial(_words, verb)
    if words := getattr(action, "words", None):
        return ChoicesCompleter(words)
    known: dict[Any, Callable[..., Iterable[str]]] = {
        "tool": _tools,
        "CLIENT": _clients,
        "DIR": DirectoriesCompleter(),
        "FILE": FilesCompleter(),
        **dict.fromkeys(("WORKLOAD", "BASELINE", "CANDIDATE", "workload"), _workloads),
    }
    if (called := action.metavar or action.dest) in known:
        return known[called]
    if action.choices is not None:
        return None
    # The value of an option that only the user knows; SuppressCompleter would also withhold the option's name.
    return ChoicesCompleter({}) if action.option_strings else SuppressCompleter()


_OF_STORE = frozenset({"workload", "baseline", "candidate"})


def _words(verb: Verb, prefix: str, parsed_args: argparse.Namespace, **_: Any) -> Iterable[str]:
    """What a verb takes without a name: workloads, files, or fixed words."""
    from argcomplete.completers import FilesCompleter

    names = {one.name for one in verb.positionals}
    if "path" in names:
        return FilesCompleter()(prefix)
    if not getattr(parsed_args, "words", None) and "kind" in names:
        from ..mcp.toolbox import tool_named
        from .verbs.arguments import choices

        return list(choices(tool_named(verb.tool).schemas["kind"]))
    return _workloads(parsed_args) if names & _OF_STORE else []


def _workloads(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The names of workloads, newest first, and tags as tag:NAME."""
    try:
        known = Store.locate(getattr(parsed_args, "store", None)).scan()[0]
    except Problem:
        return []
    names = [m.name for m in reversed(known)] + [f"tag:{tag}" for m in known for tag in m.tags]
    return ["latest", *(name for name in dict.fromkeys(names) if _WORD.fullmatch(name))][:_MOST]


def _tools(**_: Any) -> list[str]:
    """The names of the tools."""
    from ..mcp.toolbox import TOOLS

    return [tool.name for tool in TOOLS]


def _clients(**_: Any) -> list[str]:
    """The names of the clients that `rooflens connect` supports."""
    from ..connect.clients import clients

    return list(clients())
