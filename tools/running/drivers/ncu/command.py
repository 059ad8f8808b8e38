"""The Nsight Compute driver: one step for all metrics, whose passes ncu schedules itself."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pydantic

from .....analysis.base.kernel_names import short
from .....analysis.base.notes import Note
from .....analysis.base.problems import MissingTool
from .....analysis.catalogue import files
from .....analysis.planning.sampling import Cost, EarlyEnd
from ....base.profile_files import HOTSPOTS_STEP
from ....base.untrusted_text import plain_text
from ....device.machine.profilers import PROGRAMS
from ....profiles.cupti.ranges import LONGEST_NAME
from ....profiles.cupti.records import TIMING
from ....profiles.merging.demangled_names import demangle_name
from ....profiles.merging.matching import SAMPLE, CountingSample
from ...job import Step
from ...profiler_progress import ProfilerProgress
from ...range_filter import RangeFilter, RangePath, exact_names_pattern, range_filter_of_text
from ...request import (
    ProfileRequest,
    Replay,
    checked_pattern,
    left_out_notes,
    refuse_dash,
    refuse_unsupported,
)
from ...wording import note, problem
from ..cupti.build import times as recorded_times

NSYS = "nsys"


def trace_step(command: Sequence[str], out: str, program: str = NSYS) -> Step:
    """Return the step ``timing``, which writes trace.sqlite into its folder below ``out``; that folder must exist.

    OS runtime calls and CPU samples are not recorded, because rooflens does not read them.
    """
    refuse_dash(command, NSYS)
    argv = [program, "profile", "--trace", "cuda,nvtx", "--sample", "none", "--cpuctxsw", "none"]
    argv += ["--force-overwrite", "true", "--export", "sqlite", "--output", f"{out}/{TIMING}/trace"]
    return Step(TIMING, (*argv, *command), gentle=True)


_QUANTIFIER = re.compile(r"[@,\[\]/*+]")


def options(within: RangeFilter, *, whole_process: bool) -> list[str]:
    """Return the arguments that restrict ncu to a range; ``whole_process``: it supports --nvtx-push-pop-scope.

    Raises BadArgument for a name that cannot be written as a filter expression.
    """
    scope = ["--nvtx-push-pop-scope", "process"] if whole_process and within.one_thread else []
    filters = dict.fromkeys(text for chain in within.chains for text in expressions(chain))
    return ["--nvtx", *scope, *(word for text in filters for word in ("--nvtx-include", text))]


def expressions(chain: RangePath) -> list[str]:
    """Return alternative filters: the range was either pushed (marked by a slash after a single name) or started."""
    domain = "" if chain.domain is None else f"{_escape(chain.domain)}@"
    names = [_escape(name) for name in chain.names]
    pushed = "/".join(names) if len(names) > 1 else f"{names[0]}/"
    return [domain + pushed, domain + names[-1]]


def _escape(name: str) -> str:
    """Escape a name so that it contains no quantifiers; raise BadArgument for names that ncu cannot express."""
    inexpressible = files.load(Path(__file__).with_suffix(".toml"))["inexpressible"]
    why = next((why for pattern, why in inexpressible.items() if re.search(pattern, name)), "")
    if not why and ("\0" in name or len(name) >= LONGEST_NAME):
        why = f"the recording keeps {LONGEST_NAME} characters of a name, but the filter needs all"
    if why:
        raise problem("bad_range_name", name=plain_text(name, 80), why=why)
    return _QUANTIFIER.sub(r"\\\g<0>", name)


NAME = "ncu"
VENDOR = "nvidia"
REPLAY: Replay = "kernel"
LOG: str | None = "ncu.log"
FILE_OPTION: str | None = None
NAMES_DEVICE = True
PROGRAM = PROGRAMS[NAME]
RECORDS = True
SAMPLES_LINES = True
RANGES = True
_PAGE = "raw.csv"
_PAGE_OPTIONS = ("--csv", "--page", "raw", "--print-units", "base", "--log-file")
_DURATION = "gpu__time_duration.sum"
_MANGLED = ("--kernel-name-base", "mangled", "--print-kernel-base", "mangled")
"""Kernel names as the recorder writes them."""
_OPTION = re.compile(r"--[a-z][a-z-]+")
_NEEDED = {"--metrics", "--kernel-name", "--kernel-name-base", "--replay-mode", "--print-units", "--log-file"}
_EXACT_OPTION = "--disable-extra-suffixes"
"""Without this option ncu also writes the average, minimum and maximum of every requested sum."""
_SCOPE = "--nvtx-push-pop-scope"
_EXACT_SINCE = (2025, 3)
"""The first version whose help is known to list the option, for versions known only by number."""
_METRIC = re.compile(r"[\w.:]+")
_NVLINK = re.compile(r"nvl[rt]x__")
_OLDEST = (2021, 1)
_PROFILING = re.compile(
    r'==PROF== Profiling "(?P<kernel>[^"\n]*)"(?: - (?P<id>\d{1,9}))?(?: \((?P<nth>\d{1,9})/(?P<of>\d{1,9})\))?:'
    r"(?P<rest>[^\n]{0,200})"
)
"""A launch being measured. Releases before 2022 do not number launches; the total appears only if it is known."""
_PERCENT = re.compile(r"(?:\A ?|\.{4})(\d{1,3})%")
_PASSES = re.compile(r" - (\d{1,6}) pass")
_LAUNCH_S = ((1, 0.01), (12, 0.13), (81, 0.37), (105, 0.44))
"""Number of metrics -> seconds per launch; linear interpolation and extrapolation."""
_SECTIONS = ("SourceCounters", "LaunchStats")
"""Samples and counters of every instruction, and the launch statistics with the registers."""
_START_S, _SLOWER, _INTERCEPTED_S = 2.0, 1.2, 1e-4
"""Seconds until ncu has started the program; how many times as long the program takes; and seconds for each launch that
is intercepted but not measured (80 us in a CUDA program, 75 to 110 us under PyTorch; 180 us if its kernel is named)."""
_LINES_S = 0.5
"""Seconds per launch for counting every instruction, in five passes."""
_COST_BASIS = "as measured on one H200 in a virtual machine"
_GROWING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""JAX and TensorFlow allocate most of the device's memory at the start, as one allocation. For a replay, ncu saves and
restores the allocations that a kernel may write, in the host's memory if the device has no room."""
_LONGEST = 100_000
"""Maximum bytes of one argument; Linux allows 131,072."""


