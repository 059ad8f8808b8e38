"""Ranks the rules of one kernel: which holds, how much it weighs, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..catalogue.rules import Rule
from ..engine.expressions import Values
from ..rooflines.loads import IMPOSSIBLE, REACHED

State = Literal["holds", "fails", "unknown"]
CONFIDENT = 0.5
"""A verdict below this may be overturned by counters that are missing."""
_BEST, _SUPPORT, _CONTRADICTION, _NARROW = 0.95, 0.05, 0.15, 0.15
_CLOSE = 0.85
"""A rival this near in severity makes the verdict a close one."""
_WEAK = 0.4
"""What a wait or a near limit of no weight loses against one that explains everything."""
_UNDECIDED, _EACH_MORE = 0.45, 0.95
GATE, LAST = -1, 2
_DOUBTED = 0.65
"""A verdict on doubted counters or times is never a confident one."""


@dataclass(frozen=True)
class Weighed:
    """One rule on one kernel.

    ``tier`` -1 is a gate, 0 explains, 1 is a limit that is reached, 2 a wait or a limit that is near.
    """

    rule: Rule
    state: State
    severity: float
    tier: int
    supports: dict[str, bool | None]
    against: dict[str, bool | None]

    @property
    def weight(self) -> float:
        """The severity as a share of the most that kernels reach of it."""
        return self.severity * 100 / self.rule.most

    @property
    def order(self) -> tuple[int, float]:
        """Sorts the most telling first."""
        return (LAST + 1 if self.rule.kind == "sign" else self.tier, -self.weight)


def weigh(
    rule: Rule, values: Values, void: frozenset[str] = frozenset(), reached: frozenset[str] | None = None
) -> Weighed:
    """One rule's state from the values of its expressions; a severity that cannot be computed leaves it unknown.

    ``reached`` are the severities of limits that the loads of units show to be reached, as the roofline has them.
    On a share of nothing (``void``: a 0/0 in it) no rule holds, and nothing supports or contradicts one.
    """
    when, severity = values[rule.when], values[rule.severity]
    state: State = "fails" if when == 0 else "unknown" if when is None or severity is None else "holds"
    if state == "unknown" and (rule.when in void or (when is not None and rule.severity in void)):
        state = "fails"
    if state == "holds" and (severity or 0.0) > IMPOSSIBLE:
        state = "unknown"
    tier = {"gate": GATE, "cause": 0, "limit": 1}.get(rule.kind, LAST)
    far = (severity or 0.0) < REACHED if reached is None else rule.severity not in reached
    if state == "holds" and rule.kind == "limit" and far:
        tier = LAST
    supports, against = (_truths(stated, values, void) for stated in (rule.supports, rule.against))
    return Weighed(rule, state, severity or 0.0, tier, supports, against)


def behind_the_gate(weighed: list[Weighed]) -> list[Weighed]:
    """The rules that count: a gate that holds alone, else all; a gate that lacks a counter leaves a verdict open."""
    return [w for w in weighed if w.rule.kind == "gate" and w.state == "holds"][:1] or weighed


def best(weighed: list[Weighed]) -> Weighed | None:
    """The rule that gives the verdict: a cause before a limit that is reached before all else, then by severity."""
    holding = [w for w in weighed if w.state == "holds" and w.rule.kind != "sign"]
    return min(holding, key=lambda w: w.order) if holding else None


def doubts(weighed: list[Weighed], chosen: Weighed | None) -> list[Weighed]:
    """The rules whose counters are missing and that could have gone before the chosen one."""
    last = chosen.tier if chosen else LAST
    rules = [w for w in weighed if w.state == "unknown" and not w.rule.optional and w.rule.kind != "sign"]
    return [w for w in rules if w.tier <= last]


def confidence(weighed: list[Weighed], chosen: Weighed | None, doubted: bool = False) -> float:
    """How sure the verdict is, 0 to 1.

    With every rule decided that could overturn it: 0.95, less for absent support, contradicting evidence, a limit
    near or just reached, a wait that explains only part of the time and a close rival, but at least 0.5. With n of them
    undecided: 0.45 x 0.95^(n - 1). What is missing counts like what speaks against, so taking a counter away never
    raises it. At most 0.65 where what decides is ``doubted``, and 0.5 behind a gate, which says what is not the limit.
    """
    if chosen is None:
        return 0.0
    if chosen.tier == GATE:
        return CONFIDENT
    if n := len(doubts(weighed, chosen)):
        return _UNDECIDED * _EACH_MORE ** (n - 1)
    sure = _BEST
    sure -= _SUPPORT * sum(true is not True for true in chosen.supports.values())
    sure -= _CONTRADICTION * sum(true is not False for true in chosen.against.values())
    rivals = [
        w.weight
        for w in weighed
        if w.state == "holds" and w.tier == chosen.tier and w.rule.kind != "sign"
        and w.rule.subsystem != chosen.rule.subsystem
    ]  # fmt: skip
    if max(rivals, default=0.0) >= _CLOSE * chosen.weight:
        sure -= _NARROW
    if chosen.tier == LAST:
        sure -= _WEAK * (1 - min(chosen.severity, 100.0) / 100)
    if chosen.rule.kind == "limit" and chosen.severity < REACHED / _CLOSE:
        sure -= _NARROW
    return max(CONFIDENT, min(sure, _DOUBTED) if doubted else sure)


def _truths(expressions: list[str], values: Values, void: frozenset[str]) -> dict[str, bool | None]:
    return {e: False if e in void else None if values[e] is None else bool(values[e]) for e in expressions}
