"""What is asked of a profiler: a request, its filters, limits and channels; and its steps on many ranks.

A pass is one set of counters, a step one process of a run, a run the whole job; replay is how passes repeat launches.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...analysis.base.notes import Note
from ...analysis.base.problems import BadArgument
from ...analysis.base.text import count_text
from ...analysis.catalogue import targets
from ...analysis.catalogue.counter_names import EVERY_INSTANCE, block_of, events_of, level_of
from ...analysis.catalogue.targets import products
from .job import Step
from .range_filter import RangeFilter

Replay = Literal["application", "kernel", "iteration"]


@dataclass(frozen=True)
class LaunchSample:
    """The launches that stand for all: some of every launch configuration of the kernels that matter.

    Which they are is known from a run for times only, whose launches these are (see sampling.py).
    """

    kernels: tuple[str, ...]
    """Names as the profiler states them in its trace, whole."""
    skip: int
    """Launches of each configuration to let pass first."""
    launches: int
    """Launches of each configuration to count."""
    iterations: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Kernel -> which of its launches those are, from 1, as the profiler numbers them (``dispatches.iteration``): for
    profilers that know no configurations."""
    within: RangeFilter | None = None
    """The range that they are of, for profilers that can be held to one by its name."""
    expected: tuple[int, ...] = ()
    """Their numbers in the run for times (dispatch_id), in order, where they are those of a range."""


@dataclass(frozen=True)
class ProfileRequest:
    """What to profile, independent of the profiler and of the machine."""

    command: tuple[str, ...]
    """Argument list of the program; never a shell line."""
    passes: tuple[tuple[str, ...], ...] = ()
    """Counters of each pass, as the target spells them; empty where only times are wanted."""
    kernel: str | None = None
    """Regular expression on the kernel name; only these kernels are counted."""
    launches: tuple[int, int] | None = None
    """First and last launch to count, from 1: of each matching kernel (AMD), of all matching launches (NVIDIA)."""
    replay: Replay = "application"
    repeats: int = 1
    """Steps of a profiler of processors, which has no launches to repeat."""
    target: str = ""
    """GPU target such as gfx942, whose counter names and limits hold for ``passes``; empty where not known."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """Known facts of the device, under the catalogue's names: counters per L2 channel need num_xcd, total_l2_chan."""
    sample: LaunchSample | None = None
    """Count these launches only; None counts all that ``kernel`` and ``launches`` let pass."""
    range: str | None = None
    """A range that the program named; the sample is taken of the launches within it."""
    pid: int | None = None
    """Process that runs already, to attach to instead of starting ``command``."""
    attached_s: float = 10.0
    """How long to stay attached to it."""
    timeline: bool = False
    """Whether the run for times also traces what host and devices do: calls, copies, allocations, ranges."""
    hotspots: bool = False
    """Whether a step of its own samples which instructions launches spend their time in."""
    busy_s: float | None = None
    """Time of all kernels in the run for times, where that is known: what samples are taken of."""


_PYTHON_ONLY = re.compile(r"\(\?(?!:|=|!)|\\[AZzpPNg]|\*\+|\+\+|\?\+")
_PARTS = re.compile(r"\w+(\|\w+)*")
_LONGEST = 1000


def checked_pattern(request: ProfileRequest, profiler: str) -> str | None:
    """The regular expression on kernel names, which Python and the C++ library of the profilers read alike.

    Raises BadArgument for what is no such expression: the profiler would abort in the middle of the program.
    """
    pattern = request.kernel
    if pattern is None:
        return None
    if not pattern or len(pattern) > _LONGEST or not pattern.isprintable():
        raise BadArgument(
            f"kernel={pattern[:80]!r} cannot be used",
            f"it must be visible text of 1 to {_LONGEST} characters",
            "Leave kernel out to count every kernel",
        )
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadArgument(f"kernel={pattern[:80]!r} is no regular expression", str(error)) from error
    if foreign := _PYTHON_ONLY.search(pattern):
        raise BadArgument(
            f"{profiler} does not understand {foreign[0]!r} in kernel={pattern[:80]!r}",
            "it reads regular expressions as ECMAScript does",
            "Write it without inline flags, named groups, look-behind and possessive repeats",
        )
    return pattern


