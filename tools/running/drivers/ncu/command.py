"""Command lines of Nsight Compute: one step for all metrics, whose passes ncu schedules itself."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pydantic

from .....analysis.base.kernel_names import short
from .....analysis.base.notes import Note
from .....analysis.base.problems import BadArgument, MissingTool, Problem
from .....analysis.base.text import count_text
from .....analysis.planning.sampling import Cost
from ....base.profile_files import HOTSPOTS_STEP
from ....base.untrusted_text import plain_text
from ....profiles.cupti.ranges import LONGEST_NAME
from ....profiles.cupti.records import TIMING
from ....profiles.merging.demangled_names import demangle_name
from ....profiles.merging.matching import SAMPLE, CountingSample
from ...job import Step
from ...known_failures import explain_failure
from ...profiler_progress import ProfilerProgress
from ...range_filter import RangeFilter, RangePath, exact_names_pattern, range_filter_of_text
from ...request import ProfileRequest, Replay, checked_pattern, left_out_notes, refuse_attaching, refuse_replay
from ..cupti.build import times as recorded_times

NSYS = "nsys"


def trace_step(command: Sequence[str], out: str, program: str = NSYS) -> Step:
    """The step ``timing``, which leaves trace.sqlite in its folder below ``out``; that folder must exist.

    Calls of the operating system and samples of the processor are left out: nothing of them is read.
    """
    argv = [program, "profile", "--trace", "cuda,nvtx", "--sample", "none", "--cpuctxsw", "none"]
    argv += ["--force-overwrite", "true", "--export", "sqlite", "--output", f"{out}/{TIMING}/trace"]
    return Step(TIMING, (*argv, *command), gentle=True)


_QUANTIFIER = re.compile(r"[@,\[\]/*+]")
_OTHER = "Rename the range, or leave range out and select after the profile (dispatches.range_id)"


def options(within: RangeFilter, *, whole_process: bool) -> list[str]:
    """The arguments that hold ncu to a range; ``whole_process`` says whether it knows --nvtx-push-pop-scope.

    BadArgument for a name that its expressions cannot hold.
    """
    scope = ["--nvtx-push-pop-scope", "process"] if whole_process and within.one_thread else []
    filters = dict.fromkeys(text for chain in within.chains for text in expressions(chain))
    return ["--nvtx", *scope, *(word for text in filters for word in ("--nvtx-include", text))]


def expressions(chain: RangePath) -> list[str]:
    """A launch matches if it does any: the range pushed (a slash behind a single name tells that), or started."""
    domain = "" if chain.domain is None else f"{_escape(chain.domain)}@"
    names = [_escape(name) for name in chain.names]
    pushed = "/".join(names) if len(names) > 1 else f"{names[0]}/"
    return [domain + pushed, domain + names[-1]]


def _escape(name: str) -> str:
    """A name in which nothing is a quantifier; BadArgument for those that ncu cannot be told."""
    if why := _why_not_expressible(name):
        raise BadArgument(f"ncu cannot be held to the range {plain_text(name, 80)!r}", why, _OTHER)
    return _QUANTIFIER.sub(lambda found: "\\" + found[0], name)


def _why_not_expressible(name: str) -> str:
    if not name:
        return "a range without a name cannot be filtered by"
    if "\\" in name:
        return "a backslash in a name cannot be told from one that quotes"
    if name.startswith("@"):
        return "an @ at its beginning would end the name of a domain"
    if name.startswith("regex:"):
        return "what begins with regex: is read as a regular expression"
    if name.startswith("-"):
        return "what begins with a dash is read as an option"
    if "\0" in name or len(name) >= LONGEST_NAME:
        return f"the recording keeps {LONGEST_NAME} characters of a name, and its filter needs all"
    return ""


NAME = "ncu"
VENDOR = "nvidia"
REPLAY: Replay = "kernel"
LOG: str | None = "ncu.log"
RECORDS = True
RANGES = True
_PAGE = "raw.csv"
_DURATION = "gpu__time_duration.sum"
_MANGLED = ("--kernel-name-base", "mangled", "--print-kernel-base", "mangled")
"""Names as the recorder states them."""
_OPTION = re.compile(r"--[a-z][a-z-]+")
_VERSION = re.compile(r"Version (\d{4})\.(\d+)")
_NEEDED = {"--metrics", "--kernel-name", "--kernel-name-base", "--replay-mode", "--print-units", "--log-file"}
_EXACT_OPTION = "--disable-extra-suffixes"
"""Without it ncu writes the average, the least and the greatest of every sum that it is asked for too."""
_SCOPE = "--nvtx-push-pop-scope"
_EXACT_SINCE = (2025, 3)
"""Of a version known by number alone: the first whose help is known to name it."""
_METRIC = re.compile(r"[\w.:]+")
_NVLINK = re.compile(r"nvl[rt]x__")
_OLDEST = (2021, 1)
_PROFILING = re.compile(
    r'==PROF== Profiling "(?P<kernel>[^"\n]*)"(?: - (?P<id>\d{1,9}))?(?: \((?P<nth>\d{1,9})/(?P<of>\d{1,9})\))?:'
    r"(?P<rest>[^\n]{0,200})"
)
"""A launch that is being measured; releases before 2022 do not number them, and the total stands where it is known."""
_PERCENT = re.compile(r"(?:\A ?|\.{4})(\d{1,3})%")
_PASSES = re.compile(r" - (\d{1,6}) pass")
_NO_ATTACHING = (
    "ncu --mode=attach reaches only programs that were started with ncu --mode=launch, which holds them at their first "
    "CUDA call and leaves out their child processes, such as the engines of vLLM and SGLang"
)
_ATTACH_ADVICE = (
    "Start it anew: profile_command(command=[a script that starts it and sends requests], budget_s=120) counts, "
    "metrics=[] records times and ranges alone at next to no cost; at the end of budget_s it is ended, and what was "
    "measured by then is kept. Or profile a script that runs the same model without a server"
)
_LAUNCH_S = ((1, 0.01), (12, 0.13), (81, 0.37), (105, 0.44))
"""Metrics -> seconds for each launch; between and behind these as they go on."""
_TRACED = Note(
    "traced",
    "The timeline holds calls of runtime and driver, copies, fills, kernels and NVTX ranges: recorded by our own "
    "library under profile_command, by Nsight Systems (nsys) elsewhere. Every call takes longer while it is recorded.",
)
_SECTIONS = ("SourceCounters", "LaunchStats")
"""Samples and counters of every instruction, and the launch with its registers."""
_LINES_S = 0.5
"""Seconds for each launch of which every instruction is counted, in five passes."""
_COST_BASIS = "as measured on one H200 in a virtual machine"
_LINES = Note(
    "hotspots",
    "Hot spots take a run of their own: ncu replays each counted launch for the section SourceCounters, once to sample "
    "its warps at an interval that it chooses by the launch's length, else to count every instruction in patched code. "
    "Source files that the line information names come with them: their text is kept in the workload (source_lines).",
)
_LONGEST = 100_000
"""Of one argument; Linux takes 131,072 bytes."""


@dataclass(frozen=True)
class NcuFeatures:
    """What is known of one ncu."""

    version: tuple[int, int] | None = None
    exact: bool = False
    """Whether it can be told to write no more than it is asked for."""
    whole_process: bool = False
    """Whether it can be told that a range holds launches of every thread."""


def features(help_text: str, version_text: str) -> NcuFeatures:
    """The features that the texts of ``--help`` and ``--version`` state; MissingTool where it is too old."""
    if missing := _NEEDED - set(_OPTION.findall(help_text)):
        raise MissingTool(
            "This ncu is too old to be driven",
            f"its help does not name {', '.join(sorted(missing))}",
            "Install Nsight Compute 2021.1 or later",
        )
    version_match = _VERSION.search(version_text)
    options = set(_OPTION.findall(help_text))
    version = (int(version_match[1]), int(version_match[2])) if version_match else None
    return NcuFeatures(version, _EXACT_OPTION in options, _SCOPE in options)


def features_of(version: str | None) -> NcuFeatures:
    """The features of a version known by number alone, such as 2025.3."""
    if version is None:
        return NcuFeatures()
    parts = re.match(r"(\d{4})\.(\d+)", version)
    if not parts:
        raise BadArgument(f"{version!r} is no version of ncu", "", "Give it as 2025.3, or leave it out")
    number = (int(parts[1]), int(parts[2]))
    if number < _OLDEST:
        raise MissingTool(f"ncu {version} is too old to be driven", "", "Install Nsight Compute 2021.1 or later")
    return NcuFeatures(number, number >= _EXACT_SINCE)


def steps(request: ProfileRequest, features: NcuFeatures, *, program: str, out: str) -> list[Step]:
    """``pass_1``, which leaves raw.csv in its folder, and for hot spots ``hotspots``, which leaves a report there; the
    folders must exist. For a timeline Nsight Systems comes first, as the step ``timing``, and alone where nothing else
    is wanted; ncu says nothing of when.

    Its page is written when the program ends, however it ends; told to end itself, ncu leaves an empty one (measured
    with 2025.3), so that the program is to be ended first.

    Clocks are left as they are. Caches are emptied before every pass of a kernel replay, ncu's default: passes then
    see the same state, where a warm cache would hold what restoring the memory left. An application replay runs the
    program anew, so the caches stay as the program has them.
    """
    refuse_replay(request, NAME, "kernel", "application")
    refuse_attaching(request, NAME, _NO_ATTACHING, _ATTACH_ADVICE)
    tracing_steps = [trace_step(request.command, out)] if request.timeline else []
    if tracing_steps and request.launches is not None:
        raise BadArgument(
            "A timeline goes with counters of a sample, not of launches by their number",
            "ncu numbers what it counts, which the timeline does not know",
            "Leave timeline or launches out, or give launches as one number: so many of each launch configuration",
        )
    lines = [_hotspots_step(request, features, program, out)] if request.hotspots else []
    if not request.passes and (tracing_steps or lines):
        return [*tracing_steps, *lines]
    return [*tracing_steps, _counting_step(request, features, program, out), *lines]


def _counting_step(request: ProfileRequest, features: NcuFeatures, program: str, out: str) -> Step:
    """The step that counts all metrics."""
    left_out_counters = left_out(request, features)
    wanted = (c for counters in request.passes for c in counters if c not in left_out_counters)
    metrics = tuple(dict.fromkeys([_DURATION, *wanted]))
    if bad := [m for m in metrics if not _METRIC.fullmatch(m)]:
        raise BadArgument(
            f"{bad[0][:80]!r} is no metric of ncu", "its names have letters, digits, dots and underscores"
        )
    listed = ",".join(metrics)
    if len(listed) > _LONGEST:
        raise BadArgument(
            f"{count_text(len(metrics), 'metric does', 'metrics do')} not fit into one command line",
            "",
            "Ask for fewer metrics",
        )
    argv = [program, "--metrics", listed, *_conditions(request, features)]
    argv += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", f"{out}/pass_1/{_PAGE}"]
    return Step(
        "pass_1", (*argv, *_after_options(request.command)), metrics, _sample_file(request, "pass_1"), gentle=True
    )


def _hotspots_step(request: ProfileRequest, features: NcuFeatures, program: str, out: str) -> Step:
    """The step that samples and counts every instruction. Its report holds code, line tables and sources, which no text
    page has together. ``--source-folders`` is left out: it would search a folder with all that is below it, and line
    information of nvcc and Triton has whole paths. How often to sample is left to ncu, whose default is ``auto``: the
    option is --sampling-interval in old versions, --warp-sampling-interval in 2025.3 (seen on an H200)."""
    argv = [program, *(word for name in _SECTIONS for word in ("--section", name)), "--metrics", _DURATION]
    argv += [*_conditions(request, features), "--import-source", "yes"]
    argv += [
        "--force-overwrite",
        "--export",
        f"{out}/{HOTSPOTS_STEP}/report.ncu-rep",
        "--log-file",
        f"{out}/{HOTSPOTS_STEP}/{LOG}",
    ]
    return Step(
        HOTSPOTS_STEP, (*argv, *_after_options(request.command)), (), _sample_file(request, HOTSPOTS_STEP), gentle=True
    )


def _conditions(request: ProfileRequest, features: NcuFeatures) -> list[str]:
    """How launches are replayed, and which."""
    conditions = [*([_EXACT_OPTION] if features.exact else []), "--replay-mode", request.replay]
    conditions += ["--cache-control", "all" if request.replay == "kernel" else "none", "--clock-control", "none"]
    return [*conditions, "--target-processes", "all", *_filters(request, features)]


def _sample_file(request: ProfileRequest, step: str) -> dict[str, str]:
    """The file of a step that says which launches its sample holds."""
    sample = request.sample
    if not (sample and sample.kernels):
        return {}
    return {f"{step}/{SAMPLE}": CountingSample(sample.skip, sample.expected).text()}


def with_progress(step: Step) -> Step:
    """The step with a report instead of a page, which lets ncu tell its progress, and the page made of that.

    ncu that prints a page as CSV is silent about the launches that it measures (seen with 2025.3).
    """
    if "--csv" not in step.argv or "--log-file" not in step.argv:
        return step
    start, end = step.argv.index("--csv"), step.argv.index("--log-file") + 2
    page, raw = step.argv[start:end], step.argv[end - 1]
    folder = raw.rpartition("/")[0]
    # Beside the run's results, where no reader takes it for a second profile.
    report = f"{folder.rpartition('/')[0]}.{step.name}.ncu-rep"
    names = _MANGLED[2:] if _MANGLED[2] in step.argv else ()
    argv = (*step.argv[:start], "--force-overwrite", "--export", report, "--log-file", f"{folder}/{LOG}")
    then = (step.argv[0], "--import", report, *names, *page)
    return replace(step, argv=(*argv, *step.argv[end:]), then=then)


def restore_features(stated: Mapping[str, Any]) -> NcuFeatures:
    """Features that were written down as data."""
    return pydantic.TypeAdapter(NcuFeatures).validate_python(stated)


def times(request: ProfileRequest, features: NcuFeatures, *, program: str, out: str) -> Step:
    """The step ``timing``, a run for times alone: the program with a recorder that the CUDA driver loads.

    Where that cannot be compiled, ncu times every launch, which takes some milliseconds for each; a timeline is then
    left to Nsight Systems, unless counters are wanted with it.
    """
    try:
        return recorded_times(request.command, out, timeline=request.timeline)
    except MissingTool:
        if request.timeline:
            if request.passes or not (nsys_path := shutil.which(NSYS)):
                raise
            return trace_step(request.command, out, nsys_path)
        argv = [program, "--metrics", _DURATION, "--cache-control", "none", "--clock-control", "none"]
        argv += ["--target-processes", "all", *_MANGLED, "--csv", "--page", "raw", "--print-units", "base"]
        argv += ["--log-file", f"{out}/timing/{_PAGE}"]
        return Step("timing", (*argv, *_after_options(request.command)), (_DURATION,), gentle=True)


def cost(request: ProfileRequest, took_s: float) -> Cost:
    """What counting takes beside a run for times of ``took_s`` seconds.

    Measured with ncu 2025.3 on an H200 in a virtual machine (_LAUNCH_S), whatever the size of a launch and the memory
    of the program; the program itself ran 1.2 times as long.
    """
    lines_s = _LINES_S if request.hotspots else 0.0
    run_s = 2.0 + 1.2 * took_s
    if request.hotspots and not request.passes:
        return Cost(run_s, lines_s, _COST_BASIS)
    metrics = len({c for counters in request.passes for c in counters})
    after = next((i for i, (most, _) in enumerate(_LAUNCH_S) if metrics <= most), len(_LAUNCH_S) - 1)
    (fewer, less), (more, longer) = _LAUNCH_S[max(after, 1) - 1], _LAUNCH_S[max(after, 1)]
    launch_s = less + (longer - less) * (max(metrics, 1) - fewer) / (more - fewer)
    return Cost(run_s * (1 + request.hotspots), launch_s + lines_s, _COST_BASIS)


def _filters(request: ProfileRequest, features: NcuFeatures) -> list[str]:
    """The launches to count: those of a sample, else those that the caller names."""
    within = request.sample.within if request.sample else None
    if within is None and request.range is not None:
        within = range_filter_of_text(request.range)
    range_options = options(within, whole_process=features.whole_process) if within else []
    return range_options + _launches(request)


def _launches(request: ProfileRequest) -> list[str]:
    """The filters by kernel and number."""
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
    """What is left out of the request, and how the figures come about."""
    extra_notes = [*([_TRACED] if request.timeline else []), *([_LINES] if request.hotspots else [])]
    if request.timeline and not (request.passes or request.hotspots):
        return extra_notes
    left = [*extra_notes, *_range_notes(request, features), *left_out_notes(left_out(request, features))]
    if request.replay == "application":
        return [
            Note(
                "application_replay",
                "ncu runs the program once for each of its passes; launches must come in the same order every time.",
            ),
            Note("serialised", "Durations are those of kernels run one at a time at the clocks as found."),
            *left,
        ]
    return [
        Note(
            "kernel_replay",
            "ncu replays every kernel for each of its passes, with caches emptied before: what it measures, hit rates "
            "and rates, is of a cold cache, one kernel at a time, at the clocks as found; times of a run for times are "
            "not. replay='application' leaves the caches as the program has them.",
        ),
        *left,
    ]


def _range_notes(request: ProfileRequest, features: NcuFeatures) -> list[Note]:
    """What holding ncu to a range leaves out."""
    if request.range is None:
        return []
    text = "ncu is held to the range by its name (NVTX)"
    if not features.whole_process:
        text += f". This version is not known to have {_SCOPE}: launches of other threads, such as those of backward "
        text += "passes in PyTorch, are outside of the range then"
    return [Note("range", f"{text}.")]


def left_out(request: ProfileRequest, features: NcuFeatures) -> dict[str, str]:
    """NVLink counters among others: where ncu sees no NVLink it fails over them and measures nothing at all."""
    asked = dict.fromkeys(c for counters in request.passes for c in counters)
    links = [c for c in asked if _NVLINK.match(c)]
    if len(links) == len(asked):
        return {}
    why = "without a visible NVLink ncu would fail over it and lose the rest; ask for NVLink metrics alone"
    return dict.fromkeys(links, why)


def progress(text: str) -> ProfilerProgress | None:
    """The last line in ``text`` that tells of a launch; the program's own output may follow on it."""
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


def explain(status: int, stderr: str) -> Problem | None:
    """A known failure in words with its fix, or None. Give it the beginning of raw.csv as well as stderr."""
    return explain_failure(NAME, status, stderr)


def _after_options(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command after the options: ncu takes ``--`` for their end, so that no program's name can be one."""
    return ("--", *command)
