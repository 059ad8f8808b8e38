"""The tool plan_profile: passes, and the exact commands that collect them on any machine."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import pydantic
from pydantic import Field

from ..analysis.base.problems import BadArgument, NotFound
from ..analysis.base.text import count_text
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.planning.plan import PassPlan, resolve
from ..analysis.planning.sampling import Cost
from ..analysis.store.store import Store
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .base.parameters import (
    MOST_ITEMS,
    CommandWords,
    CountedKernels,
    Detail,
    Launches,
    MostPasses,
    Reference,
    Replay,
    SomeMetrics,
)
from .base.results import NextCall, Result, Table, TextBlock, table
from .running.drivers import registry
from .running.drivers.registry import ProfilerDriver as Driver
from .running.drivers.registry import launcher_lines
from .running.drivers.rocprofv3.pc_sampling import THREAD_TRACE, counter_samples
from .running.job import Step
from .running.known_failures import version_defects
from .running.profiled_program import ProfileContents, parse_metrics
from .running.request import ProfileRequest, block_use, collects_of, launch_range

OUT = "rooflens_run"
"""The folder that the commands write to, below the working directory."""


class ProgramStart(pydantic.BaseModel):
    """One start of the program."""

    step: str
    argv: list[str]
    shell: str | None
    """The same, including ``env``, as one complete shell line."""
    files: list[str]
    """Input files to write before the start."""
    env: dict[str, str]


def input_files(steps: list[Step], *, texts: bool) -> Table:
    """Return every input file with its size and optionally its text; short ones first."""
    files = sorted(((f"{OUT}/{n}", text) for s in steps for n, text in s.files.items()), key=lambda f: len(f[1]))
    # A table, so that the server can truncate it: definitions for every channel of an MI350 take 80 kB per pass.
    columns = {"file": None, "characters": None, "text": None}
    return table(columns, [[name, len(text), text if texts else None] for name, text in files])


def _shell_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return a command with its variables as one shell line."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join([*(["env", *variables] if variables else []), shlex.join(argv)])


def by_hand(step: Step, full: bool) -> ProgramStart:
    """Return one step of a plan as a command."""
    shell = _shell_line(step.argv, step.env) if full else None
    return ProgramStart(
        step=step.name,
        argv=list(step.argv),
        shell=shell,
        files=[f"{OUT}/{name}" for name in step.files],
        env=dict(step.env),
    )


def preparation(steps: list[Step]) -> str:
    """Return the bash line to run once before the commands: creates result folders and unsets interfering variables."""
    folders = " ".join(f"{OUT}/{step.name}" for step in steps)
    prefixes = dict.fromkeys(p for step in steps for p in step.unset)
    return f"mkdir -p {folders}" + (f"; unset {' '.join(f'${{!{p}@}}' for p in prefixes)}" if prefixes else "")


_LISTED = 24
"""Maximum metric names listed in a summary; detail="full" lists all."""
_REASONS = 8
"""Maximum metrics listed with a reason in a summary."""
_SHOWN = 3
_COUNTERS = 80
"""Maximum counter names shown in a summary's table of passes, over all passes."""


class PlanResult(Result):
    """What is needed to collect the metrics."""

    EXACT: ClassVar[frozenset[str]] = frozenset({"commands", "files", "prepare", "launchers"})
    gpu: str
    profiler: str
    replay: str
    application_runs: int
    least_passes: int
    files: Table
    """Input files of the commands, short ones first, with their texts if detail is full."""
    passes: Table
    whole: list[str]
    whole_total: int
    split: list[str]
    unsupported: dict[str, str]
    left_out: dict[str, str]
    prepare: str
    commands: list[ProgramStart]
    launchers: dict[str, str]
    """A shell line for many ranks, by launcher; RANKS stands for the number of ranks."""

    @property
    def script(self) -> str:
        """The commands as lines for bash, including the preparations."""
        starts = [_shell_line(one.argv, one.env) for one in self.commands]
        return "\n".join([self.prepare, *starts]) + "\n"

    def blocks(self) -> list[TextBlock]:
        """Return the passes, the commands as shell lines, and the metrics that need several passes or cannot be had."""
        passes = count_text(self.least_passes, "pass", "passes")
        about = f"{self.gpu}, {self.profiler}, replay {self.replay}; at least {passes}"
        starts = [f"{one.step}: {_shell_line(one.argv, one.env)}" for one in self.commands]
        ranks = [f"{name}: {line}" for name, line in self.launchers.items()]
        lacking = [f"{name}: {why}" for name, why in {**self.unsupported, **self.left_out}.items()]
        return [
            TextBlock("", [about]),
            TextBlock("passes", self.passes),
            TextBlock("prepare", [self.prepare] if self.prepare else [], exact=True),
            TextBlock("commands", starts, exact=True),
            TextBlock("on many ranks", ranks, exact=True),
            TextBlock("files", self.files if self.files.rows else [], exact=True),
            TextBlock("whole in one pass", [", ".join(self.whole)] if self.whole else []),
            TextBlock("from several passes", [", ".join(self.split)] if self.split else []),
            TextBlock("not collected", lacking),
        ]


