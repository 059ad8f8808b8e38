"""The commands that are tools: which words of the command line are which arguments, as data (verbs.toml).

All other arguments follow from the declaration of the tool: `key=value`, or `--key value`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tomli

Kind = Literal["required", "optional", "several", "list", "text", "program"]
_USAGES: dict[Kind, str] = {
    "required": "{}", "optional": "[{}]", "several": "{} ...",
    "list": "[{} ...]", "text": "[{} ...]", "program": "-- {} ...",
}  # fmt: skip


@dataclass(frozen=True)
class Positional:
    """One argument that is given without its name.

    ``optional`` ones get the words that no ``required`` one needs, from the left. The others take all remaining words:
    ``several`` (at least one) or a ``list`` (perhaps none), as one ``text``, or as the ``program`` behind ``--``.
    """

    name: str
    kind: Kind = "required"

    @property
    def usage(self) -> str:
        """Its place in a usage line: WORKLOAD, [KERNEL], METRICS..."""
        return _USAGES[self.kind].format(self.name.upper())


@dataclass(frozen=True)
class Verb:
    """A command that calls one tool."""

    name: str
    tool: str
    help: str
    example: str
    """What follows `rooflens` in an example."""
    words: Mapping[str, Kind] = field(default_factory=dict)
    """The arguments that are given without their names."""
    reads: bool = False
    """Whether it needs a store that exists."""
    table: str = ""
    """The main table of the answer, which --csv prints; empty if the answer has none."""
    options: Sequence[str] = ()
    """The groups of options.toml that it accepts besides the forms of an answer."""

    @property
    def positionals(self) -> tuple[Positional, ...]:
        """The arguments that are given without their names, in order."""
        return tuple(Positional(*one) for one in self.words.items())

    @property
    def usage(self) -> str:
        """The usage line of the command."""
        words = [one.usage for one in self.positionals if one.kind != "program"]
        program = [one.usage for one in self.positionals if one.kind == "program"]
        return " ".join(["rooflens", self.name, *words, "[KEY=VALUE ...]", "[OPTIONS]", *program])


_STATED = tomli.loads(Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8"))
VERBS = tuple(Verb(name, **facts) for name, facts in _STATED.items())
"""The commands in the order of the help; every tool has at least one."""

BY_NAME = {verb.name: verb for verb in VERBS}
BY_TOOL = {verb.tool: verb for verb in reversed(VERBS)}
"""The first verb of each tool. The name of a tool is accepted as a command too."""


def verb_of_call(tool: str, arguments: object) -> Verb:
    """The verb for a call of a tool with these argument names: the first whose required ones are among them."""
    given = set(arguments) if isinstance(arguments, dict) else set()
    fitting = [
        verb
        for verb in VERBS
        if verb.tool == tool and {one.name for one in verb.positionals if one.kind == "required"} <= given
    ]
    return max(fitting, key=lambda verb: len(given & {one.name for one in verb.positionals}), default=BY_TOOL[tool])
