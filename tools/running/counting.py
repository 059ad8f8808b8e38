"""Plan which launches to count after a timing run: a representative sample within a time budget."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...analysis.base.database import column_names, sql_path
from ...analysis.base.kernel_names import matching
from ...analysis.base.problems import Problem, near
from ...analysis.base.text import shorten
from ...analysis.catalogue.rules import library_kernel
from ...analysis.planning.plan import plan
from ...analysis.planning.sampling import (
    ENOUGH_PCT,
    LAUNCHES_OF_A_ROUND,
    PLACES,
    USUAL_LAUNCHES,
    ConfigurationTime,
    Cost,
    CountingChoice,
    LaunchPlace,
    choose_launches,
    first_launches,
    least_choice,
)
from ...analysis.store.store import Store
from ...analysis.timeline.heights import whole_program
from ...analysis.workload import Workload
from ..base.profile_files import HOTSPOTS_STEP
from .drivers import registry
from .drivers.registry import SamplingDriver
from .job import Step
from .range_filter import NoRanges, RangeFilter, range_condition, range_filter_of_recording
from .range_filter import choose_iterations as numbers_of
from .request import LaunchSample, ProfileRequest
from .run_state import ProfileRun, read_record, read_state
from .saving import import_timing
from .wording import problem, sentence
from .worker import CallProgress

_TOGETHER = re.compile(r"nccl(Dev)?Kernel|nvshmem|mscclKernel")
"""Kernels that wait for kernels on other GPUs: ncu replays a kernel alone, so they would wait forever."""
_AROUND_S = 2.5
"""Seconds that a call needs besides its steps: finding the device, planning, saving, or the diagnosis afterwards."""
_MOST_EXPECTED = 50_000
"""Maximum number of launches of a range that are identified one by one; further ones are matched by their order."""
_SHOWN, _SHOWN_CHARACTERS = 5, 80
"""Number of kernels listed if none matches, and the maximum characters of each name."""
_LEAST_S, _TIMES = 60.0, 3.0
"""Without a budget, everything together may take ``_TIMES`` times the timing run, but at least ``_LEAST_S`` seconds."""
_MARGIN = 1.25
"""Counting the hot lines may take this many times as long as estimated, and the counters leave that time."""
_DECISIVE = (("diagnosis",), ("roofline",))
"""The metrics that decide, the most informative first, for a program that leaves no time for all."""


@dataclass(frozen=True)
class TimedLaunches:
    """The launches of a timing run."""

    configurations: list[ConfigurationTime]
    numbered: list[tuple[str, int, int]]
    """Kernel, configuration, and the launch's number among the launches of that kernel."""
    readable: dict[str, str]
    """Maps each kernel name as the profiler writes it to its readable form."""
    groups: list[tuple[str, list[int]]]
    """Kernel and ordered dispatch ids of the launches with one configuration, process and device."""
    within: RangeFilter | None = None
    """The range that they belong to, as the program names it."""

    @property
    def of_one_process(self) -> bool:
        """Whether one process launches each configuration, on one device: then it is known how many are counted."""
        return len(self.groups) == len(self.configurations)

    @property
    def own_kernels(self) -> set[str]:
        """The kernels that belong to no library, so that their lines can be changed."""
        return {kernel for kernel, text in self.readable.items() if not library_kernel(text)}

    def add_gains(self, savings: Mapping[str, float]) -> TimedLaunches:
        """Return the launches with what the program saves without each kernel, by its readable name, if it is known."""
        if not savings:
            return self
        of = {kernel: max(self.time_of(kernel), 1.0) for kernel in set(self.readable.values())}
        gains = [
            replace(c, gain=savings.get(name, 0.0) * c.total_ns / of[name])
            for c in self.configurations
            if (name := self.readable[c.kernel])
        ]
        return replace(self, configurations=gains)

    def time_of(self, readable: str) -> float:
        """Return the total time in nanoseconds of the launches of all kernels with this readable name."""
        return sum(c.total_ns for c in self.configurations if self.readable[c.kernel] == readable)

    def only(self, kernels: Iterable[str]) -> TimedLaunches:
        """Return only the launches of these kernels."""
        wanted = set(kernels)
        return TimedLaunches(
            [c for c in self.configurations if c.kernel in wanted],
            [n for n in self.numbered if n[0] in wanted],
            {name: text for name, text in self.readable.items() if name in wanted},
            [row for row in self.groups if row[0] in wanted],
            self.within,
        )


