"""The accounts of a kernel: complete divisions of the device's time and of its waves' lifetime, in percent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..catalogue import rules
from ..engine.expressions import Values
from ..rooflines.loads import IMPOSSIBLE, Load

DEVICE, WAVES = "device", "waves"
"""The views: what the whole device does from start to end, and what waves spend their lifetime on."""
_NOT_COUNTED, _WAITING, _BUSY = "not_counted", "waiting", "busy"
_WHOLE = 100.0
_COMPLETE = 2 * _WHOLE - IMPOSSIBLE
"""Parts that add up to less than this leave something that no counter names."""
_NO_LIMIT = "work is there, but no unit at its limit"
_OF_THE_DEVICE = frozenset({"hbm", "l2", "gl1", "fabric"})
"""Units outside of compute units: they also work while some compute units have no work."""


@dataclass(frozen=True)
class AccountPart:
    """One part of an account and its share in percent; None if counters contradict one another, so that it would be
    negative."""

    name: str
    title: str
    pct: float | None


def wave_time_account(target: str, values: Values) -> list[AccountPart]:
    """Return the parts of the waves' lifetime, the largest first; nothing if none of them was counted.

    If all parts were counted, their shares are relative to their sum: counters of different replays do not add up
    exactly. Otherwise a last part is what the known parts leave, which contradictory counters make impossible (None).
    """
    known, complete = _shares_of_parts(target, WAVES, values)
    total = sum(pct for _, _, pct in known)
    if not total:
        return []
    known.sort(key=lambda part: -part[2])
    whole = complete and _COMPLETE <= total <= IMPOSSIBLE
    return _complete_account(known, None if whole else (_NOT_COUNTED, "not counted"))


def device_time_account(target: str, values: Values, loads: Sequence[Load]) -> list[AccountPart]:
    """Return what the device did from start to end: launch and end, units without work, the unit that was closest to
    its limit, and a rest. Nothing if neither a load nor the units without work are known.

    Compute units without work while a unit of the whole device is busy are not lost, so they are only given what that
    unit leaves. The rest is waiting if everything was counted; contradictory counters make it impossible (None).
    """
    idle, complete = _shares_of_parts(target, DEVICE, values)
    top = max((load for load in loads if load.value_for_rules is not None), key=lambda o: o.pct or 0.0, default=None)
    if top is None and not idle:
        return []
    busy, without_work = (top.pct or 0.0) if top else 0.0, sum(pct for _, _, pct in idle)
    left = max(_WHOLE - busy, 0.0)
    scale = left / without_work if top and top.unit in _OF_THE_DEVICE and without_work > left else 1.0
    parts = [(name, title, pct * scale) for name, title, pct in idle]
    parts += [(_BUSY, f"busy: {top.label}", busy)] if top else []
    unknown = not complete or any(load.decides and load.pct is None for load in loads)
    return _complete_account(parts, (_NOT_COUNTED, "not counted") if unknown else (_WAITING, _NO_LIMIT))


def _complete_account(parts: list[tuple[str, str, float]], rest: tuple[str, str] | None) -> list[AccountPart]:
    """The parts and the ``rest`` as shares of the whole.

    Counters of different replays disagree: what is up to 5 points above the whole or below nothing is attributed to
    them, and the parts are scaled. A part that is further below is contradictory (None).
    """
    usable = [(name, title, max(pct, 0.0) if pct >= _WHOLE - IMPOSSIBLE else pct) for name, title, pct in parts]
    total = sum(pct for _, _, pct in usable)
    if all(pct >= 0 for _, _, pct in usable) and (rest is None or total > _WHOLE) and 0 < total <= IMPOSSIBLE:
        usable = [(name, title, pct * _WHOLE / total) for name, title, pct in usable]
        total = _WHOLE
    every = [*usable, *([(*rest, _WHOLE - total)] if rest else [])]
    return [AccountPart(name, title, round(pct, 2) + 0.0 if pct >= 0 else None) for name, title, pct in every]


def _shares_of_parts(target: str, view: str, values: Values) -> tuple[list[tuple[str, str, float]], bool]:
    """The name, the title and the share of each counted part of a view, and whether all of its parts were counted.

    A part that stands for others is only there if it was counted, and one of them was not or is contradictory.
    """
    here = [part for part in rules.parts(target).values() if part.view == view]
    pct = {part.name: next((v for e in part.expressions if (v := values.get(e)) is not None), None) for part in here}
    replaced: set[str] = set()
    for part in here:  # a part comes after those that stand for it
        if part.name in replaced:
            replaced.update(part.stands_for)
        elif part.stands_for:
            members = [pct.get(name) for name in part.stands_for]
            apart = pct[part.name] is None or all(p is not None and p >= _WHOLE - IMPOSSIBLE for p in members)
            replaced.update([part.name] if apart else part.stands_for)
    used = [part for part in here if part.name not in replaced]
    known = [(part.name, part.title, share) for part in used if (share := pct[part.name]) is not None]
    return known, 0 < len(known) == len(used)
