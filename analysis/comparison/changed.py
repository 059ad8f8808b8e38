"""Which metrics of a kernel changed most between two workloads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import catalog, engine
from ..engine import Figure
from ..store import Manifest, Store

_WORDS = ("overview", "memory", "compute", "lds", "occupancy")
_LEFT_OUT = ("dispatch.duration_ns", "dispatch.gpu_cycles", "dispatch.cycles")
"""Time itself, which the comparison states anyway."""
_LEAST = 0.05
_STRONG = 2.0


@dataclass(frozen=True)
class Change:
    """One metric before and after; ``better`` is None where neither direction is better in itself."""

    before: Figure
    after: Figure
    better: bool | None
    weight: float


def changes(
    store: Store, before: Manifest, kernel: str, after: Manifest, candidate: str, normalised: bool
) -> list[Change]:
    """The metrics of a kernel that changed, the most telling first.

    Shares (percentages, or values with a peak) weigh by their change in points; of others only those of which more or
    less is better, by the logarithm of their ratio, which counts a quarter. ``normalised`` leaves only the shares,
    which can be compared between different GPUs. Figures that are not ok are left out. Empty where a target has no
    metrics.
    """
    if not {before.arch, after.arch} <= {*catalog.with_metrics()} or not (before.counters and after.counters):
        return []
    both = [_figures(store, m, name) for m, name in ((before, kernel), (after, candidate))]
    found: dict[tuple[float | None, float | None], Change] = {}
    for name in both[0]:
        if name in both[1] and (change := _change(both[0][name], both[1][name], normalised)):
            found.setdefault((change.before.value, change.after.value), change)
    return sorted(found.values(), key=lambda c: -c.weight)


def _figures(store: Store, manifest: Manifest, kernel: str) -> dict[str, Figure]:
    known = catalog.by_name(manifest.arch or "")
    words = [w for w in _WORDS if any(n in known for n in catalog.presets()[w])]
    figures = engine.evaluate(store, manifest, words, kernel=kernel, quartiles=False)
    return {f.name: f for f in figures if f.status == "ok" and f.value is not None and f.name not in _LEFT_OUT}


def _change(before: Figure, after: Figure, normalised: bool) -> Change | None:
    a, b = before.value or 0.0, after.value or 0.0
    better = before.metric.better
    good = None if better == "none" or a == b else (b > a) == (better == "higher")
    if before.unit == "%":
        weight = abs(b - a) / 100
    elif before.pct_of_peak is not None and after.pct_of_peak is not None:
        weight = abs(after.pct_of_peak - before.pct_of_peak) / 100
    elif normalised or better == "none" or min(a, b) < 0 or max(a, b) == 0:
        return None
    else:
        weight = (_STRONG if min(a, b) == 0 else min(abs(math.log(b / a)), _STRONG)) / 4
    return Change(before, after, good, weight) if weight >= _LEAST else None
