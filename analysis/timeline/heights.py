"""What each height of a program could give it: its kernels, its launches, its copies, and the code of its host.

Every figure is the speed-up of the whole program if this height alone changes, from a replay of its timeline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import inf, prod

import numpy as np

from ..catalogue.thresholds import threshold
from ..workload import Workload
from .host_code import Frame
from .host_findings import HostFindings, callers, say_once, title
from .replay import NO_CHANGE, PAUSES, ProgramChange, Replay
from .rules import HeightName
from .trace import COMPUTE, Trace, Window, has_timeline, usable_events
from .trace_loading import device_work
from .verdict import AdviceGain, ApplicationFinding, speedup

WORTH_COUNTING = threshold("timeline.kernels_worth_counting")
"""The speed-up of the program from which on its kernels are worth counting."""
_REPLAYED = 6
"""How many kernels with the longest total time are replayed one by one."""
MOST_REPLAYED = 200_000
"""With more device work than this, a replay takes too long for a single answer."""
_REPLAYS: Mapping[HeightName, ProgramChange] = {
    "launch": ProgramChange(launched_together=True),
    "host": ProgramChange(launched_together=True, host=frozenset((PAUSES, "module_load", "graph"))),
    # A program that waits less often reads less often, too.
    "synchronisation": ProgramChange(host=frozenset(("synchronisation", "copies"))),
    "allocation": ProgramChange(host=frozenset(("allocation",))),
    "copies": ProgramChange(overlapped=True, host=frozenset(("copies",))),
}


@dataclass(frozen=True)
class Attempt:
    """Something to try, with the gain of the program if it alone is done, and what a replay changes for it."""

    what: str
    """What it is about: a piece of code or a kernel; empty for the whole program."""
    advice: str
    gain: AdviceGain
    expected: ProgramChange = NO_CHANGE
    """What a replay changes for the expected gain; none if no replay shows it."""
    at_most: ProgramChange = NO_CHANGE
    """What it changes for the gain at most."""

    @property
    def weight(self) -> float:
        """The share of the time that it is expected to save; half of what it saves at most if that is unknown."""
        if self.gain.expected is not None:
            return 1 - 1 / self.gain.expected
        return 0.0 if self.gain.upper is None else (1 - 1 / self.gain.upper) / 2


@dataclass(frozen=True)
class Heights:
    """The replays of some windows of a timeline, and what is known about their host and the verdict on them."""

    trace: Trace
    windows: Sequence[Window]
    host: HostFindings | None = None
    findings: Sequence[ApplicationFinding] = ()

    @cached_property
    def _replay(self) -> Replay:
        return self.host.replay if self.host else Replay(self.trace, self.windows, None)

    def speedup(self, change: ProgramChange) -> float | None:
        """Return how many times as fast the program becomes by a change; None if nothing would remain."""
        return speedup(self._saved_pct(change))

    def _saved_pct(self, change: ProgramChange) -> float:
        return 100 * self._replay.saved_ns(change) / max(self._replay.wall_ns(), 1)

    def without(self, height: HeightName) -> ProgramChange | None:
        """Return the program without what the devices wait for at a height; None if no replay shows it."""
        if height == "communication":
            no_kernels = frozenset((number, 0.0) for number in self.trace.communicating)
            return ProgramChange(kernels=no_kernels, host=frozenset(("messages",)))
        return _REPLAYS.get(height)

    def saved_pct(self, height: HeightName) -> float | None:
        """Return the share of the wall time in % that the program saves at most without what the devices wait for at a
        height; None if no replay shows it, or if there is too much work for one."""
        work, change = self.trace.work, self.without(height)
        inside = sum(int(((work.s < w.end) & (work.e > w.start)).sum()) for w in self.windows)
        if change is None or inside > MOST_REPLAYED:
            return None
        return self._saved_pct(change)

    @cached_property
    def kernels(self) -> Mapping[str, tuple[int, float]]:
        """The number of each kernel that does not communicate, and its time within the windows in ns, by its name, the
        longest time first."""
        work = self.trace.work
        computes = work.of((COMPUTE,)) & (work.kernel >= 0)
        ns = sum(np.clip(work.e[computes], *w) - np.clip(work.s[computes], *w) for w in self.windows)
        times = np.bincount(work.kernel[computes], ns)
        names = self.trace.kernel_names(np.flatnonzero(times).tolist())
        kernels = ((name, (number, float(times[number]))) for number, name in names.items())
        return dict(sorted(kernels, key=lambda kernel: -kernel[1][1]))

    def faster_kernels(self, shares: Mapping[str, float]) -> ProgramChange:
        """Return the change that kernels take only a share of their time."""
        return ProgramChange(kernels=frozenset((self.kernels[name][0], share) for name, share in shares.items()))

    @cached_property
    def without_kernels(self) -> float | None:
        """The speed-up of the program if its kernels took no time."""
        return self.speedup(self.faster_kernels(dict.fromkeys(self.kernels, 0.0)))

    @property
    def kernels_matter(self) -> bool:
        """Whether the program could gain enough from its kernels to be worth counting them."""
        return self.without_kernels is None or self.without_kernels >= WORTH_COUNTING

    def kernel_savings(self) -> dict[str, float]:
        """Return the share of the time that the program saves if a kernel took no time, by its name.

        Only the longest kernels are replayed; for the others, it is the same share of their time as for all kernels.
        """
        total = sum(ns for _, ns in self.kernels.values())
        everything = 1 - 1 / (self.without_kernels or inf)
        savings = {name: everything * ns / total for name, (_, ns) in self.kernels.items()}
        for name in list(savings)[:_REPLAYED]:
            savings[name] = 1 - 1 / (self.speedup(self.faster_kernels({name: 0.0})) or inf)
        return savings

    def kernel_attempt(
        self, kernels: Iterable[str], what: str, advice: str, expected: float | None, at_most: float | None
    ) -> Attempt | None:
        """Return the attempt to make kernels faster by the factors ``expected`` and ``at_most``; None if the windows
        contain none of them. Kernels without a known bound take no time at most."""
        here = [kernel for kernel in kernels if kernel in self.kernels]
        if not here:
            return None
        most = self.faster_kernels(dict.fromkeys(here, 1 / (at_most or inf)))
        change = NO_CHANGE if expected is None else self.faster_kernels(dict.fromkeys(here, 1 / expected))
        gain = AdviceGain(self.speedup(most), None if expected is None else self.speedup(change))
        return Attempt(what, advice, gain, change, most)

    def launching_code(self, kernel: str) -> Frame | None:
        """Return the innermost function of the program's own code, or else of a library, that launches most of the time
        of a kernel; for gradients, that of the forward pass. None if it is not known."""
        if self.host is None:
            return None
        work, code = self.trace.work, self.host.code
        mine = np.flatnonzero(work.kernel == self.kernels[kernel][0])
        stacks, forward = code.requesting_stacks(work, mine)
        times = np.bincount(np.where(forward > 0, forward, stacks), work.e[mine] - work.s[mine])
        by_frame: dict[Frame, float] = defaultdict(float)
        for number in np.flatnonzero(times).tolist():
            frames = code.stacks[number]
            for frame in ([frame for frame in frames if frame.own] or frames)[-1:]:
                by_frame[frame] += float(times[number])
        return max(by_frame, key=by_frame.__getitem__, default=None)

    def attempts(self) -> list[Attempt]:
        """Return what to try at the heights around the kernels: code of the host, and what it does not explain."""
        host, attempts = self.host, list[Attempt]()
        for row, _ in host.rows(None) if host else []:
            assert host is not None
            what = title(row) + ("" if row.frame.own and row.frame.file else callers(row))
            attempts.append(Attempt(what, row.kind.advice, host.gain(row), *host.changes(row)))
        for finding in self.findings:
            explained = host is not None and bool(host.rows(finding.height))
            if finding.height == "gpu" or explained or not finding.advice:
                continue
            gain, change = (*finding.gains, AdviceGain())[0], self.without(finding.height)
            advice = finding.advice[0].removesuffix(gain.text)
            if change and (most := self.speedup(change)) is not None:
                upper = most if gain.upper is None else min(most, gain.upper)
                gain = AdviceGain(upper, None if gain.expected is None else min(gain.expected, upper))
            attempts.append(Attempt("", advice, gain, at_most=change or NO_CHANGE))
        return attempts

    def together(self, attempts: Sequence[Attempt]) -> AdviceGain:
        """Return the gain of the program if several attempts succeed."""
        expected = self._joint_gain([one.expected for one in attempts], [one.gain.expected for one in attempts])
        most = self._joint_gain([one.at_most for one in attempts], [one.gain.upper for one in attempts])
        return AdviceGain(expected if most is None or (expected or 0.0) > most else most, expected)

    def _joint_gain(self, changes: Sequence[ProgramChange], alone: Sequence[float | None]) -> float | None:
        """Return the speed-up of all changes: that of their replay, times what each alone gives beyond its own replay,
        because some of that time may be the same."""
        together = self.speedup(reduce(ProgramChange.__or__, changes, NO_CHANGE))
        if together is None or not any(alone):
            return None
        beyond = [
            factor / (self.speedup(change) or inf) for change, factor in zip(changes, alone, strict=True) if factor
        ]
        return together * prod(max(factor, 1.0) for factor in beyond)


def device_span_ns(workload: Workload) -> int | None:
    """Return the time between the first and the last device work in ns; None without a timeline of device work."""
    if not has_timeline(workload):
        return None
    of_device = f"{usable_events(workload)} WHERE kind IN ('kernel', 'copy', 'fill')"
    ((span,),) = workload.rows(f"SELECT max(end_ns) - min(start_ns) FROM {of_device}")
    return span or None


def whole_program(workload: Workload) -> Heights | None:
    """Return the heights of a program from its first to its last device work, without the code of its host; None if
    the workload has no timeline of device work."""
    if not has_timeline(workload):
        return None
    trace = device_work(workload)
    return None if trace is None else Heights(trace, [trace.work_span])


def best_attempts(attempts: Iterable[Attempt], count: int) -> list[Attempt]:
    """Return the attempts that are expected to save most; those without a known gain come last."""
    useful = (one for one in attempts if one.weight > 0 or one.gain == AdviceGain())
    return sorted(useful, key=lambda one: -one.weight)[:count]


def attempt_texts(attempts: Sequence[Attempt]) -> list[str]:
    """Return what to try, each with the gain of the program."""
    texts = say_once([(one.what, one.advice) for one in attempts])
    return [text + one.gain.text for text, one in zip(texts, attempts, strict=True)]
