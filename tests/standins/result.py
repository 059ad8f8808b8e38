"""What a profiled process did, before it is written in one format or another."""

from __future__ import annotations

from dataclasses import dataclass, field

from .launches import Launch


@dataclass(frozen=True)
class Counted:
    """One launch with its times (ns) and, where counted, its counters."""

    number: int
    launch: Launch
    start: int
    end: int
    values: dict[str, float] | None
    correlation: int


@dataclass(frozen=True)
class Range:
    """One range that the program pushed and popped."""

    name: str
    correlation: int
    start: int
    end: int


@dataclass(frozen=True)
class Traced:
    """One call of HIP, or the copy to the device that one made (``bytes`` long)."""

    name: str
    correlation: int
    start: int
    end: int
    bytes: int | None = None


@dataclass(frozen=True)
class Process:
    """One process of a run."""

    pid: int
    ppid: int
    host: str
    command: list[str]
    target: str
    init: int
    fini: int
    prefix: str
    launches: list[Counted]
    environment: dict[str, str]
    tracing: bool
    counters: list[str]
    ranges: list[Range]
    calls: list[Traced] = field(default_factory=list)
    sampling: str = ""
    """Method of PC sampling, where program counters are sampled."""
    copies: list[Traced] = field(default_factory=list)

    @property
    def counted(self) -> list[Counted]:
        return [c for c in self.launches if c.values is not None]

    @property
    def symbols(self) -> list[Launch]:
        """The kernels, one launch of each as an example; ids count from 1 in this order."""
        return list({(c.launch.kernel, c.launch.code_object): c.launch for c in self.launches}.values())

    def symbol_id(self, launched: Launch) -> int:
        return [(s.kernel, s.code_object) for s in self.symbols].index((launched.kernel, launched.code_object)) + 1