@dataclass(frozen=True)
class NcuFeatures:
    """What is known about an installed ncu."""

    exact: bool = False
    """Whether it can be limited to writing the requested metrics only."""
    whole_process: bool = False
    """Whether a range can be extended to the launches of every thread."""


def features(help_text: str, version_text: str) -> NcuFeatures:
    """Return the features, read from the output of ``--help``; raise MissingTool if it is too old."""
    options = set(_OPTION.findall(help_text))
    if missing := _NEEDED - options:
        raise problem("ncu_lacks_options", missing=", ".join(sorted(missing)))
    return NcuFeatures(_EXACT_OPTION in options, _SCOPE in options)


def features_of(version: str | None) -> NcuFeatures:
    """Return the features of a version that is known only by number, such as 2025.3."""
    if version is None:
        return NcuFeatures()
    parts = re.match(r"(\d{4})\.(\d+)", version)
    if not parts:
        raise problem("bad_ncu_version", version=version)
    number = (int(parts[1]), int(parts[2]))
    if number < _OLDEST:
        raise problem("old_ncu", version=version)
    return NcuFeatures(number >= _EXACT_SINCE)


def steps(request: ProfileRequest, features: NcuFeatures, *, program: str, out: str) -> list[Step]:
    """Return ``pass_1``, which writes raw.csv, and for hot spots ``hotspots``, which writes a report.

    The steps' folders must exist. For a timeline, the step ``timing`` with Nsight Systems comes first, and alone if
    nothing else is requested, because ncu does not record when launches happen.

    ncu writes raw.csv when the program ends, however it ends. If ncu itself is told to end, the file is empty (measured
    with 2025.3), so the program must be ended first.

    Clocks are left unchanged. Caches are flushed before every pass of kernel replay, which is ncu's default: all passes
    then see the same state, whereas a warm cache would contain what restoring the memory left behind. Application
    replay runs the whole program again, so the caches keep the state that the program gives them.
    """
    refuse_unsupported(request, NAME, ("kernel", "application"), ("attach",))
    tracing_steps = [trace_step(request.command, out)] if request.timeline else []
    if tracing_steps and request.launches is not None:
        raise problem("timeline_with_launches")
    replayed = [_hotspots_step(request, features, program, out)] if request.hotspots else []
    if request.passes or not (tracing_steps or replayed):
        replayed.insert(0, _counting_step(request, features, program, out))
    if request.replay == "kernel":
        replayed = [replace(step, defaults=_GROWING) for step in replayed]
    return [*tracing_steps, *replayed]


