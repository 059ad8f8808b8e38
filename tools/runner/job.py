"""What a supervisor is told to do: steps, limits, devices; all of it data."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from .state import OUT


class CommandStep(pydantic.BaseModel):
    """A program to run: everything it gets, and the folder in which it must leave something."""

    kind: Literal["command"] = "command"
    name: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    files: dict[str, str] = {}
    """Input files to write first: path relative to the job's folder ``out`` -> text."""
    must_write: bool = True
    """Whether nothing in the step's own folder below ``out``, beside the input files, means failure."""


class CallStep(pydantic.BaseModel):
    """A function of ours to call in a child process: ``function(store, tell, **arguments) -> dict``."""

    kind: Literal["call"] = "call"
    name: str
    function: str
    """``module:function``, the module relative to rooflens.tools."""
    arguments: dict[str, Any] = {}


class Limits(pydantic.BaseModel):
    """What a run may use."""

    timeout_s: float
    """Of all steps together, from when the run has its devices."""
    finish_s: float = 900.0
    disk_bytes: int = 64_000_000_000
    """In the run's folder."""
    free_bytes: int = 500_000_000
    """What must stay free on the store's disk."""
    processes: int = 4096
    grace_s: float = 3.0
    """Between SIGTERM and SIGKILL; profilers were seen to hang in their own handler of SIGTERM."""
    linger_s: float = 3.0
    """How long processes that a program leaves behind may take to end by themselves."""


class Job(pydantic.BaseModel):
    """What a supervisor is told on its standard input; it may hold secrets and is written nowhere."""

    run_id: str
    store: str
    env: dict[str, str]
    """Environment of the calls."""
    steps: list[CommandStep | CallStep]
    out: str = OUT
    """Folder of the steps' folders, below the run's; its last part may name the profile."""
    finish: CallStep | None = None
    """Called with what the steps left: ``finished`` (names) and ``stopped`` (words, or None after the last step)."""
    limits: Limits
    locks: str
    """Folder of the machine's locks."""
    devices: dict[str, str] = {}
    """Lock name -> device in words; the run waits until it holds all of them."""
    secrets: list[str] = []
    """Texts that must not appear in logs."""
