"""The load that a kernel puts on each hardware unit; rooflines, diagnoses and their texts are all derived from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from ..base.notes import Reason
from ..catalogue import rules
from ..catalogue.formula import paths
from ..catalogue.thresholds import threshold
from ..catalogue.vocabulary import in_vendor_terms
from ..engine.expressions import Values, evaluate

REACHED = threshold("roofline.reached_pct")
"""A unit with at least this load, in percent, is the limit, and waiting is a consequence of it."""
OF_THEORY = threshold("roofline.reached_of_theory_pct")
"""The same threshold for counted work compared with a theoretical peak, of which kernels reach less."""
IMPOSSIBLE = threshold("figures.impossible_pct")
"""A load above this means that a counter or a clock is wrong, so it is not used for decisions."""
_SIGNAL, _RATE = "load.", "_gbs"
_ISSUE, _PIPE = "issue", "valu"
_UNIT_OF = {"valu.issue": _ISSUE}
"""Pipes of the mixed-pipe view whose unit has a different name."""
_SUBSYSTEM_OF = {_ISSUE: _PIPE}
_SAME = threshold("roofline.same_load")
_IDLE = threshold("roofline.idle_pct")
_APART = threshold("roofline.load_difference_points")
_CACHED = Reason("above_ceiling", "a cache in front of it answers part of the traffic")
_TOO_MUCH = Reason("above_limit", "more than possible: a counter, a clock or a time is wrong")
UNKNOWN = Reason("no_value", "its counters were not collected, or do not determine it")


@dataclass(frozen=True)
class Load:
    """The load of one unit: how much of what it can sustain a kernel uses, in percent.

    ``cycles_pct`` comes from the unit's own counters (busy cycles, or its rate relative to its peak), ``work_pct`` is
    the least time of the counted work at the ceiling, as a share of the run time. ``pct`` is the larger of the two, or
    None if neither is known: the work does not include stalls and conflicts, and the cycles do not take into account
    that a ceiling is below the peak.
    """

    unit: str
    label: str
    pct: float | None
    cycles_pct: float | None
    work_pct: float | None
    status: Literal["ok", "suspect", "impossible", "not_collected"]
    reason: Reason | None = None
    decides: Annotated[bool, Field(exclude=True)] = False
    """Whether no verdict is possible while this load is unknown: true for pipes and levels, not for special units."""

    at_least: Annotated[bool, Field(exclude=True)] = False
    """Whether the load is a lower bound: the counters of the unit, which include stalls, were not collected."""

    of_theory: Annotated[bool, Field(exclude=True)] = False
    """Whether the load is counted work relative to a theoretical peak, and no cycle counter shows a higher load."""

    @property
    def is_at_limit(self) -> bool:
        """Whether the unit is at its limit."""
        by_theory = self.of_theory and self.work_pct is not None and self.work_pct >= OF_THEORY
        return self.pct is not None and (self.pct >= REACHED or by_theory)

    @property
    def is_deduced(self) -> bool:
        """Whether it is a bound from figures of several units, or of a part of the unit's work."""
        return self.reason is not None and self.reason.code == "deduced"

    @property
    def signal(self) -> str:
        """The name of the load in the expressions of rules."""
        return _SIGNAL + self.unit

    @property
    def value_for_rules(self) -> float | None:
        """The value that rules use: None if it is impossible, or a lower bound that does not reach the limit."""
        return None if self.status == "impossible" or (self.at_least and not self.is_at_limit) else self.pct

    @property
    def words(self) -> str:
        """The load as part of a line of text; shows both figures if cycles and work differ."""
        if self.pct is None:
            return f"{self.label} ?"
        text = f"{self.label} {self.pct:.3g} %"
        if self.status == "impossible":
            return f"{text} (impossible)"
        if self.is_deduced:
            return f"{self.label} {self.reason} {self.pct:.3g} %"
        if self.work_pct is not None and self.work_pct > IMPOSSIBLE >= self.pct:
            return f"{text} ({self.work_pct:.3g} % of the ceiling by work)"
        if self.cycles_pct is not None and self.work_pct is not None and self.cycles_pct - self.work_pct >= _APART:
            return f"{text} (busy cycles; its counted work needs {self.work_pct:.3g} %)"
        return text