def _counting_step(request: ProfileRequest, features: NcuFeatures, program: str, out: str) -> Step:
    """Return the step that counts all metrics."""
    left_out_counters = left_out(request, features)
    wanted = (c for counters in request.passes for c in counters if c not in left_out_counters)
    metrics = tuple(dict.fromkeys([_DURATION, *wanted]))
    if bad := [m for m in metrics if not _METRIC.fullmatch(m)]:
        raise problem("bad_ncu_metric", bad=bad[0][:80])
    listed = ",".join(metrics)
    if len(listed) > _LONGEST:
        raise problem("too_many_metrics", metrics=len(metrics))
    argv = [program, "--metrics", listed, *_conditions(request, features)]
    argv += [*_PAGE_OPTIONS, f"{out}/pass_1/{_PAGE}"]
    return Step("pass_1", (*argv, "--", *request.command), metrics, _sample_file(request, "pass_1"), gentle=True)


def _hotspots_step(request: ProfileRequest, features: NcuFeatures, program: str, out: str) -> Step:
    """Return the step that samples and counts every instruction.

    It writes a report because no text page contains code, line tables and sources together. ``--source-folders`` is not
    used: it would search whole folder trees, and the line information of nvcc and Triton contains full paths. The
    sampling interval is left at ncu's default ``auto``; the option is --sampling-interval in old versions and
    --warp-sampling-interval in 2025.3 (seen on an H200).
    """
    argv = [program, *(word for name in _SECTIONS for word in ("--section", name)), "--metrics", _DURATION]
    argv += [*_conditions(request, features), "--import-source", "yes"]
    argv += [
        "--force-overwrite",
        "--export",
        f"{out}/{HOTSPOTS_STEP}/report.ncu-rep",
        "--log-file",
        f"{out}/{HOTSPOTS_STEP}/{LOG}",
    ]
    return Step(HOTSPOTS_STEP, (*argv, "--", *request.command), (), _sample_file(request, HOTSPOTS_STEP), gentle=True)


def _conditions(request: ProfileRequest, features: NcuFeatures) -> list[str]:
    """Return the options for the replay mode and the launches to select.

    After all options comes ``--``, so that no program name is read as an option.
    """
    conditions = [*([_EXACT_OPTION] if features.exact else []), "--replay-mode", request.replay]
    conditions += ["--cache-control", "all" if request.replay == "kernel" else "none", "--clock-control", "none"]
    return [*conditions, "--target-processes", "all", *_filters(request, features)]


def _sample_file(request: ProfileRequest, step: str) -> dict[str, str]:
    """Return the file of a step that states which launches its sample contains."""
    sample = request.sample
    if not (sample and sample.kernels):
        return {}
    return {f"{step}/{SAMPLE}": CountingSample(sample.skip, sample.expected).text()}


def with_progress(step: Step) -> Step:
    """Make the step write a report instead of a page, so that ncu prints its progress; a second call makes the page.

    While ncu prints a page as CSV, it does not report the launches that it measures (seen with 2025.3).
    """
    if "--csv" not in step.argv or "--log-file" not in step.argv:
        return step
    start, end = step.argv.index("--csv"), step.argv.index("--log-file") + 2
    page, raw = step.argv[start:end], step.argv[end - 1]
    folder = raw.rpartition("/")[0]
    # Next to the run's results, where no reader takes it for a second profile.
    report = f"{folder.rpartition('/')[0]}.{step.name}.ncu-rep"
    names = _MANGLED[2:] if _MANGLED[2] in step.argv else ()
    argv = (*step.argv[:start], "--force-overwrite", "--export", report, "--log-file", f"{folder}/{LOG}")
    then = (step.argv[0], "--import", report, *names, *page)
    return replace(step, argv=(*argv, *step.argv[end:]), then=then)


def arguments_for_ranks(own: Sequence[str]) -> list[str]:
    """Return the arguments with ``--export report_HOST_PID``: ncu numbers its reports by rank, but not its CSV log."""
    before = list(own)
    if "--export" in before:
        at = before.index("--export") + 1
        before[at] = f"{before[at].rpartition('/')[0]}/report_%h_%p"
        log = before.index("--log-file")
        return [*before[:log], *before[log + 2 :]]
    start, end = before.index("--csv"), before.index("--log-file") + 2
    folder = before[end - 1].rpartition("/")[0]
    return [*before[:start], "--export", f"{folder}/report_%h_%p", *before[end:]]


def restore_features(stated: Mapping[str, Any]) -> NcuFeatures:
    """Restore features that were stored as data."""
    return pydantic.TypeAdapter(NcuFeatures).validate_python(stated)


def times(request: ProfileRequest, features: NcuFeatures, *, program: str, out: str) -> Step:
    """Return the step ``timing`` for a timing-only run: the program with a recorder that the CUDA driver loads.

    If the recorder cannot be compiled, ncu times every launch, which takes a few milliseconds each. A timeline is then
    recorded with Nsight Systems, unless counters are requested too.
    """
    try:
        return recorded_times(request.command, out, timeline=request.timeline)
    except MissingTool:
        if request.timeline:
            if request.passes or not (nsys_path := shutil.which(NSYS)):
                raise
            return trace_step(request.command, out, nsys_path)
        argv = [program, "--metrics", _DURATION, "--cache-control", "none", "--clock-control", "none"]
        argv += ["--target-processes", "all", *_MANGLED, *_PAGE_OPTIONS, f"{out}/timing/{_PAGE}"]
        return Step("timing", (*argv, "--", *request.command), (_DURATION,), gentle=True)


