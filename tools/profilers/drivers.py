"""The profilers that rooflens can run, by name and by vendor."""

from __future__ import annotations

from typing import Any, Protocol

from ...analysis.notes import Note
from ...analysis.problems import BadArgument, NotFound, Problem, near
from ..runner.job import Step
from .ncu import run as ncu
from .perf import run as perf
from .request import Replay, Request
from .rocprof import run as rocprof
from .rocprofv3 import run as rocprofv3


class Profiler(Protocol):
    """What a module (or object) with command lines offers; all of it is pure. Features are its own."""

    NAME: str
    VENDOR: str
    REPLAY: Replay
    """How it collects several passes where the caller does not choose."""
    LOG: str | None
    """File in a step's folder that it writes its messages to instead of stderr: ncu, before its table."""

    def features(self, help_text: str, version_text: str) -> Any:
        """What the program can do, from its own texts. Raises MissingTool where it is too old."""
        ...

    def features_of(self, version: str | None) -> Any:
        """What a version can do; the usual one where none is given."""
        ...

    def steps(self, request: Request, features: Any, *, program: str, out: str) -> list[Step]:
        """The steps that collect the passes. Raises BadArgument for a request that it cannot fulfil."""
        ...

    def notes(self, request: Request, features: Any) -> list[Note]:
        """What it leaves out of the request, and how its figures come about."""
        ...

    def left_out(self, request: Request, features: Any) -> dict[str, str]:
        """Counters of the request that it cannot count -> why."""
        ...

    def explain(self, status: int, stderr: str) -> Problem | None:
        """A known failure in words with its fix, or None; ``stderr`` is all that it printed, with the head of LOG."""
        ...


_PROFILERS: tuple[Profiler, ...] = (rocprofv3, rocprof.V2, rocprof.V1, ncu, perf)
"""In the order of preference for each vendor."""


def profilers() -> dict[str, Profiler]:
    """Every profiler by its name."""
    return {p.NAME: p for p in _PROFILERS}


def profiler(name: str) -> Profiler:
    """One profiler; NotFound with near names for an unknown one."""
    known = profilers()
    if name not in known:
        raise NotFound(f"rooflens runs no profiler {name!r}", near(name, known), f"Known: auto, {', '.join(known)}")
    return known[name]


def for_vendor(vendor: str) -> list[Profiler]:
    """The profilers of one vendor's devices, the preferred one first."""
    return [p for p in _PROFILERS if vendor == p.VENDOR]


def chosen(name: str, vendor: str) -> Profiler:
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
