"""What a supervisor is told to do: the record of the run, its steps, limits, devices; all of it data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic

from ..device.machine.sensors import Sensor
from .run_state import Record


@dataclass(frozen=True)
class Step:
    """One process of a run: what to start, what to write before, and what it is to measure."""

    name: str
    """Of the step and of its folder below the output folder, such as ``timing`` or ``pass_1``."""
    argv: tuple[str, ...]
    """The whole argument list, profiler first; paths are below the output folder given to the builder."""
    counters: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Input files to write before: path relative to the output folder -> text."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables to set for this step alone."""
    unset: tuple[str, ...] = ()
    """Prefixes of variables that the step must not inherit, such as ``ROCPROF_``."""
    gentle: bool = False
    """Whether the profiled program is ended first where the step must end: its profiler then writes what it has."""
    lasting: bool = False
    """Whether its files are whole where the program ended by itself, with whatever status."""
    durable: bool = False
    """Whether its files are good wherever it was cut off, as they only grow."""
    then: tuple[str, ...] = ()
    """A program to run after it, however it ended: it makes what the profiler wrote readable for us."""
    within_s: float | None = None
    """How long it may take; it is ended then, and what it left is kept."""
    launches: int | None = None
    """How many launches it will measure, where that is known."""
    estimate_s: float | None = None
    """How long it will take, as far as is known."""


class CallStep(pydantic.BaseModel):
    """A function of ours to call in a child process: ``function(store, progress, **arguments) -> dict``."""

    name: str
    function: str
    """``module:function``."""
    arguments: dict[str, Any] = {}

    @staticmethod
    def of(name: str, function: Callable[..., dict[str, Any]], **arguments: Any) -> CallStep:
        """The call of a function that stands in a module; its arguments must fit into JSON."""
        return CallStep(name=name, function=f"{function.__module__}:{function.__qualname__}", arguments=arguments)


class RunLimits(pydantic.BaseModel):
    """What a run may use, besides its time."""

    finish_s: float = 900.0
    """For saving what the steps left."""
    disk_bytes: int = 64_000_000_000
    """In the run's folder."""
    free_bytes: int = 500_000_000
    """What must stay free on the store's disk."""
    processes: int = 4096
    grace_s: float = 3.0
    """Between SIGTERM and SIGKILL; profilers were seen to hang in their own handler of SIGTERM."""
    ask_s: float = 5.0
    """How long a profiled program that is asked to end may take before it is made to."""
    write_s: float = 20.0
    """How long its profiler may then take to write what it has measured."""
    linger_s: float = 3.0
    """How long processes that a program leaves behind may take to end by themselves."""


class Job(pydantic.BaseModel):
    """What a supervisor is told on its standard input; it may hold secrets and is written nowhere."""

    run: Record
    """The part that is written down."""
    steps: list[Step | CallStep]
    plan: CallStep | None = None
    """Called after the first step with its seconds as ``took_s``. Answers with the further ``steps``, as data and
    without the command, with ``remarks``, and with ``within_s`` where they may take only so many seconds together:
    those that do not fit any more are left out."""
    program: list[str] = []
    """What planned steps run: it follows their argument lists."""
    finish: CallStep | None = None
    """Called after the last step, or with what finished steps left before one failed: the run's state tells which."""
    cwd: str = "/"
    variables: dict[str, str] = {}
    """Set for the programs besides what they inherit."""
    devices: dict[str, str] = {}
    """Lock name -> device in words; the run waits until it holds all of them."""
    limits: RunLimits = RunLimits()
    sensors: list[Sensor] = []
    """Devices whose clocks are sampled while programs run."""

    # Filled in where the run is started.
    store: str = ""
    inherited: dict[str, str] = {}
    """What programs and calls get of the server's environment."""
    locks: str = ""
    """Folder of the machine's locks."""
    secrets: list[str] = []
    """Texts that must not appear in logs."""