def cost(request: ProfileRequest, took_s: float) -> Cost:
    """Estimate the cost of counting, given a timing run of ``took_s`` seconds.

    Measured with ncu 2025.3 on an H200 in a virtual machine (_LAUNCH_S); the size of a launch and of the program's
    memory made no difference. The program itself took 1.2 times as long.
    """
    lines_s = _LINES_S if request.hotspots else 0.0
    run_s, early = _START_S + _SLOWER * took_s, EarlyEnd(_START_S, _SLOWER, _INTERCEPTED_S)
    if request.hotspots and not request.passes:
        return Cost(run_s, lines_s, _COST_BASIS, early)
    metrics = len({c for counters in request.passes for c in counters})
    after = next((i for i, (most, _) in enumerate(_LAUNCH_S) if metrics <= most), len(_LAUNCH_S) - 1)
    (fewer, less), (more, longer) = _LAUNCH_S[max(after, 1) - 1], _LAUNCH_S[max(after, 1)]
    launch_s = less + (longer - less) * (max(metrics, 1) - fewer) / (more - fewer)
    return Cost(run_s * (1 + request.hotspots), launch_s + lines_s, _COST_BASIS, None if request.hotspots else early)


def _filters(request: ProfileRequest, features: NcuFeatures) -> list[str]:
    """Return the options that select the launches: those of the sample, or else those that the caller names."""
    within = request.sample.within if request.sample else None
    if within is None and request.range is not None:
        within = range_filter_of_text(request.range)
    range_options = options(within, whole_process=features.whole_process) if within else []
    return range_options + _launches(request)


def _launches(request: ProfileRequest) -> list[str]:
    """Return the filters by kernel and launch number."""
    if sample := request.sample:
        each = ["--launch-skip", str(sample.skip)] * bool(sample.skip) + ["--launch-count", str(sample.launches)]
        names = ["--kernel-name", f"regex:{exact_names_pattern(sample.kernels)}"] if sample.kernels else []
        return ["--filter-mode", "per-launch-config", *each, *_MANGLED, *names]
    argv = []
    if pattern := checked_pattern(request, NAME):
        argv += ["--kernel-name-base", "demangled", "--kernel-name", f"regex:{pattern}"]
    if launches := request.launches:
        argv += ["--launch-skip", str(launches[0] - 1), "--launch-count", str(launches[1] - launches[0] + 1)]
    return argv


def notes(request: ProfileRequest, features: NcuFeatures) -> list[Note]:
    """Return notes on what is skipped from the request, and on how the values are obtained."""
    extra = ["ncu.traced"] * request.timeline + ["ncu.hotspots"] * request.hotspots
    if request.timeline and not (request.passes or request.hotspots):
        return list(map(note, extra))
    replayed = ["application_replay", "ncu.serialised"] if request.replay == "application" else ["kernel_replay"]
    within = ["range" if features.whole_process else "unscoped.range"] if request.range is not None else []
    return [*map(note, [*replayed, *extra, *within]), *left_out_notes(left_out(request, features))]


def left_out(request: ProfileRequest, features: NcuFeatures) -> dict[str, str]:
    """Exclude NVLink counters that come with others: if ncu sees no NVLink, it fails on them and measures nothing."""
    asked = dict.fromkeys(c for counters in request.passes for c in counters)
    links = [c for c in asked if _NVLINK.match(c)]
    if len(links) == len(asked):
        return {}
    why = "without a visible NVLink ncu would fail on it and lose the rest; request NVLink metrics separately"
    return dict.fromkeys(links, why)


def progress(text: str) -> ProfilerProgress | None:
    """Return the progress in the last line of ``text`` that reports a launch; program output may follow on it."""
    lines = list(_PROFILING.finditer(text))
    if not lines:
        return None
    last = lines[-1]
    passes = _PASSES.search(last["rest"])
    percent = _PERCENT.findall(last["rest"])
    number = last["nth"] or str(int(last["id"]) + 1 if last["id"] else len(lines))
    return ProfilerProgress(
        short(demangle_name(last["kernel"])),
        launch=int(number),
        launches=int(last["of"]) if last["of"] else None,
        passes=int(passes[1]) if passes else None,
        share=min(1.0, int(percent[-1]) / 100) if percent else None,
    )
