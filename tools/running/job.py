"""The job of a supervisor as plain data: the record of the run, its steps, limits and devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic

from ..device.machine.sensors import Sensor
from ..isolation.child import name_of
from .run_state import Record


@dataclass(frozen=True)
class Step:
    """One process of a run: what to start, which files to write first, and what it measures."""

    name: str
    """Name of the step and of its folder below the output folder, such as ``timing`` or ``pass_1``."""
    argv: tuple[str, ...]
    """The whole argument list, profiler first; paths are below the output folder that the builder was given."""
    counters: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Input files to write before the start: path relative to the output folder -> text."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for this step only."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the step has unless the program's own environment sets them."""
    unset: tuple[str, ...] = ()
    """Prefixes of environment variables that the step must not inherit, such as ``ROCPROF_``."""
    gentle: bool = False
    """Whether to end the profiled program before its profiler, which then writes what it has measured."""
    lasting: bool = False
    """Whether its files are complete if the program ended by itself, with any exit status."""
    durable: bool = False
    """Whether its files are usable wherever they were cut off, because they are only appended to."""
    extra: bool = False
    """Whether the run goes on without its results if it fails by itself, because nobody named what it collects."""
    sampled: bool = False
    """Whether the stacks of the host are sampled meanwhile."""
    then: tuple[str, ...] = ()
    """A program to run afterwards, however the step ended, which converts the profiler's output for rooflens."""
    within_s: float | None = None
    """Time limit in seconds; the step is ended then, and its results are kept."""
    launches: int | None = None
    """Number of launches that it will measure, if known."""
    enough: int | None = None
    """Number of measured launches after which the program is ended, if the rest of it is of no use."""
    estimate_s: float | None = None
    """Estimated duration in seconds, if known."""


class CallStep(pydantic.BaseModel):
    """A rooflens function to call in a child process: ``function(store, progress, **arguments) -> dict``."""

    name: str
    function: str
    """``module:function``."""
    arguments: dict[str, Any] = {}

    @staticmethod
    def of(name: str, function: Callable[..., dict[str, Any]], **arguments: Any) -> CallStep:
        """Create a call of a module-level function; its arguments must be representable as JSON."""
        return CallStep(name=name, function=name_of(function), arguments=arguments)


class RunLimits(pydantic.BaseModel):
    """What a run may use, apart from its time limit."""

    finish_s: float = 900.0
    """Time for saving the results of the steps."""
    disk_bytes: int = 64_000_000_000
    """Maximum size of the run's folder."""
    free_bytes: int = 500_000_000
    """Minimum free space on the store's disk."""
    processes: int = 4096
    grace_s: float = 3.0
    """Time between SIGTERM and SIGKILL; some profilers hang in their own SIGTERM handler."""
    ask_s: float = 5.0
    """How long a profiled program may take to end after SIGTERM before it is killed."""
    write_s: float = 20.0
    """How long its profiler may then take to write its results."""
    linger_s: float = 3.0
    """How long processes that outlive their program may take to end by themselves."""


class Job(pydantic.BaseModel):
    """The job that a supervisor reads from standard input; it may contain secrets and is never written to disk."""

    run: Record
    """The part that is stored."""
    steps: list[Step | CallStep]
    check: Step | None = None
    """A command that runs before the steps; if its exit status is not 0, the run ends without measuring anything."""
    plan: CallStep | None = None
    """Called after the first step with its duration as ``took_s``. Returns further ``steps`` as data, without the
    program's command, ``remarks``, and optionally ``within_s``, the total time for these steps in seconds: steps that
    no longer fit are skipped."""
    program: list[str] = []
    """The program's command, which is appended to the argument lists of planned steps."""
    finish: CallStep | None = None
    """Called after the last step, or after a failed one with the results of the finished steps that the state lists."""
    preparation: str = ""
    """``module:function`` that imports, before the first step, what the calls of this run need while they work."""
    cwd: str = "/"
    variables: dict[str, str] = {}
    """Variables for the programs, in addition to what they inherit."""
    devices: dict[str, str] = {}
    """Lock name -> description of the device; the run waits until it owns all of them."""
    limits: RunLimits = RunLimits()
    sensors: list[Sensor] = []
    """Devices whose clocks are sampled while the programs run."""

    # Set when the run is started.
    store: str = ""
    inherited: dict[str, str] = {}
    """The part of the server's environment that programs and calls inherit."""
    locks: str = ""
    """Folder that contains this user's locks on the machine."""
    secrets: list[str] = []
    """Texts that must not appear in logs."""
