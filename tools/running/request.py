"""What a profiler is asked to do: a request with its filters and limits.

A pass is one set of counters, a step is one process of a run, a run is the whole job; replay is how passes repeat work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...analysis.base.notes import Note
from ...analysis.catalogue import targets
from ...analysis.catalogue.counter_names import EVERY_INSTANCE, block_of, events_of, level_of
from ...analysis.catalogue.targets import products
from .known_failures import Collects
from .range_filter import RangeFilter
from .wording import note, problem

Replay = Literal["application", "kernel", "iteration"]


@dataclass(frozen=True)
class LaunchSample:
    """A representative sample: some launches of every launch configuration of the important kernels.

    It is chosen from the launches of a timing run (see ``counting``).
    """

    kernels: tuple[str, ...]
    """Complete names as the profiler writes them in its trace."""
    skip: int
    """Number of launches of each configuration to skip first."""
    launches: int
    """Number of launches of each configuration to count."""
    iterations: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Kernel -> launch numbers to count, from 1, as the profiler numbers them (``dispatches.iteration``); for profilers
    that cannot select by configuration."""
    within: RangeFilter | None = None
    """The range to restrict counting to, for profilers that can select a range by name."""
    expected: tuple[int, ...] = ()
    """Their ordered numbers (dispatch_id) in the timing run, if they belong to a range."""


@dataclass(frozen=True)
class ProfileRequest:
    """What to profile, independent of the profiler and the machine."""

    command: tuple[str, ...] = ()
    """Argument list of the program; never a shell line. Empty where it must not be stored."""
    passes: tuple[tuple[str, ...], ...] = ()
    """Counters of each pass, under the target's names; empty if only times are wanted."""
    kernel: str | None = None
    """Regular expression for kernel names; only matching kernels are counted."""
    launches: tuple[int, int] | None = None
    """First and last launch to count, from 1: of each matching kernel (AMD), or of all matching launches (NVIDIA)."""
    replay: Replay = "application"
    repeats: int = 1
    """Number of repeated steps for a CPU profiler, which has no launches to repeat."""
    target: str = ""
    """GPU target such as gfx942, whose counter names and limits apply to ``passes``; empty if not known."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """Known facts of the device, with the catalogue's names: counters per L2 channel need num_xcd, total_l2_chan."""
    sample: LaunchSample | None = None
    """Count only these launches; None counts everything that ``kernel`` and ``launches`` select."""
    range: str | None = None
    """Name of a range in the program; only launches inside it are sampled."""
    pid: int | None = None
    """A running process to attach to instead of starting ``command``."""
    attached_s: float = 10.0
    """How many seconds to stay attached to it."""
    timeline: bool = False
    """Whether the timing run also traces host and device activity: calls, copies, allocations, ranges."""
    hotspots: bool = False
    """Whether a separate step samples the instructions in which launches spend their time."""
    busy_s: float | None = None
    """Total kernel time of the timing run, if known; the sampling interval depends on it."""


_PYTHON_ONLY = re.compile(r"\(\?(?!:|=|!)|\\[AZzpPNg]|\*\+|\+\+|\?\+")
_PARTS = re.compile(r"\w+(\|\w+)*")
_COUNTER = re.compile(r"[A-Za-z]\w*(\[(\*|\d+)\])?", re.ASCII)
_LONGEST = 1000


def collects_of(request: ProfileRequest) -> frozenset[Collects]:
    """Return what a request collects besides times."""
    asked: dict[Collects, object] = {
        "counters": request.passes,
        "hotspots": request.hotspots,
        "timeline": request.timeline,
        "attach": request.pid is not None,
    }
    return frozenset(what for what, wanted in asked.items() if wanted)


def checked_pattern(request: ProfileRequest, profiler: str) -> str | None:
    """Return the regular expression for kernel names, which Python and the profilers' C++ library read alike.

    Raises BadArgument if it is not valid: the profiler would otherwise abort in the middle of the program.
    """
    pattern = request.kernel
    if pattern is None:
        return None
    if not pattern or len(pattern) > _LONGEST or not pattern.isprintable():
        raise problem("unusable_pattern", pattern=pattern[:80], longest=_LONGEST)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise problem("bad_pattern", pattern=pattern[:80], error=str(error)) from error
    if foreign := _PYTHON_ONLY.search(pattern):
        raise problem("foreign_pattern", profiler=profiler, foreign=foreign[0], pattern=pattern[:80])
    return pattern


def name_parts(request: ProfileRequest, profiler: str) -> list[str]:
    """Return the name parts that the old rocprof filters by; raise BadArgument for any other expression."""
    pattern = checked_pattern(request, profiler)
    if pattern is None:
        return []
    if not _PARTS.fullmatch(pattern):
        raise problem("pattern_not_parts", profiler=profiler, pattern=pattern[:80])
    return pattern.split("|")


