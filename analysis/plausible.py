"""What a point is worth: its status, and the reason in words where it is not plainly ok."""

from __future__ import annotations

from dataclasses import dataclass

from . import mixed
from .collect import TIME, Done
from .scene import Scene
from .status import Status
from .work import Level, Operation

_SUSPECT, _IMPOSSIBLE = 1.0, 1.05
_TRIFLE, _MUCH = 0.01, 0.1
_CAUSES = "replays were mixed, a clock is wrong, or units are miscounted"
_CACHED = "the Infinity Cache answers faster than HBM"
_DUAL = "instructions were issued in pairs, or the clock was above the one quoted"


@dataclass(frozen=True)
class Tally:
    """What a point adds up to, over ``n`` dispatches: operations, bytes, run time and the least times they need."""

    operations: list[Operation]
    counted: list[Operation]
    missing: dict[str, str]
    n: int
    amount: float | None
    traffic: float | None
    time_ns: float | None
    roof_ns: float | str
    """The least time of the operations, or the ceiling that is missing for it."""
    wait_ns: float | None
    """The least time of the bytes."""


def judge(done: Done, level: Level, tally: Tally, found: Scene) -> tuple[Status, str | None]:
    """The status of a point and, where it is not plainly ok, the reason in words."""
    if not tally.operations:
        return "not_supported", f"{found.target} has no counters of floating-point operations; bandwidth only"
    if tally.amount is None and tally.missing:
        return "not_collected", f"operations: {next(iter(tally.missing.values()))}"
    if not tally.n:
        return "not_collected", "no dispatch has all of its counters"
    if tally.time_ns is None:
        return "not_collected", "time: the dispatches have no usable timing"
    if tally.traffic is None:
        return "not_collected", f"bytes: {_why_no_bytes(level, done, found)}"
    if tally.traffic < 0:
        return "impossible", "negative bytes: counters of different replays do not fit together"
    nominal, at_best = _theory_shares(level, tally.counted, done, found)
    if at_best is not None and at_best > _SUSPECT:
        text = f"{at_best:.1%} of what theory allows: {_CAUSES}"
        return ("impossible" if at_best > _IMPOSSIBLE else "suspect"), text
    if nominal is not None and nominal > _SUSPECT:
        return "suspect", f"{nominal:.1%} of the theoretical ceiling: {_CACHED if level.cache else _DUAL}, or {_CAUSES}"
    reasons = [f"not counted: {', '.join(tally.missing)}"] if tally.missing else []
    doubts, doubtful = _doubts(tally, done)
    reasons += doubts
    roof = tally.roof_ns if isinstance(tally.roof_ns, float) else 0.0
    share = max(roof, tally.wait_ns or 0.0) / tally.time_ns
    if share > _SUSPECT:
        reasons.append(f"{share:.1%} of a recorded ceiling, which is a lower bound of what is possible")
    if isinstance(tally.roof_ns, str):
        reasons.append(tally.roof_ns)
    if tally.wait_ns is None:
        reasons.append(f"no {found.ceilings.kind} ceiling {level.key}")
    if not tally.amount:
        reasons.append("no such operations: judge by bandwidth")
    elif not tally.traffic:
        reasons.append("no traffic at this level")
    suspect = bool(tally.missing) or doubtful or (share > _SUSPECT and nominal is None)
    return ("suspect" if suspect else "ok"), "; ".join(reasons) or None


def _doubts(tally: Tally, done: Done) -> tuple[list[str], bool]:
    """What may be no arithmetic at all, where it is more than a trifle of several kinds; whether it is much."""
    found, most = [], 0.0
    for operation in tally.counted if tally.amount and len(tally.counted) > 1 else []:
        share = done.over([operation.name])[1].get(operation.name, 0.0) / (tally.amount or 1.0)
        sure = operation.certain and done.over([operation.certain])[1].get(operation.certain)
        if operation.doubt and not sure and share > _TRIFLE:
            found.append(f"{share:.1%} of the operations are {operation.doubt}")
            most = max(most, share)
    return found, most > _MUCH


def _theory_shares(
    level: Level, counted: list[Operation], done: Done, found: Scene
) -> tuple[float | None, float | None]:
    """The least time by theory as a share of the run time: at nominal ceilings, and at the most that is possible."""
    n, sums = done.over([*(o.name for o in counted), level.name, TIME])
    peak, most = found.theory.value(level.key), mixed.most_gbs(level, found.theory)
    if not n or peak is None or most is None:
        return None, None
    shares = []
    for width, at_best in ((peak, False), (most, True)):
        roof = mixed.roof_ns(counted, sums, found.theory, at_best=at_best)
        shares.append(None if isinstance(roof, str) else max(roof, sums[level.name] / width) / sums[TIME])
    return shares[0], shares[1]


def _why_no_bytes(level: Level, done: Done, found: Scene) -> str:
    """Why a level has no bytes, with the range in which they lie where one is known."""
    reason = found.collected.missing.get(level.name, "no value for this kernel")
    n, sums = done.over([f"{level.name}.least", f"{level.name}.most"])
    if not n:
        return reason
    return f"between {sums[f'{level.name}.least']:.6g} and {sums[f'{level.name}.most']:.6g}; {reason}"
