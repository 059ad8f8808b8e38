"""What holds each kernel back: decides and ranks the rules, and turns them into findings with speed-up bounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Annotated

from pydantic import Field

from ..base.digits import digits
from ..base.notes import Reason
from ..base.problems import BadInput
from ..catalogue import metrics as catalog
from ..catalogue import rules
from ..catalogue.formula import paths
from ..catalogue.metrics import targets_with_metrics
from ..catalogue.rules import BOUNDS, Advice, Bound, Rule
from ..catalogue.thresholds import threshold
from ..catalogue.vocabulary import entry_in_vendor_terms
from ..engine.evaluation import judge_share
from ..engine.expressions import Values, evaluate
from ..planning.plan import plan
from ..rooflines import limits
from ..rooflines.inputs import RooflineRequest, prepare_inputs
from ..rooflines.loads import Load, loads_by_signal, loads_text
from ..workload import Workload
from .account import AccountPart, device_time_account, wave_time_account
from .evidence import (
    GATE,
    UNDECIDED,
    Evidence,
    Weighed,
    behind_the_gate,
    gather,
    limits_beside,
    open_rules_beside,
    strongest_rule,
    verdict_confidence,
    weigh,
)
from .gains import (
    SPREAD,
    ChangeGain,
    gains,
    next_limit,
    own_traffic,
    program_bound,
    speedup_bound,
    why_unbounded,
)
from .kernel_figures import (
    Case,
    DiagnosisSubject,
    above_their_whole,
    find_doubt_dependent,
    find_undefined,
    subjects,
)

_MOST = 8
"""The most metrics in one request; for more, a preset is better."""
_FLAT = 1_000_000
_CONFIGURATIONS = 3
"""The most launch configurations of a kernel that are reported as rows of their own."""
_WEIGHTY = threshold("diagnosis.configuration_share")
_DIFFERENT_PCT = threshold("diagnosis.configuration_points")


@dataclass(frozen=True)
class Verdict:
    """What holds the kernel back first. Below a confidence of 0.5, missing counters may overturn it.

    ``bound`` is the kind of limit that is reached, or latency if no unit is at its limit, as in the roofline.

    ``speedup_bound`` is for this kernel alone, ``program_bound`` for the time of all kernels together (Amdahl's law).
    Both assume the traffic of this version of the kernel, which ``own_traffic`` states. ``doubt`` is the reason why the
    deciding figures are unreliable, if a check doubts them.
    """

    subsystem: str
    bound: Bound
    confidence: float
    speedup_bound: Annotated[float | None, digits(".3g")]
    program_bound: Annotated[float | None, digits(".3g")] = None
    own_traffic: str | None = None
    doubt: Reason | None = None
    beside: list[str] | None = None
    """Further subsystems whose units are about as loaded: then no change that relieves one unit gains much."""


@dataclass(frozen=True)
class Finding:
    """The case for one subsystem; severity is 0 to 100. ``then`` says what would hold the kernel back next without this
    cause, ``tried`` lists the outcomes of earlier changes of the kernel."""

    subsystem: str
    severity: Annotated[float, digits(".1f")]
    claim: str
    speedup_bound: Annotated[float | None, digits(".3g")]
    evidence: list[Evidence]
    contradicting: list[Evidence]
    advice: list[Advice]
    falsify: str | None
    then: str | None = None
    tried: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MetricRequest:
    """Metrics that would decide between subsystems, and the number of passes needed to collect them."""

    metrics: list[str]
    decides: list[str]
    passes: int


@dataclass(frozen=True)
class Diagnosis:
    """One kernel: its rank and share of the time, the verdict, the findings by weight, and what would decide open
    rules.

    ``number`` selects it when written after a "#"; for a launch configuration it is the kernel's rank and its own.
    """

    rank: int
    number: str
    kernel: str
    loads: str
    """The load of each unit in one line; everything below is derived from these figures."""
    share_pct: Annotated[float | None, digits(".2f")]
    launches: int
    verdict: Verdict
    findings: list[Finding]
    next_counters: list[MetricRequest]
    undecided: list[str]
    """What stays open although collecting counters would not help, with the reasons, and why there is no bound."""
    device_time: list[AccountPart] = field(default_factory=list)
    """What the device does from start to end; the parts add up to 100 %."""
    wave_time: list[AccountPart] = field(default_factory=list)
    """What waves spend their lifetime on, the largest part first; likewise."""
    changes: list[ChangeGain] = field(default_factory=list)
    """What each kind of change that applies could gain, the largest expected gain first."""
    lines: list[str] = field(default_factory=list)
    """The code lines with samples waiting for the subsystem of the verdict, hottest first; empty without samples."""
    units: Annotated[list[Load], Field(exclude=True)] = field(default_factory=list)
    """The loads as separate values, for further computations."""


def diagnose(workload: Workload, *, kernel: str | None = None, limit: int | None = None) -> tuple[list[Diagnosis], int]:
    """Diagnose the selected kernels, longest total time first, at most ``limit``, and return how many there are in
    total.

    Raises BadInput for a device without rules or a profile without counters, NotFound if no kernel matches.
    """
    if not workload.manifest.counters:
        shown = (
            "find_hotspots shows their lines" if workload.has("samples") else "list_workloads shows the kernels by time"
        )
        raise BadInput(
            f"Workload {workload.manifest.name!r} has no counters",
            "times and sizes of launches alone do not show what limits its kernels",
            f"plan_profile lists the counters to collect; {shown}",
        )
    return _diagnoses(workload, kernel, limit)


def diagnose_launches(workload: Workload, *, kernel: str | None = None, limit: int | None = None) -> list[Diagnosis]:
    """The kernels of a workload without counters whose launches alone show what limits them, of the ``limit`` longest.

    Nothing for a device without rules.
    """
    if not workload.has("dispatches") or workload.arch not in targets_with_metrics():
        return []
    return [one for one in _diagnoses(workload, kernel, limit)[0] if one.verdict.subsystem != "unknown"]


def _diagnoses(workload: Workload, kernel: str | None, limit: int | None) -> tuple[list[Diagnosis], int]:
    target = workload.arch
    kernels, total = subjects(workload, kernel, limit)
    if not kernels:
        return [], total
    stated = rules.rules(target)
    # Each name is also evaluated as an expression of its own, so that claims and evidence can show the values of
    # signals.
    expressions = [n for rule in stated for e in rule.expressions for n in [*paths(e), e]]
    views = _views(workload, kernels)
    unit_loads = [view.loads if (view := views.get(one.kernel)) else [] for one in kernels]
    loads = [{n: load.value_for_rules for n, load in loads_by_signal(target, every).items()} for every in unit_loads]
    inputs = [one.inputs for one in kernels]
    expressions += [n for rule in stated for n in rule.claim_names]
    expressions += [expression for part in rules.parts(target).values() for expression in part.expressions]
    expressions += [expression for change in rules.changes(target) for expression in change.expressions]
    expressions += [SPREAD] if SPREAD in rules.signals(target) else []
    values = evaluate(target, inputs, expressions, loads)
    undefined = find_undefined(target, kernels, values, loads)
    above = above_their_whole(target, kernels)
    hinges = find_doubt_dependent(
        target, kernels, values, loads, [rule.when for rule in stated if rule.kind == "limit"]
    )
    cases = [
        Case(workload.id, target, subject, of_kernel, empty, views.get(subject.kernel), too_much, open_without)
        for subject, of_kernel, empty, too_much, open_without in zip(
            kernels, values, undefined, above, hinges, strict=True
        )
    ]
    return [_diagnosis(case, stated, counted=bool(workload.manifest.counters)) for case in cases], total


def diagnose_apart(
    workload: Workload, *, kernel: str | None = None, limit: int | None = None
) -> tuple[list[Diagnosis], int]:
    """Diagnose like ``diagnose``, but report a kernel as its launch configurations if these differ in what limits them.

    Only configurations with a tenth of the kernel's time or more count, and at most three are reported.
    """
    diagnoses, total = diagnose(workload, kernel=kernel, limit=limit)
    if workload.by == "launch":
        return diagnoses, total
    several = {d.kernel for d in diagnoses if workload.kernels[d.kernel].configurations > 1}
    if not several:
        return diagnoses, total
    with Workload(workload.store, workload.manifest, "launch") as by_launch:
        return [
            each for d in diagnoses for each in (_split_by_limit(by_launch, d) if d.kernel in several else [d])
        ], total


def _split_by_limit(by_launch: Workload, whole: Diagnosis) -> list[Diagnosis]:
    """The configurations of a kernel if their accounts differ, otherwise the kernel as a whole."""
    numbers = [f"#{one.number}" for one in by_launch.kernels.values() if one.number.split(".")[0] == whole.number]
    every = diagnose(by_launch, kernel=",".join(numbers[:_CONFIGURATIONS]))[0] if whole.share_pct else []
    weighty = [d for d in every if (d.share_pct or 0.0) >= _WEIGHTY * (whole.share_pct or 0.0)]
    known = [d for d in weighty if d.verdict.subsystem != "unknown"]
    differ = any(_accounts_differ(known[0], other) for other in known[1:])
    return weighty if differ else [whole]


def _accounts_differ(one: Diagnosis, other: Diagnosis) -> bool:
    """Whether two configurations are limited by different subsystems, and a part of their accounts is far apart."""
    if one.verdict.subsystem == other.verdict.subsystem:
        return False
    for account, against in ((one.device_time, other.device_time), (one.wave_time, other.wave_time)):
        before, after = ({p.title: p.pct or 0.0 for p in parts} for parts in (account, against))
        if any(abs(before.get(title, 0.0) - after.get(title, 0.0)) >= _DIFFERENT_PCT for title in before | after):
            return True
    return False


def _views(workload: Workload, subjects: list[DiagnosisSubject]) -> dict[str, limits.KernelLimits]:
    """The mixed-pipe view and the loads of each kernel."""
    known = {one.kernel: one.inputs for one in subjects}
    prepared = prepare_inputs(workload, RooflineRequest(kernel=list(known)), known=known)
    return {one.kernel: one for one in limits.limits_of_kernels(prepared)}


def _diagnosis(case: Case, stated: tuple[Rule, ...], *, counted: bool) -> Diagnosis:
    """The diagnosis of a kernel; without counters, what they would decide does not count as open."""
    weighed = behind_the_gate(
        [weigh(rule, case.values, case.undefined_expressions, case.reached_severities) for rule in stated]
    )
    if not counted:
        weighed = [one for one in weighed if one.state != "unknown"]
    chosen = strongest_rule(weighed)
    doubt = (_doubt(case, chosen.rule) or _ruled_out(case, weighed, chosen)) if chosen else None
    by_subsystem: dict[str, list[Weighed]] = {}
    by_parts = chosen is not None and chosen.rule.kind == "part"
    holding = [w for w in weighed if w.state == "holds" and (by_parts or w.rule.kind != "part")]
    for one in sorted(holding, key=lambda w: w.order):
        by_subsystem.setdefault(one.rule.subsystem, []).append(one)
    open_rules = [w.rule for w in open_rules_beside(weighed, chosen)]
    subsystem = chosen.rule.subsystem if chosen else "unknown"
    bound = speedup_bound(chosen.rule, case) if chosen else None
    confidence = verdict_confidence(weighed, chosen, doubt is not None)
    # A part of the waves' lifetime is not certain while the load of a unit is unknown, nor is a load that is deduced.
    unknown = [load.label for load in case.unit_loads if load.decides and load.pct is None] if by_parts else []
    deduced = chosen is not None and any(
        name in case.loads and case.loads[name].is_deduced for name in paths(chosen.rule.severity)
    )
    changes = gains(case)
    findings = [_finding(case, holding, changes) for holding in by_subsystem.values()]
    if library := rules.library_kernel(case.subject.kernel):
        # Bounds are those of the kernel as it is, but a call that asks for less work is not limited by them.
        advice = entry_in_vendor_terms(library, case.target).advice
        own = [one.model_copy(update={"gain": (None, None)}) for one in advice]
        findings = [replace(finding, advice=[] if n else own) for n, finding in enumerate(findings)]
    return Diagnosis(
        rank=case.subject.rank,
        number=case.subject.number,
        kernel=case.subject.kernel,
        loads=loads_text(case.unit_loads),
        share_pct=case.subject.share_pct,
        launches=case.subject.launches,
        verdict=Verdict(
            subsystem,
            _bound_kind(case, chosen),
            round(min(confidence, UNDECIDED) if unknown or deduced else confidence, 3),
            bound,
            program_bound(case.subject.share_pct, bound),
            own_traffic(case.view),
            doubt,
            list(dict.fromkeys(w.rule.subsystem for w in limits_beside(weighed, chosen))) or None if chosen else None,
        ),
        findings=findings,
        next_counters=requests(case, open_rules),
        undecided=[
            *undecided_reasons(case, open_rules),
            *filter(None, [why_unbounded(chosen.rule, case) if chosen else None]),
            *_explained_by_unknown_loads(subsystem, unknown),
        ],
        device_time=device_time_account(case.target, case.values, case.unit_loads),
        wave_time=wave_time_account(case.target, case.values),
        changes=changes,
        units=case.unit_loads,
    )


def _explained_by_unknown_loads(subsystem: str, units: list[str]) -> list[str]:
    """Say that units with an unknown load could explain the waiting; nothing if there are none."""
    named = " and ".join(units)
    return [f"{subsystem}: not certain, because the load of {named} is unknown and could explain it"] if units else []


def _bound_kind(case: Case, chosen: Weighed | None) -> Bound:
    """The kind of limit according to the loads, as in the roofline, or that of the subsystem if the loads do not show
    it."""
    if case.impossible:
        return "unknown"
    if case.view is not None and case.view.bound != "unknown" and chosen and chosen.tier != GATE:
        return case.view.bound
    return BOUNDS[chosen.rule.subsystem if chosen else "unknown"]


def _doubt(case: Case, rule: Rule) -> Reason | None:
    """Why a figure that decides a rule is unreliable: it is doubted itself, or the kernel cannot have been that
    fast."""
    if case.impossible:
        listed = ", ".join(load.words for load in case.impossible)
        return Reason("doubted", f"{listed}: a counter, a clock or the time is wrong")
    read = dict.fromkeys(m for e in rule.decisive for m in rules.metrics_of(case.target, e))
    reasons = [f.reason for name in read if (f := case.subject.figures.get(name)) is not None]
    named = [case.loads[n] for e in rule.decisive for n in paths(e) if n in case.loads]
    # The metrics cover the unit's own counters; the counted work decides if it is larger.
    reasons += [load.reason for load in named if load.status == "suspect" and load.pct == load.work_pct]
    return next((reason for reason in reasons if reason and reason.code == "doubted"), None)


def _ruled_out(case: Case, weighed: list[Weighed], chosen: Weighed) -> Reason | None:
    """Why a limit that would come before the chosen rule is not reliably ruled out."""
    before = [w.rule for w in weighed if w.state == "fails" and w.tier <= chosen.tier and w.rule.kind == "limit"]
    for rule in (rule for rule in before if rule.when in case.doubt_dependent):
        read = rules.metrics_of(case.target, rule.when)
        reason = next((r for name, r in case.subject.doubted_figures.items() if name in read), None)
        if reason:
            return Reason("doubted", f"{rule.subsystem} is ruled out by doubted figures: {reason}")
    return None


def _finding(case: Case, holding: list[Weighed], changes: list[ChangeGain]) -> Finding:
    """Combine all rules of one subsystem into one finding; the first rule gives severity, bound and falsification."""
    known = {gain.change: (gain.expected, gain.at_most) for gain in changes}
    first = holding[0]
    if first.rule.kind == "cause":
        holding = [w for w in holding if w.rule.kind == "cause"]  # it already covers what limits and signs would repeat
    supports = [e for e, true in first.supports.items() if true]
    opposed = [e for e, true in first.against.items() if true]
    decided = list(dict.fromkeys(w.rule.when for w in holding))
    # Signs are more specific than the rules that they accompany, so their advice comes first.
    advice = {
        a.do: a.model_copy(update={"gain": known.get(a.change or w.rule.change or "")})
        for w in sorted(holding, key=lambda w: w.rule.kind != "sign")
        for a in w.rule.advice
    }
    return Finding(
        subsystem=first.rule.subsystem,
        severity=first.severity,
        claim=" ".join(claim(w.rule, case.display_values) for w in holding),
        speedup_bound=speedup_bound(first.rule, case),
        evidence=gather(case, [*decided, *supports]),
        contradicting=gather(case, opposed),
        advice=list(advice.values()),
        falsify=first.rule.falsify,
        then=next_limit(first.rule, case),
    )


def claim(rule: Rule, values: Values) -> str:
    """The claim of a rule with its figures filled in; an unknown figure is shown as "?"."""
    parts = []
    for text, name, _, _ in Formatter().parse(rule.claim):
        parts += [text, number(values.get(name)) if name else ""]
    return "".join(parts)


def number(value: float | None) -> str:
    """A number with three digits, without an exponent below a million."""
    if value is None:
        return "?"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < _FLAT else f"{value:.3g}"


def requests(case: Case, open_rules: list[Rule]) -> list[MetricRequest]:
    """The metrics to collect, one request per kind of rule, in the order of the kinds."""
    wanted = []
    for kind in rules.KINDS:
        here = [rule for rule in open_rules if rule.kind == kind]
        metrics = list(dict.fromkeys(m for r in here for e in (r.when, r.severity) for m in lacking(case, e)))[:_MOST]
        if metrics:
            subsystems = list(dict.fromkeys(rule.subsystem for rule in here))
            wanted.append(MetricRequest(metrics, subsystems, len(plan(case.target, metrics).passes)))
    return wanted


def undecided_reasons(case: Case, open_rules: list[Rule]) -> list[str]:
    """Why rules stay open although all their counters were collected: impossible figures, or unknown facts of the
    device."""
    sentences, signals = [], rules.signals(case.target)
    for rule in open_rules:
        if any(lacking(case, e) for e in rule.decisive):
            continue
        for name in dict.fromkeys(n for e in rule.decisive for n in paths(e)):
            if name in case.above and case.values.get(name) is None:
                sentences.append(f"{signals[name].title} ({name}): {judge_share(case.above[name])[1]}")
            if (load := case.loads.get(name)) and load.status == "impossible":
                sentences.append(f"{signals[name].title} ({name}): {number(load.pct)} %, {load.reason}")
        facts = (f for e in rule.decisive for f in rules.facts_of(case.target, e) if case.subject.inputs.get(f) is None)
        sentences += [f"{rule.subsystem}: device fact {f.removeprefix(rules.FACT)} unknown" for f in facts]
        for name in dict.fromkeys(m for e in rule.decisive for m in rules.metrics_of(case.target, e)):
            figure = case.subject.figures.get(name)
            if figure is not None and figure.reason and case.subject.inputs.get(name) is None:
                sentences.append(f"{rule.subsystem}: {name}: {figure.reason}")
    return list(dict.fromkeys(sentences))


def lacking(case: Case, expression: str) -> list[str]:
    """The metrics of an expression whose counters can be collected but were not; 0/0 and impossible ones were
    collected."""
    known = catalog.by_name(case.target)
    names = [m for n in paths(expression) if case.values.get(n) is None for m in rules.metrics_of(case.target, n)]
    unknown = [n for n in dict.fromkeys(names) if case.subject.inputs.get(n) is None and n in known]
    wrong = {n for n, figure in case.subject.figures.items() if figure.status == "impossible"}
    missing = [n for n in unknown if n not in case.subject.undefined_inputs and n not in wrong]
    return [n for n in missing if not known[n].imported_only and catalog.counters(case.target, known[n])]