@dataclass(frozen=True)
class Limit:
    """A unit at its limit: the subsystem and severity expression of the rule that found it, and its load."""

    subsystem: str
    severity: str
    pct: float
    words: str
    weight: float
    """The load as a share of the highest load that kernels reach in practice."""


def loads_text(loads: Iterable[Load]) -> str:
    """The loads of all units in one line; nearly idle units are summarised."""
    every = list(loads)
    texts = [load.words for load in every if load.pct is None or load.pct >= _IDLE]
    return ", ".join([*texts, *([f"all others below {_IDLE:.0f} %"] if len(texts) < len(every) else [])])


@cache
def label_of(name: str, target: str) -> str:
    """The label of the unit of a pipe or level."""
    unit = _UNIT_OF.get(name, name)
    label = next((s.label for s in rules.signals_and_rules()[0] if s.name == _SIGNAL + unit and s.label), unit)
    return in_vendor_terms(label, target)


def signals_of_loads(target: str) -> list[str]:
    """The signals that are loads of units, in the order of the catalogue.

    If the counters do not distinguish issue from the arithmetic pipe, both are one unit.
    """
    names = [name for name in rules.signals(target) if name.startswith(_SIGNAL)]
    return [name for name in names if not (_issues_as_pipe(target) and name == _SIGNAL + _ISSUE)]


def loads_by_signal(target: str, loads: Iterable[Load]) -> dict[str, Load]:
    """The loads by their signal names; issue gets the load of the arithmetic pipe if both are one unit."""
    known = {load.signal: load for load in loads}
    if _issues_as_pipe(target) and _SIGNAL + _PIPE in known:
        known[_SIGNAL + _ISSUE] = known[_SIGNAL + _PIPE]
    return known


def _issues_as_pipe(target: str) -> bool:
    issue, pipe = (rules.signals(target).get(_SIGNAL + unit) for unit in (_ISSUE, _PIPE))
    return (issue and issue.expressions) == (pipe and pipe.expressions)


def measured_loads(target: str, inputs: Sequence[Values]) -> list[dict[str, float | None]]:
    """For each kernel the loads that the units' own counters show, by signal; ``inputs`` are inputs of expressions."""
    return evaluate(target, inputs, signals_of_loads(target))


def deductions(target: str, inputs: Sequence[Values]) -> list[dict[str, str]]:
    """For each kernel the loads that other figures only deduce, by signal, each with the words for how near it is."""
    every = {name: one for name, one in rules.signals(target).items() if one.deductions}
    evaluated = evaluate(target, inputs, [sql for stated in every.values() for sql in stated.expressions])
    used = [
        {n: next((e for e in stated.expressions if one[e] is not None), "") for n, stated in every.items()}
        for one in evaluated
    ]
    return [{n: how for n, e in one.items() if (how := every[n].deductions.get(e))} for one in used]


@dataclass(frozen=True)
class Share:
    """The least time that one pipe or level needs for the work of a kernel, or the time that a unit is busy, as a share
    of the kernel's run time.

    If ``value`` is None, ``reason`` says why.
    """

    value: float | None
    reason: Reason | None = None
    spare: float | None = 0.0
    """The part of the share that dense accesses would save, or None if unknown."""
    doubt: Reason | None = None
    """The reason if its figures are built on doubted counters or times."""
    cached: bool = False
    """Whether a cache in front of the level may deliver more than the level itself could."""
    of_theory: bool = False
    """Whether it is relative to a theoretical ceiling."""


def loads_of_units(
    target: str,
    measured: Values,
    work: Mapping[str, Share],
    busy: Mapping[str, Share],
    deduced: Mapping[str, str],
) -> list[Load]:
    """The loads of one kernel.

    ``measured`` maps signals to the loads by counters, in percent; ``work`` maps pipes and levels to their least times;
    ``busy`` maps units (as valu_busy) to their shares of busy cycles, which replace unknown signals. ``deduced`` maps
    the signals that other figures only deduce to how near they are ("at most").
    """
    known = [name.removeprefix(_SIGNAL) for name in signals_of_loads(target)]
    parts: dict[str, list[Share]] = {}
    rates = _rates(target)
    for name, part in work.items():
        unit = _UNIT_OF.get(name, name)
        parts.setdefault(_SUBSYSTEM_OF.get(unit, unit) if unit not in known else unit, []).append(part)
    loads = []
    for unit in dict.fromkeys([*known, *parts]):
        cycles, mine = measured.get(_SIGNAL + unit), parts.get(unit, [])
        load = _load(unit, label_of(unit, target), cycles, mine, busy.get(f"{unit}_busy"))
        if (how := deduced.get(load.signal)) and load.status == "ok" and load.pct == load.cycles_pct:
            load = replace(load, status="suspect", reason=Reason("deduced", how))
        lower, by_theory = unit in known and cycles is None, _of_theory(cycles, mine, unit in rates)
        loads.append(replace(load, decides=bool(mine), at_least=lower, of_theory=by_theory))
    return loads


