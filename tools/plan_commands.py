"""The runs of a plan as a person or a script starts them by hand: arguments, shell lines, folders and input files."""

from __future__ import annotations

import shlex

import pydantic

from .collectors.steps import Step
from .results import Table, table

OUT = "rooflens_run"
"""The folder that the commands write to, below the one they are run in."""
_LONG = 1000


class Command(pydantic.BaseModel):
    """One run of the program."""

    step: str
    argv: list[str]
    shell: str | None
    """The same as one line for a shell; None in a summary where it is long."""
    files: list[str]
    """Input files to write before."""
    env: dict[str, str]


def input_files(steps: list[Step], *, texts: bool) -> Table:
    """Every input file with its size and, if wanted, its text; short ones first."""
    found = sorted(((f"{OUT}/{n}", text) for s in steps for n, text in s.files.items()), key=lambda f: len(f[1]))
    # A table, so that the server can cut it: definitions of every channel of an MI350 take 80 kB a pass.
    columns = {"file": None, "characters": None, "text": None}
    return table(columns, [[name, len(text), text if texts else None] for name, text in found])


def by_hand(step: Step, full: bool) -> Command:
    """One step of a plan as a command."""
    env = [f"{k}={shlex.quote(v)}" for k, v in step.env.items()]
    shell = " ".join([*(["env", *env] if env else []), shlex.join(step.argv)])
    return Command(
        step=step.name,
        argv=list(step.argv),
        shell=shell if full or len(shell) <= _LONG else None,
        files=[f"{OUT}/{name}" for name in step.files],
        env=dict(step.env),
    )


def preparation(steps: list[Step]) -> str:
    """What to do once in bash before the commands: folders for the results, and no variables that disturb."""
    folders = " ".join(f"{OUT}/{step.name}" for step in steps)
    prefixes = dict.fromkeys(p for step in steps for p in step.unset)
    return f"mkdir -p {folders}" + (f"; unset {' '.join(f'${{!{p}@}}' for p in prefixes)}" if prefixes else "")
