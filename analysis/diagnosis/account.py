"""The account of the waves' lifetime: parts that add up to 100 %, whatever each wave was doing."""

from __future__ import annotations

from dataclasses import dataclass

from ..catalogue import rules
from ..engine.expressions import Values

_REST = "not_counted"
_WHOLE, _ROUNDING = 100.0, 0.005


@dataclass(frozen=True)
class AccountPart:
    """One part of the waves' lifetime and its share in percent; None if the counters contradict one another, so that it
    would be negative."""

    name: str
    title: str
    pct: float | None


def wave_time_account(target: str, values: Values) -> list[AccountPart]:
    """Return the parts of the waves' lifetime, the largest first; nothing if none of them was counted.

    If all parts were counted, their shares are relative to their sum: counters of different replays do not add up
    exactly. Otherwise a last part is what the known parts leave, which contradictory counters make impossible (None).
    """
    stated = {
        part.name: (part.title, next((v for e in every if (v := values.get(e)) is not None), None))
        for part, every in rules.parts(target).values()
    }
    known = {name: value for name, (_, value) in stated.items() if value is not None}
    total = sum(known.values())
    if not total:
        return []
    complete = len(known) == len(stated)
    scale = _WHOLE / total if complete else 1.0
    shares = [(name, stated[name][0], value * scale) for name, value in known.items()]
    shares.sort(key=lambda share: -share[2])
    if not complete:
        shares.append((_REST, "not counted", _WHOLE - total))
    return [AccountPart(name, title, round(pct, 2) if pct > -_ROUNDING else None) for name, title, pct in shares]
