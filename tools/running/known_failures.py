"""Known failures of profilers and programs, recognised in their output, and known defects of profiler versions, which
are named before anything runs (known_failures.toml)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...analysis.base.problems import (
    BadArgument,
    BadInput,
    LimitExceeded,
    MissingTool,
    NotAllowed,
    NotFound,
    Problem,
    StoreProblem,
    join_sentences,
)
from ...analysis.catalogue import files
from ..base.untrusted_text import plain_text
from ..device.machine.model import InstalledProfiler

if TYPE_CHECKING:
    from ..device.machine.survey import Machine

PROGRAM = "program"
"""Used in place of a profiler name for failures of the profiled program."""
KINDS = {
    kind.__name__: kind
    for kind in (BadArgument, BadInput, LimitExceeded, MissingTool, NotAllowed, NotFound, StoreProblem, Problem)
}
"""The problems that data can name."""
_MOST_CHARACTERS = 200_000
"""Maximum characters of output to search, from the end, where the fatal message is."""


def explain_failure(profiler: str, status: int, text: str, facts: Mapping[str, str] = {}) -> Problem | None:
    """Return the first known failure in the output of a profiler (or PROGRAM); None if nothing failed or it is unknown.

    The texts may use the names in ``facts`` and the named groups of the pattern.
    """
    end = text[-_MOST_CHARACTERS:]
    for failure in _file()["failure"]:
        # After a silent failure, the profiler still ends with status 0.
        if profiler not in failure["profilers"] or (status == 0 and not failure.get("silent")):
            continue
        if hit := re.search(failure["pattern"], end, re.MULTILINE):
            texts = {k: plain_text(v or "", 160) for k, v in {**facts, **hit.groupdict()}.items()}
            stated = (failure[part].format(profiler=profiler, **texts) for part in ("what", "why", "fix"))
            return KINDS[failure["kind"]](*stated)
    return None


Collects = Literal["counters", "hotspots", "timeline", "thread_trace", "attach"]
"""What a run may collect besides times."""
EVERYTHING: frozenset[Collects] = frozenset({"counters", "hotspots", "timeline", "thread_trace", "attach"})


@dataclass(frozen=True)
class VersionDefect:
    """A defect of some versions of a profiler, the conditions on which it shows, and what to do about it."""

    code: str
    profilers: frozenset[str]
    what: str
    mended: str
    """The release without the defect; empty if none is known."""
    instead: str
    source: str
    setting: str = ""
    """The host setting that decides it on a machine whose settings are known."""
    since: tuple[int, ...] = ()
    before: tuple[int, ...] | None = None
    gpu: str = ""
    command: str = ""
    collects: frozenset[str] = frozenset()

    def concerns(self, version: tuple[int, ...]) -> bool:
        """Whether a version has the defect; an unknown one, (), only if all versions have it."""
        if not version:
            return not self.since and self.before is None
        return self.since <= version and (self.before is None or version < self.before)

    @property
    def mending(self) -> str:
        """The sentence on the release without the defect."""
        return f"Mended in {self.mended}" if self.mended else "No release is known in which this is mended"

    def text(self, profiler: str, version: str | None) -> str:
        """Return the sentences for a reader: what happens, in which release it is mended, what to do until then."""
        name = f"{profiler} {version}" if version else profiler
        return join_sentences(f"{name}: {self.what}", f"{self.mending} ({self.source})", self.instead)


def version_defects(
    profiler: str, version: str | None, *, targets: Iterable[str] = (), command: str | None = None,
    collects: frozenset[Collects] = EVERYTHING,
) -> list[VersionDefect]:  # fmt: skip
    """Return the known defects of a profiler's version that can show in a run.

    ``targets`` are the GPUs, ``command`` the command line of the program. Without a command, defects that only some
    programs meet are included.
    """
    number = version_numbers(version or "")
    gpus = list(targets)
    return [
        defect
        for defect in _defects()
        if profiler in defect.profilers and defect.concerns(number)
        and (not defect.gpu or any(re.fullmatch(defect.gpu, gpu) for gpu in gpus))
        and (command is None or not defect.command or re.search(defect.command, command, re.IGNORECASE))
        and (not defect.collects or defect.collects & collects)
    ]  # fmt: skip


def defects_here(machine: Machine) -> list[tuple[InstalledProfiler, VersionDefect]]:
    """Return the known defects of the profilers of a machine that can show on its GPUs, with the profiler."""
    targets = [gpu.arch for gpu in machine.gpus if gpu.arch]
    decided = {setting.code for setting in machine.settings}
    torch = InstalledProfiler(name="torch", vendor="amd", version=machine.torch_hip)
    installed = [p for p in machine.profilers if p.path and any(gpu.vendor == p.vendor for gpu in machine.gpus)]
    return [
        (profiler, defect)
        for profiler in (*installed, torch)
        for defect in version_defects(profiler.name, profiler.version, targets=targets)
        if defect.setting not in decided
    ]


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, zeros for those that it does not state; () for an unknown one."""
    parts = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in parts.groups()) if parts else ()


@cache
def _defects() -> tuple[VersionDefect, ...]:
    """Return every defect."""
    read: dict[str, Callable[[Any], Any]] = {
        "since": version_numbers,
        "before": version_numbers,
        "profilers": frozenset,
        "collects": frozenset,
    }
    return tuple(
        VersionDefect(**{name: read.get(name, str)(value) for name, value in entry.items()})
        for entry in _file()["defect"]
    )


@cache
def messages(profiler: str) -> re.Pattern[str] | None:
    """Return the pattern that the profiler's own lines in the program's output begin with; None if there is none."""
    known = _file()["messages"].get(profiler)
    return re.compile(known) if known else None


@cache
def _file() -> dict[str, Any]:
    return files.load(Path(__file__).with_suffix(".toml"))
