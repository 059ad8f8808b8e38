"""The command line: the options that all subcommands accept, and the output of their outcome."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..analysis.base.problems import Problem, near
from ..analysis.store.store import Store
from .commands import NAMES, command
from .commands.first_steps import first_steps
from .commands.options import command_facts, declare
from .commands.team import foreign_entries
from .commands.verbs import BY_NAME, BY_TOOL
from .commands.verbs.command_names import problem_with_commands
from .terminal import log
from .terminal.outcome import INTERRUPTED, MEANINGS, Misuse, Outcome, refuse, tell
from .terminal.progress_bar import show_progress
from .terminal.wording import problem

_JSON, _STORE = "--json", "--store"
_UNDERSCORED = re.compile(r"^--\w+")
"""An option that is written like the argument of a tool: --top_n for --top-n."""
_COMPLETES = "_ARGCOMPLETE"
"""The environment variable with which a shell asks for completions."""
_NAME_TOOLS = ("call", "tools", "serve")
"""The subcommands whose users know tools by their names."""
_SPEAKS_MCP = "serve"
"""The subcommand whose standard output is reserved for the protocol."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status, one of ``MEANINGS``."""
    words = sys.argv[1:] if argv is None else list(argv)
    as_json = _JSON in words[: words.index("--")] if "--" in words else _JSON in words
    try:
        if _COMPLETES in os.environ:
            from .commands.completion import complete, words_so_far

            complete(parser(_command_in(words_so_far())[1]))
        options = _parse(words)
        as_json = getattr(options, "json", False)
        log.start(getattr(options, "verbose", 0))
        store = choose_store(getattr(options, "store", None), options.subcommand, getattr(options, "tool", None))
        with nullcontext() if options.subcommand == _SPEAKS_MCP else show_progress():
            result: int | Outcome = options.run(options, store)
            return tell(result, as_json) if isinstance(result, Outcome) else result
    except Problem as refusal:
        names_tools = as_json or isinstance(refusal, Misuse) or _command_in(words)[1] in _NAME_TOOLS
        return refuse(refusal if names_tools else problem_with_commands(refusal), as_json)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of a command line. Raises Misuse, with near names, for commands and options that do not exist."""
    at, name = _command_in(words)
    own, program = list(words), []
    if name in BY_TOOL and name not in NAMES:
        name = own[at] = BY_TOOL[name].name
    elif name is not None and name not in NAMES:
        hint = near(name, [*NAMES, *BY_TOOL]) or f"Commands: {', '.join(NAMES)}"
        raise Misuse(f"There is no command {name!r}. {hint}", "`rooflens --help` lists the commands")
    if name in BY_NAME:
        end = own.index("--") if "--" in own else len(own)
        own, program = own[:end], own[end + 1 :]
        own = [_UNDERSCORED.sub(lambda match: match[0].replace("_", "-"), word) for word in own]
    options, unknown = parser(name or "").parse_known_args(own)
    if hasattr(options, "words"):
        # argparse takes positional words only up to the first option that follows one.
        options.words += [word for word in unknown if not _is_option(word)]
        options.program = program
        unknown = list(filter(_is_option, unknown))
    if unknown:
        used: argparse.ArgumentParser = options.parser
        known = [option for action in used._actions for option in action.option_strings if option.startswith("--")]
        word = unknown[0].partition("=")[0]
        hint = near(word, known) if word.startswith("--") else ""
        kind = "option" if word.startswith("-") else "argument"
        raise Misuse(f"{used.prog} has no {kind} {word!r}. {hint}".strip(), used.format_usage().rstrip())
    return options


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _command_in(words: Sequence[str]) -> tuple[int, str | None]:
    """The place and the name of the command in a command line: the first word that is neither option nor its value."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == _STORE else 1
    return at, words[at] if at < len(words) else None


class _Parser(argparse.ArgumentParser):
    """A parser that raises Misuse instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{self.prog}: error: {message}", self.format_usage().rstrip())


def parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; --store, --json and -v are accepted before and after a subcommand.

    With a ``chosen`` subcommand, only its arguments are defined, so that no tool but its own is imported.
    """
    everywhere, for_programs = (_Parser(add_help=False, argument_default=argparse.SUPPRESS) for _ in range(2))
    declare(everywhere, "everywhere")
    declare(for_programs, "programs")
    meanings = "\n".join(f"  {status:<4}{meaning}" for status, meaning in MEANINGS.items())
    whole = _Parser(
        prog="rooflens",
        description="Measure, understand and improve GPU kernels. Without a command: what to do first.",
        epilog=f"exit status:\n{meanings}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[everywhere, for_programs],
    )
    whole.add_argument("--version", action="version", version=f"rooflens {__version__}")
    whole.set_defaults(run=lambda _, store: first_steps(store), subcommand="", parser=whole)
    subcommands = whole.add_subparsers(metavar="COMMAND")
    for name in NAMES:
        module = command(name)
        parents = [everywhere] if name == _SPEAKS_MCP else [everywhere, for_programs]
        one = subcommands.add_parser(name, parents=parents, help=module.HELP)
        if chosen in (None, name):
            module.arguments(one)
        one.set_defaults(run=module.execute, subcommand=name, parser=one)
    return whole


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCHEMES = ("s3", "ducklake")


def choose_store(explicit: str | None, command: str, tool: str | None = None) -> Store:
    """The store of --store, $ROOFLENS_STORE or the user's data folder, for a command, which may call a tool.

    Raises BadArgument for an address of an unknown kind, and StoreProblem if a command that reads would read a folder
    that does not exist or that holds other files.
    """
    address = explicit or os.environ.get("ROOFLENS_STORE") or ""
    origin = "--store" if explicit else "ROOFLENS_STORE"
    if (scheme := _SCHEME.match(address)) and scheme[1] not in _SCHEMES:
        raise problem("unknown_scheme", address=address, scheme=scheme[1], origin=origin)
    store = Store.locate(explicit)
    verb = BY_NAME.get(command) or BY_TOOL.get(tool or "")
    reads = verb.reads if verb else "reads" in command_facts().get(command, {})
    if address and reads and store.address == str(store.root):
        _check_folder(store.root, origin)
    return store


def _check_folder(root: Path, origin: str) -> None:
    """Raise StoreProblem unless the folder is a store, or an empty folder that may become one."""
    if not root.exists():
        hint = near(root.name, [p.name for p in root.parent.iterdir()] if root.parent.is_dir() else [])
        raise problem("no_store", root=root, why=f"the folder does not exist ({origin}). {hint}".strip())
    if not root.is_dir():
        raise problem("store_is_file", root=root, origin=origin)
    try:
        entries = foreign_entries(root)
    except OSError as error:
        raise problem("unreadable_store", root=root, why=error.strerror or error) from error
    if entries:
        raise problem("foreign_folder", root=root, names=entries[:3], origin=origin)