def _load(unit: str, label: str, cycles: float | None, work: Sequence[Share], busy: Share | None) -> Load:
    if cycles is None and busy is not None and busy.value is not None:
        cycles = 100 * busy.value
    fullest = max((part for part in work if part.value is not None), key=lambda p: p.value or 0.0, default=None)
    by_work = None if fullest is None or fullest.value is None else 100 * fullest.value
    pct = _larger(cycles, by_work)
    if pct is None:
        reason = next((part.reason for part in work if part.reason), UNKNOWN)
        return Load(unit, label, None, None, None, "not_collected", reason)
    doubt = (fullest.doubt if fullest else None) or (busy.doubt if busy else None)
    if pct > IMPOSSIBLE and fullest is not None and fullest.cached:
        return Load(unit, label, pct, cycles, by_work, "suspect", _CACHED)
    if pct > IMPOSSIBLE:
        return Load(unit, label, pct, cycles, by_work, "impossible", doubt or _TOO_MUCH)
    return Load(unit, label, pct, cycles, by_work, "suspect" if doubt else "ok", doubt)


def _rates(target: str) -> set[str]:
    """The units whose counters give a rate relative to a peak rather than busy cycles."""
    return {
        name.removeprefix(_SIGNAL)
        for name, signal in rules.signals(target).items()
        if name.startswith(_SIGNAL)
        and all(n.startswith(rules.PEAK) or n.endswith(_RATE) for n in paths(signal.expressions[0]))
    }


def _of_theory(cycles: float | None, work: Sequence[Share], rate: bool) -> bool:
    most = max((part.value for part in work if part.of_theory and part.value is not None), default=None)
    return most is not None and (cycles is None or rate or 100 * most >= cycles - _SAME)


def _larger(cycles: float | None, by_work: float | None) -> float | None:
    if cycles is None or by_work is None:
        return by_work if cycles is None else cycles
    # A ceiling that the kernel exceeds is not a valid reference if the unit's own counters show its load.
    return cycles if by_work > IMPOSSIBLE >= cycles else max(cycles, by_work)


def units_at_limit(target: str, inputs: Sequence[Values], loads: Sequence[Sequence[Load]]) -> list[list[Limit]]:
    """For each kernel the units at their limit, the one nearest to its reachable maximum first.

    The rules of kind "limit" decide which units these are, because one unit can keep another one busy; a unit that no
    rule of the target reads is judged by its load alone.
    """
    limits = [rule for rule in rules.rules(target) if rule.kind == "limit"]
    ruled = {name for rule in limits for e in rule.decisive for name in paths(e)}
    given = [{n: load.value_for_rules for n, load in loads_by_signal(target, every).items()} for every in loads]
    decided = evaluate(target, inputs, [e for rule in limits for e in rule.decisive], given)
    limits_of_kernels = []
    for values, every in zip(decided, loads, strict=True):
        by_signal = {load.signal: load for load in every}
        reached = []
        for rule in limits:
            severity, load = values[rule.severity], by_signal.get(rule.severity)
            if not values[rule.when] or not severity or severity > IMPOSSIBLE:
                continue
            if load.is_at_limit if load else severity >= REACHED:
                words = load.words if load else f"{rule.subsystem} {severity:.3g} %"
                reached.append(Limit(rule.subsystem, rule.severity, severity, words, 100 * severity / rule.most))
        for load in every:
            free = load.signal not in ruled or (load.pct or 0.0) > IMPOSSIBLE
            if free and load.pct and load.is_at_limit and load.status != "impossible":
                subsystem = _SUBSYSTEM_OF.get(load.unit, load.unit)
                reached.append(Limit(subsystem, load.signal, load.pct, load.words, load.pct))
        limits_of_kernels.append(sorted(reached, key=lambda one: -one.weight))
    return limits_of_kernels