def plan_counting(
    store: Store, progress: CallProgress, run_id: str, selection: dict[str, str | None], took_s: float
) -> dict[str, Any]:
    """Return the counting steps, planned from the results of the timing run, and remarks on them; see ``Job.plan``.

    ``selection`` has the fields ``kernel`` and ``range`` of the request, which the stored record has without secrets.
    """
    progress(0.0, "choosing the launches to count")
    began = time.monotonic()
    folder = store.run_folder(run_id)
    record = read_record(folder)
    assert isinstance(record, ProfileRun)
    run = record.model_copy(
        update={"request": replace(record.request, kernel=selection["kernel"], range=selection["range"])}
    )
    driver = registry.sampler(run.profiler)
    assert driver is not None
    out = folder / run.out
    try:
        place, workload = import_timing(folder, run, read_state(folder))
        with Workload.open(place, workload) as timing:
            launches = timed_launches(timing, run.request.range, took_s)
            heights = whole_program(timing) if run.usual and not run.request.kernel else None
            if heights and not heights.kernels_matter:
                return {"steps": [], "remarks": []}
            launches = launches.add_gains(heights.kernel_savings() if heights else {})
    except Problem as problem:
        unknown = driver.RANGES and isinstance(problem, NoRanges)
        # If the program failed by itself before its first launch, it would fail again.
        if (run.request.range is not None and not unknown) or read_state(folder).fault:
            raise
        each = run.launches or USUAL_LAUNCHES
        request = replace(run.request, sample=LaunchSample((), 0, each)) if driver.REPLAY == "kernel" else run.request
        remark = sentence("without_times", what=problem.what, each=each)
        return {"steps": [asdict(step) for step in _counting_steps(driver, request, run, out)], "remarks": [remark]}
    launches, remarks = _countable(launches, run)
    return _CountingPlan(driver, run, launches, took_s, out, time.monotonic() - began).answer(remarks)


def timed_launches(timing: Workload, within: str | None = None, took_s: float = 0.0) -> TimedLaunches:
    """Return the launches of a timing run of ``took_s`` seconds, limited to a range if one is named.

    Raises BadInput if there are none, and NotFound if the range contains none.
    """
    if not timing.has("dispatches"):
        raise problem("no_launches")
    con, folder = timing.cursor, timing.store.folder(timing.manifest)
    table = f"read_parquet({sql_path(folder / 'dispatches.parquet')})"
    stated = column_names(con, table)
    number = "iteration" if "iteration" in stated else "ordinal"
    where = f"WHERE {range_condition(con, folder, within)} " if within is not None else ""
    range_filter = range_filter_of_recording(con, folder, within) if within is not None else None
    # The last launch ends at the latest with the run.
    seconds = f"{took_s} - (max(end_ns) OVER () - end_ns) / 1e9" if "end_ns" in stated else "NULL"
    placed = (
        f"SELECT *, row_number() OVER (ORDER BY dispatch_id) AS launched, {seconds} AS seconds FROM {table} {where}"
    )
    rows = con.execute(
        "SELECT kernel_raw, launch, any_value(kernel), count(*), coalesce(sum(duration_ns), 0)::DOUBLE, "
        f"list({number} ORDER BY dispatch_id), list(dispatch_id ORDER BY dispatch_id), "
        f"list(launched ORDER BY dispatch_id)[:{PLACES}], list(seconds ORDER BY dispatch_id)[:{PLACES}] "
        f"FROM ({placed}) GROUP BY kernel_raw, launch, device_id, pid ORDER BY min(dispatch_id)"
    ).fetchall()
    configurations: dict[tuple[str, int], ConfigurationTime] = {}
    for kernel, launch, _, count, total, _, _, launched, seconds in rows:
        before = configurations.get((kernel, launch))
        places = tuple(LaunchPlace(n, s) for n, s in zip(launched, seconds, strict=True) if s is not None)
        configurations[kernel, launch] = (
            replace(before, launches=before.launches + count, total_ns=before.total_ns + total, places=())
            if before
            else ConfigurationTime(kernel, count, total, places=places)
        )
    numbered = [(row[0], row[1], number) for row in rows for number in row[5] or []]
    readable = {row[0]: row[2] for row in rows}
    groups = [(row[0], row[6]) for row in rows]
    return TimedLaunches(list(configurations.values()), numbered, readable, groups, range_filter)


def _countable(launches: TimedLaunches, run: ProfileRun) -> tuple[TimedLaunches, list[str]]:
    """Return the launches of requested kernels that can be counted, and remarks on the others."""
    kernels = list(launches.readable)
    if pattern := run.request.kernel:
        hits = set(matching(pattern, [*launches.readable.values(), *kernels]))
        kernels = [name for name, text in launches.readable.items() if name in hits or text in hits]
        if not kernels:
            known = list(launches.readable.values())
            longest = sorted(known, key=lambda text: -launches.time_of(text))[:_SHOWN]
            shown = ", ".join(shorten(text, _SHOWN_CHARACTERS) for text in longest)
            raise problem("no_such_kernel", pattern=pattern, near=near(pattern, known) or f"the longest are {shown}")
    waiting = [name for name in kernels if _TOGETHER.search(name)]
    alone = [name for name in kernels if name not in waiting]
    if run.request.replay != "kernel" or not waiting or not alone:
        return launches.only(kernels), []
    return launches.only(alone), [sentence("waiting_kernels", kernels=len(waiting))]


