"""`rooflens completion`: the script by which a shell completes this command line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...analysis.store.store import Store
from ..terminal.outcome import Outcome

HELP = "a script that completes subcommands, options, tools and workloads in your shell"
_SHELLS = ("bash", "zsh", "fish")


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "shell",
        choices=_SHELLS,
        help='bash, zsh: eval "$(rooflens completion bash)" in ~/.bashrc, or zsh in ~/.zshrc after compinit; '
        "fish: rooflens completion fish | source, in its config.fish",
    )


def execute(options: Namespace, store: Store) -> Outcome:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    script = shellcode(["rooflens"], shell=options.shell)
    return Outcome({"shell": options.shell, "script": script}, [script.rstrip("\n")], verbatim=True)