def launch_range(given: int | list[int] | None) -> tuple[int, int] | None:
    """Return the first and last launch to count, from 1; None if nothing or a number of launches is given.

    Raises BadArgument if they are not a valid range.
    """
    if given is None or isinstance(given, int):
        return None
    if len(given) != 2 or not 1 <= given[0] <= given[1] < 2**31:
        raise problem("bad_launches", given=given)
    return given[0], given[1]


def refuse_unsupported(
    request: ProfileRequest,
    profiler: str,
    replays: Sequence[Replay],
    lacking: Sequence[Collects],
    filters: Sequence[str] = (),
) -> None:
    """Raise BadArgument if the request needs a replay mode that is not one of ``replays``, collects something that this
    profiler is ``lacking``, or has one of the ``filters`` that it does not support."""
    if stated := " and ".join(name for name in filters if getattr(request, name) is not None):
        raise problem("no_such_filter", profiler=profiler, stated=stated)
    if request.replay not in replays:
        raise problem(f"no_{request.replay}_replay", profiler=profiler, known=" and ".join(replays))
    for what in lacking:
        if what in collects_of(request):
            raise problem(f"{profiler}_{what}")


def refuse_dash(command: Sequence[str], profiler: str) -> None:
    """Raise BadArgument if the program begins with a dash; for profilers without ``--`` before the program.

    Steps that are planned later have no command yet; the one that the run started with was checked.
    """
    if command and command[0].startswith("-"):
        raise problem("command_like_option", profiler=profiler, command=command[0][:80])


SERIALISED = note("serialised")


def left_out_notes(left: dict[str, str]) -> list[Note]:
    """Return one note per reason for the counters that are skipped."""
    return [
        note("left_out", counters=[c for c, r in left.items() if r == reason], reason=reason)
        for reason in dict.fromkeys(left.values())
    ]


def check_limits(request: ProfileRequest) -> None:
    """Raise BadArgument if a pass contains more counters of a hardware block than the block has registers.

    Also raised for a name with separators, which could add a line or an option to an input file.
    Too many counters make older profilers abort or hang inside the first kernel, so such a pass is never started.
    """
    for counter in (c for counters in request.passes for c in counters):
        if not _COUNTER.fullmatch(counter):
            raise problem("bad_counter", counter=counter[:80])
    limits = targets.gpu(request.target).counter_limits if request.target and request.passes else {}
    for number, counters in enumerate(request.passes, 1):
        over = {b: n for b, n in block_use(counters).items() if limits and n > limits.get(b, 0)}
        if over:
            block, used = next(iter(over.items()))
            raise problem(
                "pass_takes_block", number=number, used=used, block=block, request=request, limits=limits.get(block, 0)
            )
        if limits and sum(1 for c in counters if level_of(c)) > 1:
            raise problem("several_level_counters", number=number)


def block_use(counters: tuple[str, ...]) -> dict[str, int]:
    """Return the number of registers that the counters of one pass use, by block, sorted by block name."""
    events = dict.fromkeys(e for c in counters for e in events_of(c))
    return dict(sorted(Counter(block_of(e) or "" for e in events).items()))


def channels(request: ProfileRequest) -> tuple[int, int] | None:
    """Return the numbers of XCDs and of L2 channels per XCD: of the device, or common to all products of the target.

    None if neither is known: MI300A and MI300X have the same target but different numbers of XCDs.
    """
    known = request.facts
    if "num_xcd" in known and "total_l2_chan" in known:
        return _split(known["num_xcd"], known["total_l2_chan"])
    shared = {
        (p.facts["num_xcd"].value, p.facts["total_l2_chan"].value)
        for p in products().values()
        if p.target == request.target and {"num_xcd", "total_l2_chan"} <= p.facts.keys()
    }
    if "num_xcd" in known:
        # A partition has fewer XCDs than the product, but each has the same number of channels.
        each = {total / xcds for xcds, total in shared}
        return (int(known["num_xcd"]), int(each.pop())) if len(each) == 1 else None
    return _split(*shared.pop()) if len(shared) == 1 else None


def per_channel(counter: str) -> str | None:
    """Return the event of a counter requested for every channel, such as TCC_HIT for ``TCC_HIT[*]``, else None."""
    return counter.removesuffix(EVERY_INSTANCE) if counter.endswith(EVERY_INSTANCE) else None


def _split(xcds: float, total: float) -> tuple[int, int] | None:
    return (int(xcds), int(total) // int(xcds)) if xcds >= 1 and total >= xcds else None