def name_parts(request: ProfileRequest, profiler: str) -> list[str]:
    """The parts of kernel names that old rocprof filters by; BadArgument where the expression is more than that."""
    pattern = checked_pattern(request, profiler)
    if pattern is None:
        return []
    if not _PARTS.fullmatch(pattern):
        raise BadArgument(
            f"{profiler} cannot filter by kernel={pattern[:80]!r}",
            "it knows parts of names only, no regular expressions",
            "Give one word or words joined by |, or leave kernel out and select kernels after the import",
        )
    return pattern.split("|")


def launch_range(given: int | list[int] | None) -> tuple[int, int] | None:
    """The first and last launch to count, from 1, where they are given and not a number of launches.

    Raises BadArgument where they are no range.
    """
    if given is None or isinstance(given, int):
        return None
    if len(given) != 2 or not 1 <= given[0] <= given[1] < 2**31:
        raise BadArgument(
            f"launches={given} is no range",
            "launches count from 1, and the last is not before the first",
            "Give [first, last], such as [2, 4]",
        )
    return given[0], given[1]


def refuse(request: ProfileRequest, profiler: str, *fields: str) -> None:
    """BadArgument where the request states one of ``fields``, which this profiler has nothing for."""
    if stated := [name for name in fields if getattr(request, name) is not None]:
        raise BadArgument(
            f"{profiler} cannot restrict a profile by {' and '.join(stated)}",
            "it has no such option",
            f"Leave {' and '.join(stated)} out and select after the import",
        )


def refuse_attaching(
    request: ProfileRequest, profiler: str, why: str, fix: str = "Give the command to start instead"
) -> None:
    """BadArgument where the request names a running process, which this profiler (version) cannot attach to."""
    if request.pid is not None:
        raise BadArgument(f"{profiler} cannot attach to a running process", why, fix)


def refuse_tracing(request: ProfileRequest, profiler: str, why: str, fix: str) -> None:
    """BadArgument where the request wants a timeline, which this profiler does not record."""
    if request.timeline:
        raise BadArgument(f"{profiler} records no timeline here", why, fix)


def refuse_hotspots(request: ProfileRequest, profiler: str, why: str, fix: str) -> None:
    """BadArgument where the request wants hot spots, which this profiler has no samples for."""
    if request.hotspots:
        raise BadArgument(f"{profiler} takes no samples of instructions", why, fix)


def refuse_replay(request: ProfileRequest, profiler: str, *known: Replay) -> None:
    """BadArgument where passes are to repeat in another way than those that this profiler knows."""
    if request.replay not in known:
        raise BadArgument(
            f"{profiler} cannot {_REPLAYS[request.replay]}", f"it has {' and '.join(known)} only", "Leave replay out"
        )


_REPLAYS: dict[Replay, str] = {
    "application": "run the whole program once for each pass",
    "kernel": "replay single kernels",
    "iteration": "let groups of counters take turns between launches",
}

SERIALISED = Note(
    "serialised",
    "Counters are collected one kernel at a time: durations are those of the run 'timing', which has none.",
)


def left_out_notes(left: dict[str, str]) -> list[Note]:
    """Counters that are left out, told once for each reason."""
    return [
        Note("left_out", f"Left out: {', '.join(c for c, r in left.items() if r == reason)}: {reason}.")
        for reason in dict.fromkeys(left.values())
    ]


def check_limits(request: ProfileRequest) -> None:
    """BadArgument where a pass holds more counters of a block than that has registers.

    A set over capacity makes older profilers abort or hang inside the first kernel, so it never gets that far.
    """
    limits = targets.gpu(request.target).counter_limits if request.target and request.passes else {}
    for number, counters in enumerate(request.passes, 1):
        over = {b: n for b, n in block_use(counters).items() if limits and n > limits.get(b, 0)}
        if over:
            block, used = next(iter(over.items()))
            raise BadArgument(
                f"Pass {number} takes {count_text(used, 'counter')} of block {block}",
                f"{request.target} has {count_text(limits.get(block, 0), 'register')} for them",
                "Split it; plan_profile packs counters into passes that fit",
            )
        if limits and sum(1 for c in counters if level_of(c)) > 1:
            raise BadArgument(
                f"Pass {number} integrates more than one level counter", "the hardware has one accumulator", "Split it"
            )