_Gpu = Annotated[Reference, Field(description='target (gfx942), product (MI300X) or "cpu"')]
_Metrics = Annotated[
    SomeMetrics | None,
    Field(description="as for compute_metrics, or roofline.f32.hbm, timeline, hotspots; default: overview, diagnosis"),
]
_Version = Annotated[Reference | None, Field(description='its version there: "1.0.0"')]
_Command = Annotated[CommandWords | None, Field(description='argument list: ["./app"]')]
_Launches = Annotated[Launches | None, Field(description="first and last launch to count, from 1: [2, 5]")]
_Range = Annotated[Reference | None, Field(description="only in this range (NVTX)")]
_Pid = Annotated[int | None, Field(ge=1, le=MOST_ITEMS, description="process to attach to (ROCm)")]


def plan_profile(
    store: Store,
    gpu: _Gpu,
    metrics: _Metrics = None,
    profiler: registry.ProfilerName = "auto",
    profiler_version: _Version = None,
    command: _Command = None,
    replay: Replay = "auto",
    kernel: CountedKernels = None,
    launches: _Launches = None,
    max_passes: MostPasses = None,
    range: _Range = None,
    pid: _Pid = None,
    detail: Detail = "summary",
) -> PlanResult:
    """Plan the counter passes that metrics need, how often the program runs, and profiler commands to run on another
    machine (detail="full": input files too). Runs nothing."""
    asked = replace(parse_metrics(metrics), usual=False)
    target, facts = _resolve_target(gpu, asked)
    driver = registry.driver_for(profiler, targets.vendor_of(target) or "")
    features = driver.features_of(profiler_version)
    planned = asked.plan(target, max_passes)
    request = ProfileRequest(
        command=_check_command(command),
        passes=planned.passes,
        kernel=kernel,
        launches=launch_range(launches),
        replay=driver.REPLAY if replay == "auto" else replay,
        target=target,
        facts=facts,
        range=range,
        pid=pid,
        timeline=asked.timeline,
        hotspots=asked.hotspots,
    )
    if range is not None and not driver.RANGES:
        raise _no_range(driver)
    steps = driver.steps(request, features, program=driver.NAME, out=OUT)
    lost = _lost_metrics(target, asked, planned, driver.left_out(request, features))
    full = detail == "full"
    whole = [m for m in planned.whole if m not in lost]
    split = [m for m in planned.split if m not in lost]
    unsupported = {**planned.unsupported, **lost}
    shown = steps if full else steps[:_SHOWN]
    own = steps[-1].argv[0] == driver.NAME
    return PlanResult(
        answer=_answer(gpu, driver.NAME, len(steps), len(whole) + len(split), len(unsupported)),
        gpu=target,
        profiler=driver.NAME,
        replay=request.replay,
        application_runs=len(steps),
        least_passes=planned.least_passes,
        files=input_files(steps, texts=full),
        passes=_passes(planned, full),
        whole=whole if full else whole[:_LISTED],
        whole_total=len(whole),
        split=split if full else split[:_LISTED],
        unsupported=_first(unsupported, full),
        left_out=_first(planned.left_out, full),
        prepare=preparation(steps),
        commands=[by_hand(step, full) for step in shown],
        launchers=launcher_lines(driver, steps[-1], request.command) if full and pid is None and own else {},
        notes=[
            *([sentence("plan.several_passes", split=len(split))] if split else []),
            *([sentence("plan.cannot", unsupported=len(unsupported))] if len(unsupported) > _REASONS else []),
            *([sentence("plan.left_out", left_out=len(planned.left_out))] if planned.left_out else []),
            *_driver_notes(driver, request, features, steps[-1].argv[0]),
            *([_counter_samples(driver, request, features)] if asked.counter_samples else []),
            *([] if full else [_summary_note(len(steps) - len(shown))]),
        ],
        next=_next(gpu, metrics, full, _results(steps, driver, target)),
    )


def _counter_samples(driver: Driver, request: ProfileRequest, features: Any) -> str:
    """Return how to sample counters over time; raise BadArgument for profilers other than rocprofv3."""
    if driver.NAME != "rocprofv3":
        raise BadArgument(
            f"{driver.NAME} samples no counters over time", "only rocprofv3 does (SPM)", "Omit counter_samples"
        )
    return counter_samples(request, features.version).text


def _resolve_target(gpu: str, asked: ProfileContents) -> tuple[str, dict[str, float]]:
    """Return a target and the facts of a product; a target without a file only for what needs no counters."""
    try:
        return targets.resolve_gpu(gpu)
    except NotFound as problem:
        if targets.vendor_of(gpu) is None:
            raise
        if asked.metrics:
            raise NotFound(problem.what, problem.why, f"{catalog.how_to_add(gpu)}. {_WITHOUT_FILE}") from problem
        return gpu, {}


_WITHOUT_FILE = 'Without a file it gets times, timelines and hotspots: metrics=[], ["timeline"] or ["hotspots"]'


