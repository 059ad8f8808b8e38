"""The rocprofv3 driver: its command lines, its progress output, and explanations of its failures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pydantic

from .....analysis.base.notes import Note
from .....analysis.planning.sampling import Cost
from ....base.profile_files import HOTSPOTS_STEP
from ....device.machine.profilers import PROGRAMS
from ....profiles.merging.matching import SAMPLE, CountingSample
from ...job import Step
from ...profiler_progress import ProfilerProgress
from ...range_filter import counted_besides, exact_names_pattern, number_ranges
from ...request import (
    ProfileRequest,
    Replay,
    check_limits,
    checked_pattern,
    left_out_notes,
)
from ...wording import note, problem
from . import pc_sampling
from .features import Rocprofv3Features, TranslatedPass, definitions_text, translate_pass
from .features import features as features
from .features import features_of as features_of

TURNS = "pass_0"
"""Name of the step in which all passes take turns."""
NAME = "rocprofv3"
VENDOR = "amd"
REPLAY: Replay = "application"
RECORDS = False
SAMPLES_LINES = False
RANGES = False
LOG: str | None = None
FILE_OPTION: str | None = None
NAMES_DEVICE = True
PROGRAM = PROGRAMS[NAME]
SAMPLING_LIST = "--list-avail"
_FILE_NAME = "%hostname%_%nid%_%pid%_rank%env{RANK}%"
"""Supported by every version; without %pid% the processes of a program would overwrite each other's files. %nid% is the
rank under MPI and SLURM; torchrun sets the variable RANK, which expands to nothing elsewhere."""
_TRACED = ("--kernel-trace", "--marker-trace")
"""Traced in a timing run: kernels, and the ranges (ROCTX) that launched them."""
_SAMPLED_FORMAT = ("json",)
"""The only format in which every version writes samples together with their code objects."""
_LONGEST_ATTACHED_S = 86_400.0
_UNSET = ("ROCPROF_", "ROCPROFILER_PC_SAMPLING_")
"""rocprofv3 reads variables with these prefixes as options and rejects any that contradict the command line."""


def steps(request: ProfileRequest, features: Rocprofv3Features, *, program: str, out: str) -> list[Step]:
    """Return the steps that collect ``request``: ``timing``, ``pass_N`` as numbered in the plan, then ``hotspots``.

    With replay="kernel", one step counts all passes; since every kernel is replayed in place, a counter planned twice
    is counted once. With replay="iteration", the passes take turns between the launches of one step. Counters that
    this version cannot count are skipped (see ``notes``). rocprofv3 attaches to a running process (``pid``) only once:
    for times, or for all counters in turns. Raises BadArgument for a request that this rocprofv3 does not support.
    """
    check_limits(request)
    if request.pid is not None:
        return _attach_steps(request, features, program, out)
    if request.replay == "kernel" and not features.kernel_replay:
        raise problem("rocprofv3_kernel_replay", features=features)
    if request.replay == "iteration" and not features.turns:
        raise problem("no_turns", features=features)
    command_line = _CommandLine(request, features, program, out, _filters(request))
    translations = {n: translate_pass(request, counters, features) for n, counters in enumerate(request.passes, 1)}
    passes = {n: one for n, one in translations.items() if one.names}
    if passes and request.replay == "kernel":
        counting = [command_line.replaying(list(passes.values()))]
    elif passes and request.replay == "iteration":
        counting = [command_line.taking_turns(list(passes.values()))]
    else:
        counting = [command_line.step(f"pass_{n}", [], {"pmc": one.names}, [one]) for n, one in passes.items()]
    lines = [command_line.sampling()] if request.hotspots else []
    return [command_line.step("timing", _tracing_options(request, features)), *counting, *lines]


def add_sampling_methods(features: Rocprofv3Features, text: str) -> Rocprofv3Features:
    """Add the sampling methods that ``rocprofv3 --list-avail`` lists for this machine to the features."""
    return replace(features, sampled=pc_sampling.parse_sampling_methods(text))


def with_progress(step: Step) -> Step:
    """Return the step unchanged: rocprofv3 always prints its progress."""
    return step


def restore_features(stated: Mapping[str, Any]) -> Rocprofv3Features:
    """Restore features that were stored as data."""
    return pydantic.TypeAdapter(Rocprofv3Features).validate_python(stated)


def times(request: ProfileRequest, features: Rocprofv3Features, *, program: str, out: str) -> Step:
    """Return the step ``timing``, which traces kernels, or a full timeline if requested, without counters."""
    return steps(replace(request, passes=(), sample=None, hotspots=False), features, program=program, out=out)[0]


def cost(request: ProfileRequest, took_s: float) -> Cost:
    """Estimate the cost of counting, given a timing run of ``took_s`` seconds: a run per pass, unless they take turns.

    Counted launches are serialised and their counters are read afterwards; half a millisecond per launch is assumed.
    """
    runs = len(request.passes) if request.replay == "application" else min(1, len(request.passes))
    runs += request.hotspots
    return Cost(runs * 1.1 * took_s, runs * 0.0005, "assumed, not measured")


def _attach_steps(request: ProfileRequest, features: Rocprofv3Features, program: str, out: str) -> list[Step]:
    """Return the single step possible for a running process: attaching again cannot change the options."""
    if not features.attaching:
        raise problem("no_attaching", features=features)
    if request.pid is None or request.pid < 1 or not 0 < request.attached_s <= _LONGEST_ATTACHED_S:
        raise problem("bad_pid", request=request)
    command_line = _CommandLine(request, features, program, out, _filters(replace(request, replay="iteration")))
    passes = [one for counters in request.passes if (one := translate_pass(request, counters, features)).names]
    tracing_options = _tracing_options(request, features)
    if request.hotspots:
        if not features.attached_sampling:
            raise problem("no_attached_sampling", version=features.version)
        if passes:
            raise problem("attached_once")
        return [command_line.sampling(tracing_options)]
    return [
        command_line.taking_turns(passes, tracing_options) if passes else command_line.step("timing", tracing_options)
    ]


def _tracing_options(request: ProfileRequest, features: Rocprofv3Features) -> tuple[str, ...]:
    """Return the options that select what the timing run traces."""
    return (*_TRACED, *features.tracing) if request.timeline else _TRACED


def notes(request: ProfileRequest, features: Rocprofv3Features) -> list[Note]:
    """Return notes on what this version skips from the request, and on limits of its output."""
    passes, timeline, pid = request.passes, request.timeline, request.pid
    codes = {
        "serialised": pid is None and (passes or not (timeline or request.hotspots)),
        "attached.serialised": pid is not None and passes,
        "rocprofv3.traced": timeline,
        "driver_events": timeline and "--kfd-trace" in features.tracing,
        "replayed": request.replay == "kernel" and passes,
    }
    attached = "containers.attached" if features.into_containers else "attached"
    lines = pc_sampling.notes(request, features.sampled) if request.hotspots else []
    in_turns = request.replay == "iteration" or (pid is not None and len(passes) > 1)
    turns = [note("turns", groups=_group_count(len(passes)))] if in_turns else []
    return [
        *([note(attached, pid=pid)] if pid is not None else []),
        *(note(code) for code, wanted in codes.items() if wanted),
        *lines,
        *turns,
        *_sample_notes(request),
        *left_out_notes(left_out(request, features)),
    ]


def _sample_notes(request: ProfileRequest) -> list[Note]:
    """Return a note on how a sample is counted: rocprofv3 has one list of launch numbers for all kernels."""
    if request.sample is None:
        return []
    kernels = len(request.sample.kernels)
    if not (_by_iteration(request) and request.sample.iterations):
        return [note("turns.sample" if request.replay == "iteration" else "replays.sample", kernels=kernels)]
    wanted = sum(len(set(numbers)) for numbers in request.sample.iterations.values())
    return [note("sample", kernels=kernels, wanted=wanted, more=counted_besides(request.sample.iterations))]


def _group_count(number: int) -> int:
    """Return how many groups take turns for ``number`` passes: a prime of at least 3; some passes may come twice.

    Programs launch kernels in loops. If the number of groups shares a factor with the length of a loop, each kernel in
    the loop always meets the same groups. With a prime this only happens for loop lengths that are its multiples.
    """
    count = max(number, 3)
    while any(count % factor == 0 for factor in range(2, count)):
        count += 1
    return count if number > 1 else 1


def left_out(request: ProfileRequest, features: Rocprofv3Features) -> dict[str, str]:
    """Map each counter of the request that this version cannot count to the reason."""
    reasons: dict[str, str] = {}
    for counters in request.passes:
        reasons |= translate_pass(request, counters, features).left_out
    return reasons


_PROGRESS = re.compile(r"(?P<loaded>\[rocprofv3\] tool initialization ::)|(?P<writes>Opened result file: )")


def progress(text: str) -> ProfilerProgress | None:
    """Return what the step is doing, based on its output; None if it has not reported anything yet.

    rocprofv3 does not report single kernels: only when it was loaded into a process of the program and, after that
    process has ended, which files it writes.
    """
    matches = list(_PROGRESS.finditer(text))
    if not matches:
        return None
    return ProfilerProgress(
        "", doing="the program is running" if matches[-1]["loaded"] else "the program ended, writing results"
    )


@dataclass(frozen=True)
class _CommandLine:
    """What all steps have in common.

    The job in the input file contains only what to measure: rocprofv3 rejects an option that is set in two places.
    """

    request: ProfileRequest
    features: Rocprofv3Features
    program: str
    out: str
    filters: Mapping[str, str]

    def replaying(self, passes: Sequence[TranslatedPass]) -> Step:
        """Return one step for all passes, in which every kernel is replayed."""
        groups: list[list[str]] = []
        names_seen: set[str] = set()
        for one in passes:
            if group := [n for n in one.names if n not in names_seen]:
                groups.append(group)
                names_seen |= set(group)
        return self.step("pass_1", self.features.kernel_replay, {"pmc_groups": groups}, passes)

    def taking_turns(self, passes: Sequence[TranslatedPass], options: Sequence[str] = ()) -> Step:
        """Return one step in which the passes take turns, one launch each."""
        groups = [passes[n % len(passes)].names for n in range(_group_count(len(passes)))]
        return self.step(TURNS, options, {"pmc_groups": groups, "pmc_group_interval": 1}, passes)

    def sampling(self, tracing: Sequence[str] = ("--kernel-trace",)) -> Step:
        """Return the step that samples program counters and traces the kernels that the samples belong to."""
        return self.step(HOTSPOTS_STEP, (*tracing, *pc_sampling.options(self.request, self.features)))

    def step(
        self,
        name: str,
        options: Sequence[str],
        measured: Mapping[str, object] | None = None,
        passes: Sequence[TranslatedPass] = (),
    ) -> Step:
        """Return a step that starts the program once; ``measured`` is what its job requests besides the filters, for
        the counters of ``passes``."""
        expressions = {n: e for one in passes for n, e in one.expressions.items()}
        counters = tuple(dict.fromkeys(c for one in passes for c in one.counters))
        files = {f"{name}/{SAMPLE}": CountingSample().text()} if measured and self.request.sample else {}
        argv = [self.program]
        if measured:
            files[f"{name}.json"] = json.dumps({"jobs": [{**measured, **self.filters}]}) + "\n"
            argv += ["--input", f"{self.out}/{name}.json"]
        if expressions:
            files[f"{name}.yaml"] = definitions_text(self.request, expressions, self.features)
            argv += ["--extra-counters", f"{self.out}/{name}.yaml"]
        # rocpd contains dynamic LDS; CSV contains the agents, and for versions without rocpd everything. Every step
        # uses the same formats, so that the reader takes all steps from one of them.
        known = self.features.formats
        formats = [f for f in ("csv", "rocpd") if f in known] or known[:1]
        argv += ["--output-directory", f"{self.out}/{name}", "--output-file", _FILE_NAME]
        argv += ["--output-format", *(_SAMPLED_FORMAT if name == HOTSPOTS_STEP else formats), *options]
        if self.features.signal_option:
            argv += ["--disable-signal-handlers", "true"]
        if self.request.pid is None:
            argv += ["--", *self.request.command]
        else:
            argv += ["--attach", str(self.request.pid)]
            argv += ["--attach-duration-msec", str(round(1000 * self.request.attached_s))]
            argv += ["--attach-sync-output", "true"] if self.features.attached_output else []
        return Step(name, tuple(argv), counters, files, unset=_UNSET, lasting=True)


def _filters(request: ProfileRequest) -> dict[str, str]:
    """Return the filters of the request as keys of a job."""
    filters = {}
    sample = request.sample
    if sample is not None and sample.kernels:
        filters["kernel_include_regex"] = exact_names_pattern(sample.kernels)
    elif pattern := checked_pattern(request, NAME):
        filters["kernel_include_regex"] = pattern
    if sample is not None:
        numbers = [number for numbers in sample.iterations.values() for number in numbers]
        if numbers and _by_iteration(request):
            filters["kernel_iteration_range"] = number_ranges(numbers)
    elif (launches := request.launches) and request.replay != "kernel":
        filters["kernel_iteration_range"] = f"[{launches[0]}-{launches[1]}]"
    return filters


def _by_iteration(request: ProfileRequest) -> bool:
    """Whether single launches are selected. Counters that take turns need all launches of a kernel, and kernel replay
    numbers every replay as a launch (pull request 11335 of ROCm/rocm-systems): a selection would split its passes."""
    return request.replay == "application"
