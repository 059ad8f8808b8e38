"""What is profiled: a command to start, or a process that is already running."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue import targets
from ...analysis.planning.plan import PassPlan, plan
from ..base.untrusted_text import plain_text
from ..device.machine.sysfs import listing, read
from .command import check_command
from .wording import problem

_PROC = Path("/proc")
_NAME = 60


@dataclass(frozen=True)
class ProfileSubject:
    """A command or a process, with the environment that it runs in."""

    command: tuple[str, ...]
    """Empty for a process."""
    folder: str
    given: Mapping[str, str]
    """Environment variables that the caller sets."""
    pid: int | None = None
    called: str = ""
    """Name of the process."""

    @property
    def title(self) -> str:
        """Return the program's own name."""
        # The file name only, without its path on this machine.
        return os.path.basename(self.command[0]) if self.command else self.called  # noqa: PTH119

    @property
    def line(self) -> str:
        """Return what is profiled in one line, which may still contain secrets."""
        return shlex.join(self.command) if self.command else f"process {self.pid} {shlex.quote(self.called)}"


def subject(
    command: list[str] | None, pid: int | None, cwd: str | None, given: Mapping[str, str], inherited: Mapping[str, str]
) -> ProfileSubject:
    """Return the subject that a call names; raise BadArgument, NotFound or NotAllowed if it cannot be profiled."""
    if pid is None:
        if command is None:
            raise problem("nothing_to_profile")
        return ProfileSubject(tuple(command), check_command(command, cwd, given, inherited), given)
    if stated := [n for n, value in (("command", command), ("cwd", cwd), ("env", given)) if value]:
        raise problem("pid_with_command", stated=" and ".join(stated))
    return ProfileSubject((), "/", {}, pid, _process(pid))


def _process(pid: int) -> str:
    """Return the name of a process that may be attached to; raise NotFound or NotAllowed for others."""
    try:
        owner = (_PROC / str(pid)).stat().st_uid
        name = (_PROC / str(pid) / "comm").read_bytes().decode("utf-8", "replace").strip()
    except OSError as error:
        raise problem("no_process", pid=pid) from error
    if os.geteuid() not in (0, owner):
        raise problem("foreign_process", pid=pid)
    return plain_text(name, _NAME) or "process"


def listens(pid: int) -> bool:
    """Whether a process has the thread through which newer versions of rocprofv3 attach."""
    names = (read(task / "comm") for task in listing(_PROC / str(pid) / "task"))
    return "rocp-bg-attach" in names


TIMELINE = "timeline"
HOTSPOTS = "hotspots"
COUNTER_SAMPLES = "counter_samples"
"""Word for counters that are sampled in time inside kernels, which is planned but never run."""
_USUAL = ("overview", "diagnosis")
"""Enough for an overview and a reliable diagnosis: about 20 replays per launch on Hopper, 3 to 5 runs on Instinct."""


@dataclass(frozen=True)
class ProfileContents:
    """What a profile is to contain."""

    metrics: tuple[str, ...]
    timeline: bool
    hotspots: bool = False
    counter_samples: bool = False
    usual: bool = False
    """Whether nothing was named: then a timeline and hot spots are part of it where the profiler can record them, and a
    target without metrics gets what is possible without them."""

    @property
    def counts(self) -> bool:
        """Whether a profiler must measure launches; otherwise the program runs once, for times only."""
        return bool(self.metrics) or self.hotspots

    def plan(self, target: str, max_passes: int | None) -> PassPlan:
        """Return the passes for the metrics, or none if no metric is wanted: times, timelines and hot spots work on
        targets whose counters are not known. Raises NotFound for metrics of a target without a file."""
        unknown = targets.find_target(target) is None
        uncounted = unknown or self.timeline or self.hotspots or self.counter_samples
        if (uncounted and not self.metrics) or (self.usual and target not in catalog.targets_with_metrics()):
            return PassPlan(target)
        if unknown and targets.vendor_of(target):
            raise problem("no_metrics", target=target, how=catalog.how_to_add(target))
        return plan(target, self.metrics, max_passes=max_passes)


def parse_metrics(metrics: Sequence[str] | None) -> ProfileContents:
    """Split the requested metrics from the words for timelines, hot spots and counter samples; default: ``_USUAL``."""
    words = _USUAL if metrics is None else tuple(metrics)
    stripped = {word.strip() for word in words}
    extras = {word: word in stripped for word in (TIMELINE, HOTSPOTS, COUNTER_SAMPLES)}
    names = tuple(word for word in words if word.strip() not in extras)
    return ProfileContents(names, **extras, usual=metrics is None)


def parse_run_metrics(metrics: Sequence[str] | None) -> ProfileContents:
    """Split requested metrics like parse_metrics; raise BadArgument for counters over time, which are never run."""
    asked = parse_metrics(metrics)
    if asked.counter_samples:
        raise problem("counter_samples_not_run")
    return asked
