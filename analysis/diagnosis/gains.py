"""What a change could gain: the bounds of rules and of kinds of changes, by the units that stay loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..base.digits import digits
from ..catalogue import rules, targets
from ..catalogue.rules import Rule
from ..catalogue.thresholds import threshold
from ..rooflines import limits
from ..rooflines.loads import label_of
from .kernel_figures import Case

MORE_WAVES = "more_waves"
"""The change that more resident waves are, however they come about."""
LANES = "filled.lanes"
"""The signal of how many lanes of an average instruction are active, in percent."""
_BY_WAVE = {"nvidia": ("valu.issue",), "amd": ("valu", "valu.issue")}
"""Shares that count instructions of whole waves; NVIDIA counts the operations of vector pipes by active lane."""
SPREAD = "time.spread"
"""The signal of how much longer the longest replay of a launch took than the shortest one."""
_LEAST = threshold("diagnosis.least_gain")
_LAUNCH_NS = threshold("diagnosis.shortest_launch_ns")
_FAR = threshold("diagnosis.uncounted_unit_factor")
_L2 = ("l2",)
_USELESS = threshold("diagnosis.useless_bound")
_MOSTLY = threshold("diagnosis.mostly_spare")
_WASTEFUL = frozenset(("hbm", "l2", "vl1d", "lds"))
"""Units whose busy cycles can be conflicts or unused bytes: only their counted work bounds a speed-up."""


@dataclass(frozen=True)
class ChangeGain:
    """A kind of change: ``at_most`` times as fast with it (None: nothing known bounds it), and the expected factor.

    The bound assumes that everything overlaps and runs at its ceiling. For the expected gain, only the part of the
    time that the change addresses (``part_pct``) becomes shorter, by the bound: Amdahl's law within the kernel. It is
    not more than the busiest of the other units allows.
    """

    change: str
    title: str
    part_pct: Annotated[float, digits(".1f")]
    at_most: Annotated[float | None, digits(".3g")]
    expected: Annotated[float, digits(".3g")]


def gains(case: Case) -> list[ChangeGain]:
    """Return every change that applies to a kernel and could gain something, the largest expected gain first.

    Nothing if an impossible load shows that a counter or the time is wrong.
    """
    if case.impossible:
        return []
    every = [_gain(case, change) for change in rules.changes(case.target) if case.values.get(change.when)]
    known = [gain for gain in every if gain is not None and gain.expected >= _LEAST]
    return sorted(known, key=lambda gain: -gain.expected)


def _gain(case: Case, change: rules.Change) -> ChangeGain | None:
    part = case.values.get(change.part)
    if part is None:
        return None
    own = case.values.get(change.bound) if change.bound else None
    at_most = least_of(own, 1 / left if (left := _least_time(case, change)) else None)
    if at_most is not None and at_most > _USELESS and _uncounted_units(case, change, at_most):
        at_most = None
    expected = expected_gain(part, at_most)
    busiest = _busiest_unit(case, change)
    return ChangeGain(
        change.name, change.title, part, at_most, max(min(expected, 100 / busiest), 1.0) if busiest else expected
    )


def _busiest_unit(case: Case, change: rules.Change) -> float | None:
    """The highest load in percent of the units that a change does not relieve; None if it relieves them all.

    Busy cycles include conflicts and stalls, which other changes could remove, so this limits what is expected, not
    what is possible. Of the measured changes in eval/interventions, 43 of 388 instead of 56 of 398 are expected to gain
    more than twice what they gained, and the mean ratio is 1.21 instead of 1.35.
    """
    if change.dense:
        return None
    relieved = {"issue" if name == "valu.issue" else name for name in change.lifts}
    loads = [load.pct for load in case.loads.values() if load.unit not in relieved and load.status in ("ok", "suspect")]
    return max((pct for pct in loads if pct), default=None)


def _least_time(case: Case, change: rules.Change) -> float:
    """The longest least time that remains after a change, as a share of the run time: that of a unit, or of an empty
    launch."""
    left = [_LAUNCH_NS * case.view.n / case.view.time_ns] if case.view and case.view.time_ns else []
    return min(max([*left, *_remaining_shares(case, change).values()], default=0.0), 1.0)


def _remaining_shares(case: Case, change: rules.Change | rules.Rule) -> dict[str, float]:
    """The least times of the pipes and levels that remain loaded after a perfect change or the fix of a rule, as shares
    of the longest run time of its replays, because it is not known in which of them the time was measured.

    A level of which a dense change relieves most is not taken as a limit afterwards if threads request the same bytes
    several times (more than device memory transfers): the cache above it then answers requests that it could not keep
    the data of before.
    """
    known = {name: s for name, s in case.view.shares.items() if s.value is not None} if case.view else {}
    left = {n: (s.value or 0.0, s.spare if change.dense else 0.0) for n, s in known.items() if n not in change.lifts}
    traffic = case.view.traffic if case.view else None
    repeated = traffic is not None and (traffic.asked or 0.0) > traffic.carried
    longest = max(case.values.get(SPREAD) or 1.0, 1.0)
    return {
        name: (value - spare) / longest
        for name, (value, spare) in left.items()
        if spare is not None and value > spare and not (repeated and spare > _MOSTLY * value)
    }


def expected_gain(part_pct: float, at_most: float | None) -> float:
    """The speed-up if a part of the time, in percent, becomes ``at_most`` times as short (None: vanishes)."""
    part = min(max(part_pct, 0.0), 100.0) / 100
    left = 1 - part + (part / at_most if at_most else 0.0)
    return 1 / left if left > 0 else float("inf")


def least_of(*bounds: float | None) -> float | None:
    """The smallest known bound, at least 1."""
    known = [bound for bound in bounds if bound is not None]
    return max(min(known), 1.0) if known else None


def program_bound(share_pct: float | None, bound: float | None) -> float | None:
    """The speed-up of all kernels together if this one were ``bound`` times as fast (Amdahl's law).

    None without times or without a bound.
    """
    if share_pct is None or bound is None:
        return None
    share = share_pct / 100
    return 1 / (1 - share + share / bound)


def own_traffic(view: limits.KernelLimits | None) -> str | None:
    """The device memory traffic that a bound takes as given, and how much of it the threads requested, in words.

    None if it is unknown, or more than memory can transfer in the time.
    """
    if view is None or view.traffic is None:
        return None
    if any(load.unit == "hbm" and load.status == "impossible" for load in view.loads):
        return None
    carried, asked = view.traffic.carried, view.traffic.asked
    text = f"{amount(carried)} of device memory per launch"
    if not asked:
        return text  # nothing is loaded or stored: the traffic belongs to the launch itself
    return f"{text}; threads request {amount(asked)}{', the least without reuse' if asked < carried else ''}"


def amount(of_bytes: float) -> str:
    """An amount of bytes with three digits and a decimal unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if of_bytes >= size:
            return f"{of_bytes / size:.3g} {unit}"
    return f"{of_bytes:.0f} B"


def next_limit(rule: Rule, case: Case) -> str | None:
    """The unit that would be the next limit without a cause or a wait, and the speed-up at which it is reached."""
    left = {} if case.impossible or why_unbounded(rule, case) else _remaining_shares(case, rule)
    if rule.kind not in ("cause", "wait") or not left:
        return None
    name = max(left, key=lambda unit: left[unit])
    unit = label_of(name, case.target)
    return f"Without it, {unit} is the next limit: its work allows {1 / left[name]:.3g} times the speed."


def speedup_bound(rule: Rule, case: Case) -> float | None:
    """The run time divided by the longest least time of the pipes and levels that remain loaded after the fix, at least
    1.

    It assumes that everything overlaps perfectly and runs at its ceiling, so it is an upper bound; pipes that were not
    counted could only lower it. None if nothing known bounds it, if a unit that every kernel uses is unknown and could
    lower it considerably, or if an impossible load shows that a counter or the time is wrong.
    """
    bound = _known_bound(rule, case)
    return None if bound is None or why_unbounded(rule, case) else bound


def why_unbounded(rule: Rule, case: Case) -> str | None:
    """Why there is no bound: the work of the unit, of device memory or of the arithmetic pipe was not counted."""
    bound = _known_bound(rule, case)
    if bound is None and _limits_by_itself(rule, case):
        return f"{rule.subsystem}: no speedup_bound, because its busy cycles may be conflicts or unused bytes"
    if bound is None or bound <= _FAR or not (unknown := _uncounted_units(case, rule, bound)):
        return None
    units = " and ".join(unknown)
    return f"{rule.subsystem}: no speedup_bound, because the load of {units} is unknown and could lower it to 1"


def _uncounted_units(case: Case, change: rules.Change | rules.Rule, bound: float) -> list[str]:
    """The units whose work was not counted although every kernel uses them, and that a change does not relieve.

    For a bound that is too high to be of use, L2 is one of them.
    """
    shares = case.view.shares if case.view else {}
    lifted, units = set(change.lifts), [*limits.USED_BY_ALL, *([_L2] if bound > _USELESS else [])]
    stated = [names for names in units if shares.keys() & set(names) and not set(names) <= lifted]
    unknown = [names[0] for names in stated if all(shares[n].value is None for n in names if n in shares)]
    return [label_of(name, case.target) for name in unknown]


def _known_bound(rule: Rule, case: Case) -> float | None:
    """The speed-up bound from the units that were counted, or None."""
    if rule.kind == "gate" or case.impossible:
        return None
    left, lanes = _remaining_shares(case, rule), _useful_lanes(rule, case)
    by_wave = _BY_WAVE.get(targets.vendor_of(case.target) or "", ())
    shares = [value * (lanes if name in by_wave else 1.0) for name, value in left.items()]
    if _limits_by_itself(rule, case):
        if rule.subsystem in _WASTEFUL:
            return None
        shares.append((case.values.get(rule.severity) or 0.0) / 100 * lanes)
    own = case.values.get(rule.bound) if rule.bound else None
    return least_of(own, 1 / max(shares) if shares else None)


def _useful_lanes(rule: Rule, case: Case) -> float:
    """The share of a vector unit's work that is not wasted on idle lanes, 0 to 1, if that unit is the limit.

    Units execute an instruction for all lanes of a wave, so that the same work needs less of them once the lanes take
    one path.
    """
    lanes = case.values.get(LANES) if rule.subsystem == "valu" else None
    return 1.0 if lanes is None else min(lanes, 100.0) / 100


def _limits_by_itself(rule: Rule, case: Case) -> bool:
    """Whether a rule names a unit at its limit that stays loaded and of which only the busy cycles are known."""
    loads = case.view.shares if case.view else {}
    known = {name for name, share in loads.items() if share.value is not None}
    relieved = {*known, *(name.partition(".")[0] for name in rule.lifts)}
    return bool(rule.kind == "limit" and rule.subsystem not in relieved and case.values.get(rule.severity))
