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
    """What a module (or object) with command lines offers; all of it is pure. Features are its own."""

    NAME: str
    VENDOR: str
    REPLAY: Replay
    """How it collects several passes where the caller does not choose."""
    RANGES: bool
    """Whether it can hold counting to a range of the program by its name."""
    LOG: str | None
    """File in a step's folder that it writes its messages to instead of stderr: ncu, before its table."""

    def features(self, help_text: str, version_text: str) -> Any:
        """What the program can do, from its own texts. Raises MissingTool where it is too old."""
        ...

    def features_of(self, version: str | None) -> Any:
        """What a version can do; the usual one where none is given."""
        ...

    def steps(self, request: ProfileRequest, features: Any, *, program: str, out: str) -> list[Step]:
        """The steps that collect the passes. Raises BadArgument for a request that it cannot fulfil."""
        ...

    def notes(self, request: ProfileRequest, features: Any) -> list[Note]:
        """What it leaves out of the request, and how its figures come about."""
        ...

    def left_out(self, request: ProfileRequest, features: Any) -> dict[str, str]:
        """Counters of the request that it cannot count -> why."""
        ...

    def explain(self, status: int, stderr: str) -> Problem | None:
        """A known failure in words with its fix, or None; ``stderr`` is all that it printed, with the head of LOG."""
        ...


class SamplingDriver(ProfilerDriver, Protocol):
    """A profiler that can count a sample of the launches, chosen after a run for times alone."""

    RECORDS: bool
    """Whether its run for times is recorded by ourselves, so that the program itself need not be there for it."""

    def with_progress(self, step: Step) -> Step:
        """A step written so that the profiler tells how far it is, which may take a further program after it."""
        ...

    def restore_features(self, stated: Mapping[str, Any]) -> Any:
        """Features that were written down as data."""
        ...

    def times(self, request: ProfileRequest, features: Any, *, program: str, out: str) -> Step:
        """The step ``timing``, which runs the program without counters. It may compile a recorder."""
        ...

    def cost(self, request: ProfileRequest, took_s: float) -> Cost:
        """The seconds that counting the passes of a request takes, beside a run for times that took ``took_s``."""
        ...


_SAMPLERS: dict[str, SamplingDriver] = {rocprofv3.NAME: rocprofv3, ncu.NAME: ncu}
_PROFILERS: tuple[ProfilerDriver, ...] = (rocprofv3, rocprof.V2, rocprof.V1, ncu, perf)
"""In the order of preference for each vendor."""
_ALL_BUT_ONE, _LAST = ", ".join(("auto", *(p.NAME for p in _PROFILERS[:-1]))), _PROFILERS[-1].NAME
ProfilerName = Annotated[Reference, Field(description=f"{_ALL_BUT_ONE} or {_LAST}")]
"""The argument of tools that names one of them."""

_PROGRESS_READERS: dict[str, Read] = {ncu.NAME: ncu.progress, rocprofv3.NAME: rocprofv3.progress}
"""How those that say it while they work tell how far they are, in what they print or write into LOG."""


_SAMPLING_LISTS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    rocprofv3.NAME: ("--list-avail", rocprofv3.add_sampling_methods)
}
"""What to ask those for that list how this machine can be sampled, and how that goes into their features."""


def listing(name: str) -> tuple[str, Callable[[Any, str], Any]] | None:
    """The option that a profiler lists its ways of sampling with, and what adds its answer to the features."""
    return _SAMPLING_LISTS.get(name)


def progress(name: str) -> Read | None:
    """What reads how far a profiler is; None for one that does not say."""
    return _PROGRESS_READERS.get(name)


def sampler(name: str) -> SamplingDriver | None:
    """The profiler, if it can count a sample."""
    return _SAMPLERS.get(name)


def profilers() -> dict[str, ProfilerDriver]:
    """Every profiler by its name."""
    return {p.NAME: p for p in _PROFILERS}


def profiler(name: str) -> ProfilerDriver:
    """One profiler; NotFound with near names for an unknown one."""
    known = profilers()
    if name not in known:
        raise NotFound(f"rooflens runs no profiler {name!r}", near(name, known), f"Known: auto, {', '.join(known)}")
    return known[name]


def for_vendor(vendor: str) -> list[ProfilerDriver]:
    """The profilers of one vendor's devices, the preferred one first."""
    return [p for p in _PROFILERS if vendor == p.VENDOR]


def driver_for(name: str, vendor: str) -> ProfilerDriver:
    """The profiler called ``name``, or for "auto" the preferred one; BadArgument where it is another vendor's."""
    fitting = for_vendor(vendor)
    if name == "auto":
        if not fitting:
            raise BadArgument(f"rooflens runs no profiler for devices of {vendor!r}", "", "Import profiles instead")
        return fitting[0]
    if (module := profiler(name)) not in fitting:
        raise BadArgument(
            f"{name} does not profile this device", f"it is one of {vendor}",
            f"Use {' or '.join(p.NAME for p in fitting) or 'another device'}",
        )  # fmt: skip
    return module
