"""How much faster a kernel could become at most if only one subsystem were fixed, from the mixed-pipe view."""

from __future__ import annotations

from ..mixed import View
from ..rules import Rule

BOUNDS = {
    **dict.fromkeys(("hbm", "l2", "vl1d", "lds", "fabric", "scratch", "atomics"), "memory"),
    **dict.fromkeys(("valu", "sfu", "matrix", "salu", "divergence"), "compute"),
    **dict.fromkeys(("dispatch", "occupancy", "latency", "barrier", "instruction_fetch"), "latency"),
    "unknown": "unknown",
}
"""What kind of limit each subsystem is."""


def speedup_bound(rule: Rule, view: View | None, values: dict[str, float | None]) -> float | None:
    """Run time over the greatest least time of the pipes and levels that the fix leaves loaded, at least 1.

    Everything is taken to overlap perfectly and to run at its ceiling, so the figure is an upper bound; pipes that
    were not counted could only lower it. None where nothing is known that bounds it.
    """
    known = {name: s.value for name, s in view.shares.items() if s.value is not None} if view else {}
    shares = [share for name, share in known.items() if share and name not in rule.lifts]
    if rule.kind == "limit" and rule.subsystem not in known and (load := values.get(rule.severity)):
        shares.append(load / 100)
    bounds = [1 / max(shares)] if shares else []
    own = values.get(rule.bound) if rule.bound else None
    if own is not None:
        bounds.append(own)
    return max(1.0, min(bounds)) if bounds else None