def block_use(counters: tuple[str, ...]) -> dict[str, int]:
    """The registers that the counters of one pass take, by block, in the order of the blocks' names."""
    events = dict.fromkeys(e for c in counters for e in events_of(c))
    return dict(sorted(Counter(block_of(e) or "" for e in events).items()))


def channels(request: ProfileRequest) -> tuple[int, int] | None:
    """XCDs and L2 channels of one XCD: of the device, else those that all products of the target share.

    None where neither is known: MI300A and MI300X are one target with different numbers of XCDs.
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
        # Partitions have fewer XCDs than the product, but each with the product's channels.
        each = {total / xcds for xcds, total in shared}
        return (int(known["num_xcd"]), int(each.pop())) if len(each) == 1 else None
    return _split(*shared.pop()) if len(shared) == 1 else None


def per_channel(counter: str) -> str | None:
    """The event of a counter asked for on every channel, such as TCC_HIT of ``TCC_HIT[*]``, or None."""
    return counter.removesuffix(EVERY_INSTANCE) if counter.endswith(EVERY_INSTANCE) else None


def _split(xcds: float, total: float) -> tuple[int, int] | None:
    return (int(xcds), int(total) // int(xcds)) if xcds >= 1 and total >= xcds else None


_LAUNCHERS = {  # launcher -> its words, and the variable that holds the rank
    "slurm": ("srun --ntasks=RANKS", "SLURM_PROCID"),
    "openmpi": ("mpirun -n RANKS", "OMPI_COMM_WORLD_RANK"),
    "mpich": ("mpirun -n RANKS", "PMI_RANK"),
    "torchrun": ("torchrun --nproc-per-node=RANKS --no-python", "RANK"),
}
_FILE_OPTIONS = {"rocprof": "-o", "perf": "-o"}
"""Of the profilers that write one file under a fixed name, which the ranks would overwrite."""


def launcher_lines(profiler: str, step: Step, command: tuple[str, ...]) -> dict[str, str]:
    """Launcher -> one shell line that runs ``step`` on every rank; RANKS stands for their number.

    rocprofv3 and rocprofv2 put host, rank or process into the names of their files. ncu does so for reports, not for
    its log, so it writes a report; where a profiler does neither, a shell on every rank puts the rank in.
    """
    env = ["env", *(f"{name}={value}" for name, value in step.env.items())] if step.env else []
    option = _FILE_OPTIONS.get(profiler)
    if option is None:
        argv = [*env, *(_with_report(step.argv, len(command)) if profiler == "ncu" else step.argv)]
        return {name: f"{words} {shlex.join(argv)}" for name, (words, _) in _LAUNCHERS.items()}
    lines = {}
    own = [*env, *step.argv[: len(step.argv) - len(command)]]
    at = own.index(option) + 1
    stem, _, suffix = own[at].rpartition(".")
    for name, (words, variable) in _LAUNCHERS.items():
        inner = [shlex.quote(a) for a in own]
        inner[at] = f'{shlex.quote(stem)}_"${variable}".{suffix}'
        line = f'exec {" ".join(inner)} "$@"'
        lines[name] = f"{words} sh -c {shlex.quote(line)} sh {shlex.join(command)}"
    return lines


def _with_report(argv: tuple[str, ...], length: int) -> list[str]:
    """ncu's arguments with ``--export report_HOST_PID`` in place of the CSV log."""
    own, command = list(argv[: len(argv) - length]), argv[len(argv) - length :]
    if "--export" in own:
        at = own.index("--export") + 1
        own[at] = f"{own[at].rpartition('/')[0]}/report_%h_%p"
        log = own.index("--log-file")
        return [*own[:log], *own[log + 2 :], *command]
    start, end = own.index("--csv"), own.index("--log-file") + 2
    folder = own[end - 1].rpartition("/")[0]
    return [*own[:start], "--export", f"{folder}/report_%h_%p", *own[end:], *command]
