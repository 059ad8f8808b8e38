"""The figures of each kernel that the rules read, and the values of their conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..base.notes import Reason
from ..base.problems import BadInput
from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..engine.evaluation import Figure, FigureRequest, figures, judge_share
from ..engine.expressions import Values, evaluate, inputs_of
from ..engine.time_shares import replace_cycle_shares_by_time
from ..rooflines import limits
from ..rooflines import loads as loads_of
from ..rooflines.ceilings import device_facts
from ..workload import Workload

_ANY = 1.0
"""The value substituted for 0/0 to see whether an expression lacks anything else."""


@dataclass(frozen=True)
class DiagnosisSubject:
    """One kernel: its share of the workload's time in percent (None without times), its figures and inputs.

    ``inputs`` maps every name that expressions may use to its value or None: metrics, pct_of_peak.<metric> and
    fact.<name>. ``in_sql`` is the kernel's name in the SQL table metrics, or None for one of several launch
    configurations.
    """

    rank: int
    number: str
    kernel: str
    share_pct: float | None
    launches: int
    figures: dict[str, Figure]
    inputs: Values
    in_sql: str | None

    @property
    def doubted_figures(self) -> dict[str, Reason]:
        """The figures that are built on doubted counters or times, and why; shares recomputed from times count as
        sound."""
        every = ((n, f.reason) for n, f in self.figures.items() if f.status == "suspect" and not f.of_time)
        return {n: reason for n, reason in every if reason is not None and reason.code == "doubted"}

    @property
    def undefined_inputs(self) -> frozenset[str]:
        """The inputs that are 0/0: what they are a share of was counted and did not occur."""
        names = {n for n, f in self.figures.items() if f.status == "undefined"}
        return frozenset(names | {rules.PEAK + n for n in names})


@dataclass(frozen=True)
class Case:
    """One kernel with everything that decides its rules: the value of every expression, and the mixed-pipe view.

    ``undefined_expressions`` have no value only because something in them is 0/0, so they are evidence of nothing.
    ``above`` are the signals that exceed the whole of which they are a share, in percent. ``doubt_dependent`` are the
    expressions that only doubted figures decide.
    """

    workload: str
    target: str
    subject: DiagnosisSubject
    values: Values
    undefined_expressions: frozenset[str]
    view: limits.KernelLimits | None
    above: Mapping[str, float]
    doubt_dependent: frozenset[str] = frozenset()

    @property
    def unit_loads(self) -> list[loads_of.Load]:
        """The load of each unit; none without a view."""
        return [] if self.view is None else list(self.view.loads)

    @property
    def loads(self) -> dict[str, loads_of.Load]:
        """The load of each unit, by its signal."""
        return loads_of.loads_by_signal(self.target, self.unit_loads)

    @property
    def impossible(self) -> list[loads_of.Load]:
        """The impossible loads: a counter, a clock or the time is wrong."""
        return [load for load in self.unit_loads if load.status == "impossible"]

    @property
    def display_values(self) -> Values:
        """The values for texts, including loads and shares that are known but that rules may not use."""
        return {
            **self.values,
            **self.above,
            **{name: load.pct for name, load in self.loads.items() if load.pct is not None},
        }

    @property
    def reached_severities(self) -> frozenset[str] | None:
        """The severity expressions of the limits that are reached, by the loads that also bound the kernel's
        roofline."""
        return None if self.view is None else frozenset(limit.severity for limit in self.view.reached)


def subjects(workload: Workload, kernel: str | None, limit: int | None) -> tuple[list[DiagnosisSubject], int]:
    """The selected kernels, longest total time first, at most ``limit``, and how many there are in total.

    Raises BadInput for a device without rules.
    """
    manifest, target = workload.manifest, workload.arch
    if target not in catalog.targets_with_metrics():
        raise workload.no_formulas()
    if not rules.rules(target):
        raise BadInput(
            f"No diagnosis rules are known for workload {manifest.name!r}",
            f"its target is {manifest.arch or 'not stated in the profile'}",
            "compute_metrics and query_counters show what was measured",
        )
    chosen = workload.select(kernel).kernels
    wanted = chosen[:limit]
    by_kernel: dict[str, dict[str, Figure]] = {name: {} for name in wanted}
    view = FigureRequest(kernel=wanted, by_kernel=True, quartiles=False)
    for figure in replace_cycle_shares_by_time(workload, figures(workload, rules.all_metrics(target), view), view):
        by_kernel[figure.kernel or ""][figure.name] = figure
    facts, _ = device_facts(workload)
    return [
        DiagnosisSubject(
            time.rank, time.number, name, time.share_pct, time.launches, by_kernel[name],
            inputs_of(by_kernel[name], facts), time.whole_kernel,
        )
        for name, time in ((name, workload.kernels[name]) for name in wanted)
    ], len(chosen)  # fmt: skip


def above_their_whole(target: str, subjects: Sequence[DiagnosisSubject]) -> list[dict[str, float]]:
    """For each kernel the signals that exceed the whole of which they are a share, with their percentage."""
    shares = {name: signal.sql for name, signal in rules.signals(target).items() if signal.whole}
    evaluated = evaluate(target, [s.inputs for s in subjects], shares.values())
    known = [{name: one.get(sql) for name, sql in shares.items()} for one in evaluated]
    return [{n: pct for n, pct in one.items() if pct is not None and judge_share(pct)[0] != "ok"} for one in known]


def find_doubt_dependent(
    target: str,
    subjects: Sequence[DiagnosisSubject],
    values: Sequence[Values],
    given: Sequence[Values],
    wanted: Sequence[str],
) -> list[frozenset[str]]:
    """For each kernel the ``wanted`` expressions that have no value without doubted figures."""
    doubted = [s.doubted_figures.keys() for s in subjects]
    if not any(doubted):
        return [frozenset()] * len(subjects)
    sound = [
        {n: None if n.removeprefix(rules.PEAK) in wrong else v for n, v in s.inputs.items()}
        for s, wrong in zip(subjects, doubted, strict=True)
    ]
    loads = [
        {n: v if wrong.isdisjoint(rules.metrics_of(target, n)) else None for n, v in one.items()}
        for one, wrong in zip(given, doubted, strict=True)
    ]
    without = evaluate(target, sound, wanted, loads)
    return [
        frozenset(e for e in wanted if one[e] is not None and other[e] is None)
        for one, other in zip(values, without, strict=True)
    ]


def find_undefined(
    target: str, subjects: Sequence[DiagnosisSubject], values: Sequence[Values], given: Sequence[Values]
) -> list[frozenset[str]]:
    """For each kernel the expressions that have no value although everything they read was counted, found by replacing
    each 0/0 with a number."""
    if not any(s.undefined_inputs for s in subjects):
        return [frozenset()] * len(subjects)
    filled = [{**s.inputs, **dict.fromkeys(s.undefined_inputs, _ANY)} for s in subjects]
    measured_loads = loads_of.measured_loads(target, [s.inputs for s in subjects])
    loads = loads_of.measured_loads(target, filled)
    # A load that has counters but is not among the given ones is impossible; it stays unknown.
    known = [
        {n: with_any.get(n) if v is None and one.get(n) is None else v for n, v in stated.items()}
        for stated, one, with_any in zip(given, measured_loads, loads, strict=True)
    ]
    filled_in = evaluate(target, filled, list(values[0]), known)
    return [
        frozenset(e for e, value in one.items() if value is None and other[e] is not None)
        for one, other in zip(values, filled_in, strict=True)
    ]