@dataclass(frozen=True)
class _CountingPlan:
    """The plan of what is counted after a timing run that took ``took_s`` seconds."""

    driver: SamplingDriver
    run: ProfileRun
    launches: TimedLaunches
    took_s: float
    out: Path
    planning_s: float
    """How long it took to read the timing run; saving and the diagnosis take about as long."""

    def answer(self, remarks: list[str]) -> dict[str, Any]:
        """Return the steps and the remarks for the supervisor."""
        configurations, asked, budget_s = self.launches.configurations, self.run.request, self._budget_s()
        run, more = self._fitting_passes(replace(asked, hotspots=asked.hotspots and not self.run.usual))
        cost = self.driver.cost(run.request, self.took_s)
        usual = LAUNCHES_OF_A_ROUND if run.usual else USUAL_LAUNCHES
        only_lines = replace(asked, passes=(), hotspots=True)
        of_lines = self.driver.cost(only_lines, self.took_s)
        with_lines = run.usual and asked.hotspots
        lines = first_launches(configurations, self.launches.own_kernels, of_lines) if with_lines else None
        lines_s = _MARGIN * lines.estimate_s if lines else 0.0
        chosen = choose_launches(configurations, run.launches, cost, budget_s - lines_s, usual)
        without_lines = [_no_lines_remark(lines)] if with_lines else []
        if lines and chosen.covered_pct >= ENOUGH_PCT and chosen.estimate_s + lines_s <= budget_s:
            steps = self._steps(run, run.request, chosen, budget_s - lines_s)
            steps += self._steps(run, only_lines, lines, lines_s)
            without_lines = []
        else:
            chosen = choose_launches(configurations, run.launches, cost, budget_s, usual)
            steps = self._steps(run, run.request, chosen, budget_s)
        remarks = [*remarks, *without_lines, *more, *_selection_remarks(chosen, self.launches, self.took_s, cost)]
        if chosen.estimate_s > budget_s:
            alone_s = cost.estimate_s(0)
            remarks.append(sentence("over_budget", chosen=chosen, budget_s=budget_s, alone_s=alone_s))
        within_s = budget_s if run.budget_s is not None and run.request.replay == "application" else None
        return {"steps": [asdict(step) for step in steps], "remarks": remarks, "within_s": within_s}

    def _budget_s(self) -> float:
        """Return the seconds for counting: what remains after the timing run, saving and the diagnosis."""
        if self.run.budget_s:
            return max(0.0, self.run.budget_s - self.took_s - _AROUND_S)
        return max(_LEAST_S, _TIMES * self.took_s) - self.took_s - max(2 * _AROUND_S, self.planning_s)

    def _fitting_passes(self, request: ProfileRequest) -> tuple[ProfileRun, list[str]]:
        """Return the run with fewer metrics or fewer runs of the program if the planned ones do not fit, and a remark
        about it.

        Without named metrics, those that decide are counted first, for all kernels that matter.
        """
        run, budget_s = self.run.model_copy(update={"request": request}), self._budget_s()
        needed_s = self._least_s(request)
        if not request.passes or needed_s <= budget_s:
            return run, []
        if not run.usual or (run.may_take_turns and request.range is None):
            return self._fewer_runs(run, budget_s)
        for words in _DECISIVE:
            fewer = replace(request, passes=plan(request.target, words).passes)
            run = run.model_copy(update={"request": fewer})
            if self._least_s(fewer) <= budget_s:
                break
        run, more = self._fewer_runs(run, budget_s)
        return run, [sentence("only_decisive", needed_s=needed_s, budget_s=budget_s, words=list(words)), *more]

    def _least_s(self, request: ProfileRequest) -> float:
        """Return the estimated seconds for one launch of each configuration that matters."""
        return least_choice(self.launches.configurations, self.driver.cost(request, self.took_s)).estimate_s

    def _fewer_runs(self, run: ProfileRun, budget_s: float) -> tuple[ProfileRun, list[str]]:
        """Return the run with fewer runs of the program for its passes, and a remark about it."""
        request = run.request
        passes, runs_s = len(request.passes), self.driver.cost(request, self.took_s).run_s
        if passes <= 1 or request.replay != "application" or runs_s <= budget_s:
            return run, []
        why = {"passes": passes, "runs_s": runs_s, "budget_s": budget_s}
        if run.may_take_turns and request.range is None:
            changed = run.model_copy(update={"request": replace(request, replay="iteration")})
            return changed, [sentence("turns_instead", **why)]
        if run.budget_s is None:
            return run, [sentence("set_budget", **why)]
        fewer = max(1, int(passes * budget_s / runs_s))
        planned = plan(request.target, run.metrics, max_passes=fewer)
        lost = ", ".join(list(planned.left_out)[:8]) + " ..." * (len(planned.left_out) > 8)
        changed = run.model_copy(update={"request": replace(request, passes=planned.passes)})
        return changed, [sentence("fewer_runs", **why, runs=len(planned.passes), lost=lost)]

    def _steps(self, run: ProfileRun, request: ProfileRequest, chosen: CountingChoice, budget_s: float) -> list[Step]:
        """Return the steps that count the chosen launches; a program whose launches are known ends after the last."""
        busy_s = sum(c.total_ns for c in self.launches.configurations) / 1e9
        sample = _sample(self.driver, self.launches, chosen, request)
        counted = replace(request, command=(), kernel=None, busy_s=busy_s, sample=sample)
        steps = _counting_steps(self.driver, counted, run, self.out)
        share = 1 / max(1, len(steps))
        each = budget_s * share if self.driver.REPLAY == "kernel" else budget_s
        ends_early = self.driver.REPLAY == "kernel" and request.range is None and self.launches.of_one_process
        return [
            replace(
                step,
                within_s=_limit(chosen, run, each),
                estimate_s=chosen.estimate_s * share,
                launches=chosen.counted,
                enough=chosen.counted if ends_early else None,
                extra=self.run.usual and step.name == HOTSPOTS_STEP,
            )
            for step in steps
        ]


