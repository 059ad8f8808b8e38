"""The profilers that rooflens can run, by name and by vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

from pydantic import Field

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadArgument, NotFound, Problem, near
from ....analysis.planning.sampling import Cost
from ...base.parameters import Reference
from ..job import Step
from ..profiler_progress import Read
from ..request import ProfileRequest, Replay
from . import perf, rocprof
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

    def features(self, help_text: str, version_text: str) -> Any:
        """Return what the program supports, according to its own output. Raises MissingTool if it is too old."""
        ...

    def features_of(self, version: str | None) -> Any:
        """Return what a version supports; a common version is assumed if none is given."""
        ...

    def steps(self, request: ProfileRequest, features: Any, *, program: str, out: str) -> list[Step]:
        """Return the steps that collect the passes. Raises BadArgument for a request that is not supported."""
        ...

    def notes(self, request: ProfileRequest, features: Any) -> list[Note]:
        """Return notes on what is skipped from the request, and on how the values are obtained."""
        ...

    def left_out(self, request: ProfileRequest, features: Any) -> dict[str, str]:
        """Map each counter of the request that cannot be counted to the reason."""
        ...

    def explain(self, status: int, stderr: str) -> Problem | None:
        """Explain a known failure, or return None; ``stderr`` is everything it printed, with the beginning of LOG."""
        ...


class SamplingDriver(ProfilerDriver, Protocol):
    """A profiler that can count a sample of the launches, chosen after a timing-only run."""

    RECORDS: bool
    """Whether rooflens itself records the timing run, so that the profiler need not be installed for it."""

    def with_progress(self, step: Step) -> Step:
        """Change a step so that the profiler reports its progress, which may require another program afterwards."""
        ...

    def restore_features(self, stated: Mapping[str, Any]) -> Any:
        """Restore features that were stored as data."""
        ...

    def times(self, request: ProfileRequest, features: Any, *, program: str, out: str) -> Step:
        """Return the step ``timing``, which runs the program without counters. This may compile the recorder."""
        ...

    def cost(self, request: ProfileRequest, took_s: float) -> Cost:
        """Estimate the seconds for counting the passes of a request, given a timing run that took ``took_s``."""
        ...


_SAMPLERS: dict[str, SamplingDriver] = {rocprofv3.NAME: rocprofv3, ncu.NAME: ncu}
_PROFILERS: tuple[ProfilerDriver, ...] = (rocprofv3, rocprof.V2, rocprof.V1, ncu, perf)
"""In order of preference for each vendor."""
_ALL_BUT_ONE, _LAST = ", ".join(("auto", *(p.NAME for p in _PROFILERS[:-1]))), _PROFILERS[-1].NAME
ProfilerName = Annotated[Reference, Field(description=f"{_ALL_BUT_ONE} or {_LAST}")]
"""The argument of tools that names a profiler."""

_PROGRESS_READERS: dict[str, Read] = {ncu.NAME: ncu.progress, rocprofv3.NAME: rocprofv3.progress}
"""Functions that read a profiler's progress from its output or LOG, for those that report any."""


_SAMPLING_LISTS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    rocprofv3.NAME: ("--list-avail", rocprofv3.add_sampling_methods)
}
"""For profilers that list this machine's sampling methods: the option, and how to add its output to the features."""


def listing(name: str) -> tuple[str, Callable[[Any, str], Any]] | None:
    """Return the option that lists a profiler's sampling methods, and what adds its output to the features."""
    return _SAMPLING_LISTS.get(name)


def progress(name: str) -> Read | None:
    """Return the function that reads a profiler's progress; None if it does not report any."""
    return _PROGRESS_READERS.get(name)


def sampler(name: str) -> SamplingDriver | None:
    """Return the profiler if it can count a sample."""
    return _SAMPLERS.get(name)


def profilers() -> dict[str, ProfilerDriver]:
    """Return all profilers by name."""
    return {p.NAME: p for p in _PROFILERS}


def profiler(name: str) -> ProfilerDriver:
    """Return a profiler; raise NotFound with similar names for an unknown one."""
    known = profilers()
    if name not in known:
        raise NotFound(f"rooflens has no profiler {name!r}", near(name, known), f"Known: auto, {', '.join(known)}")
    return known[name]


def for_vendor(vendor: str) -> list[ProfilerDriver]:
    """Return the profilers for one vendor's devices, the preferred one first."""
    return [p for p in _PROFILERS if vendor == p.VENDOR]


def driver_for(name: str, vendor: str) -> ProfilerDriver:
    """Return the named profiler, or for "auto" the preferred one; raise BadArgument if it is for another vendor."""
    fitting = for_vendor(vendor)
    if name == "auto":
        if not fitting:
            raise BadArgument(f"rooflens has no profiler for devices of {vendor!r}", "", "Import profiles instead")
        return fitting[0]
    if (module := profiler(name)) not in fitting:
        raise BadArgument(
            f"{name} does not profile this device", f"its vendor is {vendor}",
            f"Use {' or '.join(p.NAME for p in fitting) or 'another device'}",
        )  # fmt: skip
    return module