def _answer(gpu: str, profiler: str, runs: int, metrics: int, unsupported: int) -> str:
    """Say how many runs of the program the metrics take."""
    text = sentence(
        "plan.done",
        metrics=count_text(metrics, "metric") if metrics else "The times",
        gpu=gpu,
        need="needs" if metrics == 1 else "need",
        runs=runs,
        profiler=profiler,
    )
    return text + (sentence("plan.more", unsupported=unsupported) if unsupported else "")


def _no_range(driver: Driver) -> BadArgument:
    numbers = "; profile_command selects by the launch numbers of a timing run instead"
    return BadArgument(
        f"{driver.NAME} cannot filter by the name of a range",
        f"it has no such option{numbers if registry.sampler(driver.NAME) else ''}",
        "Omit range and select after the import: dispatches.range_id names the range of every launch",
    )


def _check_command(command: list[str] | None) -> tuple[str, ...]:
    if command is None:
        return ("./app",)
    if not command or not command[0].strip() or any("\0" in word for word in command):
        raise BadArgument("The command cannot be started", "it is empty or contains a NUL", 'Give ["./app", "-n", "8"]')
    return tuple(command)


def _lost_metrics(target: str, asked: ProfileContents, planned: PassPlan, refused: dict[str, str]) -> dict[str, str]:
    """Return the planned metrics that the profiler cannot provide, because it cannot count one of their counters."""
    if not refused:
        return {}
    sets = resolve(target, asked.metrics).sets
    return {
        name: f"{missing}: {refused[missing]}"
        for name in (*planned.whole, *planned.split)
        if (missing := next((c for c in sets.get(name, ()) if c in refused), None))
    }


def _passes(planned: PassPlan, full: bool) -> Table:
    """Return one row per pass: its registers by block, its counters, and how many metrics it completes."""
    limits = targets.gpu(planned.target).counter_limits if planned.passes else {}
    counts = Counter(planned.whole_in.values())
    named = full or sum(map(len, planned.passes)) <= _COUNTERS
    rows = [
        [
            number,
            " ".join(f"{b} {n}/{limits[b]}" for b, n in block_use(counters).items()) if limits else None,
            len(counters),
            counts[number],
            " ".join(counters) if named else None,
        ]
        for number, counters in enumerate(planned.passes, 1)
    ]
    return table(dict.fromkeys(("pass", "registers", "counters", "whole_metrics", "names")), rows)


def _first(reasons: dict[str, str], full: bool) -> dict[str, str]:
    return reasons if full else dict(list(reasons.items())[:_REASONS])


def _driver_notes(driver: Driver, request: ProfileRequest, features: Any, program: str) -> Iterator[str]:
    """Return notes on the limits of the profiler; skipped counters appear among the unsupported metrics. ``program`` is
    what the last command starts."""
    if lacking := catalog.without_metrics(request.target):
        yield lacking
    yield from (note.text for note in driver.notes(request, features) if note.code != "left_out")
    if driver.NAME == "rocprofv3":
        yield sentence("plan.written_for", version=features.version)
        if request.hotspots:
            yield THREAD_TRACE.text
    version, command = getattr(features, "version", None), shlex.join(request.command)
    defects = version_defects(
        driver.NAME, version, targets=[request.target], command=command, collects=collects_of(request)
    )
    yield from (defect.text(driver.NAME, version) for defect in defects)
    counted = request.passes or request.hotspots
    if (sampler := registry.sampler(driver.NAME)) and request.pid is None and counted:
        yield _cost(sampler.cost(request, 0.0), sampler.cost(request, 1.0))
    if request.pid is None:
        yield sentence("plan.ranks", program=program)


def _cost(idle: Cost, second: Cost) -> str:
    """Describe the cost of counting: ``idle`` for a program that takes no time, ``second`` for one that takes 1 s."""
    extra = sentence("plan.start", idle=idle) if idle.run_s else ""
    return sentence("plan.cost", times=second.run_s - idle.run_s, extra=extra, second=second)


def _summary_note(missing: int) -> str:
    more = sentence("plan.more_commands", missing=missing) if missing else ""
    return sentence("plan.full", more=more)


def _results(steps: list[Step], driver: Driver, target: str) -> list[dict[str, str]]:
    """Return the paths for import_profile: the whole folder, or each step's folder if several profilers wrote them."""
    of_others = any(step.argv[0] != driver.NAME for step in steps)
    paths = [f"{OUT}/{step.name}" for step in steps] if of_others else [OUT]
    return [{"path": path, **({} if driver.NAMES_DEVICE else {"gpu": target})} for path in paths]


def _next(gpu: str, metrics: list[str] | None, full: bool, results: list[dict[str, str]]) -> list[NextCall]:
    asked = {"gpu": gpu, "metrics": metrics} if metrics is not None else {"gpu": gpu}
    whole = next_call("plan_profile", "commands with input files", **asked, detail="full")
    why = "after the commands have run, in their folder" + (": a workload of its own" if len(results) > 1 else "")
    importing = [next_call("import_profile", why, **result) for result in results]
    return importing if full else [whole, *importing]
