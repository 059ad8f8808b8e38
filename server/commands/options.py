"""The commands that are no tools, and the options that several commands share, as data: options.toml."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import cache
from pathlib import Path
from typing import Any

import tomli


@cache
def command_facts() -> dict[str, Any]:
    """The table of every command, and of every group of options."""
    return tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def declare(parser: ArgumentParser, name: str) -> None:
    """Define the arguments of a command, or the options of a group."""
    for words, facts in command_facts()[name].get("arguments", {}).items():
        if facts:
            parser.add_argument(*words.split(), **facts | ({"type": int} if "type" in facts else {}))
        else:
            declare(parser, words)
