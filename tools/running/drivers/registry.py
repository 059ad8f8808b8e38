"""The profilers that rooflens can run, by name and by vendor.

Drivers from other packages, and our own driver of perf stat, are entry points (analysis/base/extensions.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import Field

from ....analysis.base.extensions import DRIVERS, extensions
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, near
from ....analysis.planning.sampling import Cost
from ...base.parameters import Reference
from ...device.machine.profilers import ProfilerProgram
from ..job import Step
from ..profiler_progress import Read
from ..request import ProfileRequest, Replay
from ..wording import problem
from . import rocprof
from .ncu import command as ncu
from .rocprofv3 import command as rocprofv3


class ProfilerDriver(Protocol):
    """What a driver module (or object) provides, all of it pure functions. Each driver has its own type of features."""

    NAME: str
    VENDOR: str
    REPLAY: Replay
    """How several passes are collected if the caller does not choose."""
    RANGES: bool
    """Whether counting can be restricted to a named range of the program."""
    LOG: str | None
    """File in a step's folder that the profiler writes its messages to instead of stderr: ncu, before its table."""
    FILE_OPTION: str | None
    """Option that names its only result file, which the ranks of a program would overwrite; None if the profiler names
    its files after hosts and processes itself."""
    NAMES_DEVICE: bool
    """Whether its files name the device; otherwise it must be given to the import."""
    PROGRAM: ProfilerProgram
    """How its program is found on a machine."""

    def features(self, help_text: str, version_text: str) -> Any:
        """Return what the program supports, according to its own output. Raises MissingTool if it is too old."""

    def features_of(self, version: str | None) -> Any:
        """Return what a version supports; a common version is assumed if none is given."""

    def steps(self, request: ProfileRequest, features: Any, *, program: str, out: str) -> list[Step]:
        """Return the steps that collect the passes. Raises BadArgument for a request that is not supported."""

    def notes(self, request: ProfileRequest, features: Any) -> list[Note]:
        """Return notes on what is skipped from the request, and on how the values are obtained."""

    def left_out(self, request: ProfileRequest, features: Any) -> dict[str, str]:
        """Map each counter of the request that cannot be counted to the reason."""


@runtime_checkable
class SamplingDriver(ProfilerDriver, Protocol):
    """A profiler that can count a sample of the launches, chosen after a timing-only run."""

    RECORDS: bool
    """Whether rooflens itself records the timing run, so that the profiler need not be installed for it."""
    SAMPLES_LINES: bool
    """Whether it may take samples of instructions without being asked to. rocprofv3 may not, because AMD warns that its
    sampling can freeze a GPU."""
    progress: Read
    """Reads the progress from its output or LOG."""

    def with_progress(self, step: Step) -> Step:
        """Change a step so that the profiler reports its progress, which may require another program afterwards."""

    def restore_features(self, stated: Mapping[str, Any]) -> Any:
        """Restore features that were stored as data."""

    def times(self, request: ProfileRequest, features: Any, *, program: str, out: str) -> Step:
        """Return the step ``timing``, which runs the program without counters. This may compile the recorder."""

    def cost(self, request: ProfileRequest, took_s: float) -> Cost:
        """Estimate the seconds for counting the passes of a request, given a timing run that took ``took_s``."""


@runtime_checkable
class RankedDriver(Protocol):
    """A profiler that needs other options on the ranks of a parallel program, where file names must differ."""

    def arguments_for_ranks(self, own: Sequence[str]) -> list[str]:
        """Return its own arguments, without the program's command, as the ranks need them."""


@runtime_checkable
class ListingDriver(Protocol):
    """A profiler whose ways of sampling instructions depend on the machine, and which lists them."""

    SAMPLING_LIST: str
    """The option that lists them."""

    def add_sampling_methods(self, features: Any, text: str) -> Any:
        """Add the methods in the output of SAMPLING_LIST to the features."""


_OWN: list[ProfilerDriver] = [rocprofv3, rocprof.V2, rocprof.V1, ncu]
"""In order of preference for each vendor; those of extensions follow."""
ProfilerName = Annotated[Reference, Field(description=f"{', '.join(('auto', *(p.NAME for p in _OWN)))} or perf")]
"""The argument of tools that names a profiler."""


def sampler(name: str) -> SamplingDriver | None:
    """Return the profiler if it can count a sample."""
    driver = profiler(name)
    return driver if isinstance(driver, SamplingDriver) else None


@cache
def profilers() -> dict[str, ProfilerDriver]:
    """Return all profilers by name: ours, then those of extensions; `rooflens doctor` reports any that cannot load."""
    known = {own.NAME: own for own in _OWN}
    for extension in extensions(DRIVERS):
        with suppress(BadInput):
            driver = extension.load()
            known.setdefault(driver.NAME, driver)
    return known


def profiler(name: str) -> ProfilerDriver:
    """Return a profiler; raise NotFound with similar names for an unknown one."""
    known = profilers()
    if name not in known:
        raise problem("no_profiler", name=name, near=near(name, known), known=", ".join(known))
    return known[name]


def for_vendor(vendor: str) -> list[ProfilerDriver]:
    """Return the profilers for one vendor's devices, the preferred one first."""
    return [p for p in profilers().values() if vendor == p.VENDOR]


def driver_for(name: str, vendor: str) -> ProfilerDriver:
    """Return the named profiler, or for "auto" the preferred one; raise BadArgument if it is for another vendor."""
    fitting = for_vendor(vendor)
    if name == "auto":
        if not fitting:
            raise problem("no_profiler_for_vendor", vendor=vendor)
        return fitting[0]
    if (module := profiler(name)) not in fitting:
        others = " or ".join(p.NAME for p in fitting) or "another device"
        raise problem("other_vendor", name=name, vendor=vendor, others=others)
    return module


_LAUNCHERS = {  # launcher -> its command, and the variable with the rank
    "slurm": ("srun --ntasks=RANKS", "SLURM_PROCID"),
    "openmpi": ("mpirun -n RANKS", "OMPI_COMM_WORLD_RANK"),
    "mpich": ("mpirun -n RANKS", "PMI_RANK"),
    "torchrun": ("torchrun --nproc-per-node=RANKS --no-python", "RANK"),
}


def launcher_lines(driver: ProfilerDriver, step: Step, command: tuple[str, ...]) -> dict[str, str]:
    """Map each launcher to a shell line that runs ``step`` on every rank; RANKS stands for the number of ranks.

    If the profiler writes one file with a fixed name, a shell on every rank adds the rank to it.
    """
    env = ["env", *(f"{name}={value}" for name, value in step.env.items())] if step.env else []
    arguments = step.argv[: len(step.argv) - len(command)]
    option = driver.FILE_OPTION
    if option is None:
        changed = driver.arguments_for_ranks(arguments) if isinstance(driver, RankedDriver) else arguments
        argv = [*env, *changed, *command]
        return {name: f"{words} {shlex.join(argv)}" for name, (words, _) in _LAUNCHERS.items()}
    lines = {}
    own = [*env, *arguments]
    at = own.index(option) + 1
    stem, _, suffix = own[at].rpartition(".")
    for name, (words, variable) in _LAUNCHERS.items():
        inner = [shlex.quote(a) for a in own]
        inner[at] = f'{shlex.quote(stem)}_"${variable}".{suffix}'
        line = f'exec {" ".join(inner)} "$@"'
        lines[name] = f"{words} sh -c {shlex.quote(line)} sh {shlex.join(command)}"
    return lines
