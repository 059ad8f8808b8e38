"""The tool plan_profile: passes, and the exact commands that collect them on any machine."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, ClassVar

import pydantic

from ..analysis.base.problems import BadArgument, NotFound
from ..analysis.base.text import count_text
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.planning.plan import PassPlan
from ..analysis.store.store import Store
from .answers.next_calls import next_call
from .answers.sentences import optional_sentence, present, sentence
from .answers.tables import Row, table_from
from .base.parameters import (
    CommandWords,
    Detail,
    Launches,
    Pattern,
    Reference,
    Replay,
    SomeMetrics,
)
from .base.results import NextCall, Result, Table, TextBlock
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
    # A table, so that the server can truncate it: definitions for every channel of an MI350 take 80 kB per pass.
    rows = [
        {"file": f"{OUT}/{name}", "characters": len(text), "text": text if texts else None}
        for step in steps
        for name, text in step.files.items()
    ]
    return table_from("input_files", sorted(rows, key=itemgetter("characters")))


def _shell_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return a command with its variables as one shell line."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join([*["env"][: len(env)], *variables, shlex.join(argv)])


def by_hand(step: Step, full: bool) -> ProgramStart:
    """Return one step of a plan as a command."""
    argv, env, files = list(step.argv), dict(step.env), [f"{OUT}/{name}" for name in step.files]
    shell = _shell_line(argv, env) if full else None
    return ProgramStart(step=step.name, argv=argv, shell=shell, files=files, env=env)


def _lines(entries: dict[str, str]) -> list[str]:
    return [f"{name}: {text}" for name, text in entries.items()]


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
        starts = {one.step: _shell_line(one.argv, one.env) for one in self.commands}
        return [
            TextBlock("", [sentence("plan.about", plan=self)]),
            TextBlock("passes", self.passes),
            TextBlock("prepare", present(self.prepare), exact=True),
            TextBlock("commands", _lines(starts), exact=True),
            TextBlock("on many ranks", _lines(self.launchers), exact=True),
            TextBlock("files", self.files if self.files.rows else [], exact=True),
            TextBlock("whole in one pass", present(", ".join(self.whole))),
            TextBlock("from several passes", present(", ".join(self.split))),
            TextBlock("not collected", _lines(self.unsupported | self.left_out)),
        ]


def plan_profile(
    store: Store,
    gpu: Reference,
    metrics: SomeMetrics | None = None,
    profiler: registry.ProfilerName = "auto",
    profiler_version: Reference | None = None,
    command: CommandWords | None = None,
    replay: Replay = "auto",
    kernel: Pattern | None = None,
    launches: Launches | None = None,
    max_passes: int | None = None,
    range: Reference | None = None,
    pid: int | None = None,
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
    lost = _lost_metrics(planned, driver.left_out(request, features))
    full = detail == "full"
    whole = [m for m in planned.whole if m not in lost]
    split = [m for m in planned.split if m not in lost]
    unsupported = {**planned.unsupported, **lost}
    shown = steps if full else steps[:_SHOWN]
    more = optional_sentence("plan.more_commands", missing=len(steps) - len(shown))
    own = steps[-1].argv[0] == driver.NAME
    return PlanResult(
        answer=_answer(gpu, driver, len(steps), len(whole) + len(split), len(unsupported)),
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
        notes=present(
            *_metric_notes(len(split), len(unsupported), len(planned.left_out)),
            *_driver_notes(driver, request, features, steps[-1].argv[0]),
            _counter_samples(driver, request, features) if asked.counter_samples else "",
            "" if full else sentence("plan.full", more=more),
        ),
        next=_next(gpu, metrics, full, _results(steps, driver, target)),
    )


def _metric_notes(split: int, unsupported: int, left_out: int) -> list[str]:
    """Return notes on metrics that need several passes, cannot be collected, or are left out."""
    return [
        optional_sentence("plan.several_passes", split=split),
        optional_sentence("plan.cannot", unsupported=unsupported if unsupported > _REASONS else 0),
        optional_sentence("plan.left_out", left_out=left_out),
    ]


def _answer(gpu: str, driver: Driver, runs: int, metrics: int, unsupported: int) -> str:
    """Say how often the program runs for how many metrics."""
    return sentence(
        "plan.done",
        metrics=count_text(metrics, "metric") if metrics else "The times",
        need="needs" if metrics == 1 else "need",
        gpu=gpu,
        runs=runs,
        profiler=driver.NAME,
        more=optional_sentence("plan.more", unsupported=unsupported),
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


def _lost_metrics(planned: PassPlan, refused: dict[str, str]) -> dict[str, str]:
    """Return the planned metrics that the profiler cannot provide, because it cannot count one of their counters."""
    lost = {name: next((c for c in counters if c in refused), None) for name, counters in planned.sets.items()}
    return {name: f"{missing}: {refused[missing]}" for name, missing in lost.items() if missing}


def _passes(planned: PassPlan, full: bool) -> Table:
    """Return one row per pass: its registers by block, its counters, and how many metrics it completes."""
    limits = targets.gpu(planned.target).counter_limits if planned.passes else {}
    counts = Counter(planned.whole_in.values())
    named = full or sum(map(len, planned.passes)) <= _COUNTERS
    rows: list[Row] = [
        {
            "pass": number,
            "registers": " ".join(f"{b} {n}/{limits[b]}" for b, n in block_use(counters).items()) if limits else None,
            "counters": len(counters),
            "whole_metrics": counts[number],
            "names": " ".join(counters) if named else None,
        }
        for number, counters in enumerate(planned.passes, 1)
    ]
    return table_from("planned_passes", rows)


def _first(reasons: dict[str, str], full: bool) -> dict[str, str]:
    return reasons if full else dict(list(reasons.items())[:_REASONS])


def _driver_notes(driver: Driver, request: ProfileRequest, features: Any, program: str) -> Iterator[str]:
    """Return notes on the limits of the profiler; skipped counters appear among the unsupported metrics. ``program`` is
    what the last command starts."""
    yield catalog.without_metrics(request.target) or ""
    yield from (note.text for note in driver.notes(request, features) if note.code != "left_out")
    if driver.NAME == "rocprofv3":
        yield sentence("plan.written_for", version=features.version)
        yield THREAD_TRACE.text if request.hotspots else ""
    version, command = getattr(features, "version", None), shlex.join(request.command)
    defects = version_defects(
        driver.NAME, version, targets=[request.target], command=command, collects=collects_of(request)
    )
    yield from (defect.text(driver.NAME, version) for defect in defects)
    counted = request.passes or request.hotspots
    if (sampler := registry.sampler(driver.NAME)) and request.pid is None and counted:
        # The cost for programs that take no time, and 1 s.
        idle, second = sampler.cost(request, 0.0), sampler.cost(request, 1.0)
        extra = optional_sentence("plan.start", idle_s=idle.run_s)
        yield sentence("plan.cost", times=second.run_s - idle.run_s, extra=extra, second=second)
    yield optional_sentence("plan.ranks", started=request.pid is None, program=program)


def _results(steps: list[Step], driver: Driver, target: str) -> list[dict[str, str]]:
    """Return the paths for import_profile: the whole folder, or each step's folder if several profilers wrote them."""
    of_others = any(step.argv[0] != driver.NAME for step in steps)
    device = {} if driver.NAMES_DEVICE else {"gpu": target}
    return [{"path": f"{OUT}/{step.name}", **device} for step in steps] if of_others else [{"path": OUT, **device}]


def _next(gpu: str, metrics: list[str] | None, full: bool, results: list[dict[str, str]]) -> list[NextCall]:
    asked = {"gpu": gpu} if metrics is None else {"gpu": gpu, "metrics": metrics}
    whole = next_call("plan_profile", "commands with input files", **asked, detail="full")
    why = "after the commands have run, in their folder" + (": a workload of its own" if len(results) > 1 else "")
    return [*([] if full else [whole]), *(next_call("import_profile", why, **result) for result in results)]