def _no_lines_remark(lines: CountingChoice | None) -> str:
    if lines is None:
        return sentence("lines_of_libraries")
    return sentence("lines_need_time", seconds=math.ceil(lines.estimate_s + _AROUND_S))


def _sample(
    driver: SamplingDriver, launches: TimedLaunches, chosen: CountingChoice, asked: ProfileRequest
) -> LaunchSample | None:
    """Return the sample to request from the profiler, or None for all launches of the program."""
    whole = asked.range is None
    names = {c.kernel for c in launches.configurations}
    every = chosen.counted == sum(c.launches for c in launches.configurations) and names == set(launches.readable)
    if driver.REPLAY == "kernel":
        if whole:
            return LaunchSample(chosen.kernels, chosen.skip, chosen.launches)
        # Do not skip launches: it is undocumented whether the skip count includes launches outside the range.
        each = chosen.launches
        expected = sorted(i for kernel, ids in launches.only(chosen.kernels).groups for i in ids[:each])
        return LaunchSample(chosen.kernels, 0, each, within=launches.within, expected=tuple(expected[:_MOST_EXPECTED]))
    if whole and asked.kernel is None and every and len(chosen.kernels) == len(names):
        return None
    mine = launches.only(chosen.kernels).numbered
    return LaunchSample(chosen.kernels, chosen.skip, chosen.launches, numbers_of(mine, chosen.skip, chosen.launches))


def _counting_steps(driver: SamplingDriver, request: ProfileRequest, run: ProfileRun, out: Path) -> list[Step]:
    features = driver.restore_features(run.features)
    steps = driver.steps(replace(request, command=()), features, program=run.profiler_path, out=str(out))
    return [driver.with_progress(step) for step in steps if step.name != "timing"]


def _limit(chosen: CountingChoice, run: ProfileRun, budget_s: float) -> float | None:
    """Return the seconds after which a step is ended, or None.

    That is the budget if one was given or if nobody named what to count, otherwise a multiple of the estimate. A run of
    the whole program leaves no results when it is ended early, so it may exceed the budget by half.
    """
    if run.request.replay == "application":
        return None if run.budget_s is None else max(1.5 * budget_s, 10.0)
    if run.budget_s is not None or run.usual:
        return max(budget_s, 10.0)
    return max(2 * budget_s, 1.5 * chosen.estimate_s)


def _selection_remarks(chosen: CountingChoice, launches: TimedLaunches, took_s: float, cost: Cost) -> list[str]:
    """Describe what is counted, unless that is everything."""
    if chosen.counted == sum(c.launches for c in launches.configurations):
        return []
    least = ""
    if chosen.time_pct is not None and chosen.time_pct < ENOUGH_PCT:
        least_s = took_s + least_choice(launches.configurations, cost).estimate_s + _AROUND_S
        least = sentence("least_budget", enough_pct=ENOUGH_PCT, least_s=math.ceil(least_s))
    share = "" if chosen.time_pct is None else sentence("counted_share", chosen=chosen)
    within = " of the range in" if launches.within else " of"
    kernels = len(chosen.kernels)
    return [
        sentence("counted", chosen=chosen, kernels=kernels, share=share, within=within, took_s=took_s, cost=cost)
        + least
    ]
