"""Holds diagnoses against what interventions on the same kernels were measured to bring."""

from __future__ import annotations

import csv
import statistics
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from . import suite

HERE = Path(__file__).resolve().parent
HELPS = 1.15
"""An intervention helps where the run is this much faster, or more."""
MATTERS = 0.7
"""A verdict matters where what supports it brings this part of the best intervention of its kind, or more."""
PROVES_WAITING = 1 / 0.6
"""A fix that asks the same of every unit and is this much faster proves that no unit was at its limit of 60 %."""
WAITING = frozenset({"latency", "occupancy", "dispatch"})
"""The verdicts that waiting supports."""
SURE = 0.7
SPREAD = 0.1
"""A fix may be this much faster than a bound says: counters are of another run, with cold caches and its own clock."""
BASE = "base"
_WORK = (*suite.AMOUNTS, "live", "barrier")


@dataclass(frozen=True)
class Measured:
    """One intervention: how many times as fast the kernel is with it, and whether it does the same work.

    ``empties`` says that nothing of what the kernel did is left: that bounds it, but is no advice.
    """

    what: str
    gain: float
    fix: bool
    empties: bool = False


@dataclass(frozen=True)
class Truth:
    """A kernel, the cause that it was drawn for, its time and what interventions bring.

    ``level`` is the farthest memory that its loads go over, ``strided`` says that neighbours' accesses are apart,
    ``copied`` that asynchronous copies load them through LDS, and ``whole`` that every demand of it was changed.
    """

    kernel: str
    half: str
    family: str
    level: str
    time_us: float
    measured: tuple[Measured, ...]
    strided: bool = False
    copied: bool = False
    whole: bool = True

    def best(self, *, fix: bool) -> float:
        """The largest gain of a kind, 1 where nothing helps."""
        return max((m.gain for m in self.measured if m.fix == fix), default=1.0)

    def gain_for(self, subsystem: str, *, fix: bool) -> float:
        """The largest gain of a kind that supports a subsystem, 1 without one."""
        return max((m.gain for m in self.measured if m.fix == fix and subsystem in supported(self, m)), default=1.0)

    @property
    def worth(self) -> list[Measured]:
        """What one could do: fixes, and removals that leave something; where none of these helps, everything."""
        some = [m for m in self.measured if not m.empties]
        return some if any(m.gain >= HELPS for m in some) else list(self.measured)

    @property
    def anything_helps(self) -> bool:
        return max(self.best(fix=True), self.best(fix=False)) >= HELPS


@dataclass(frozen=True)
class Said:
    """What a diagnosis said of a kernel; ``bounds`` holds the speed-up bound of each subsystem that it names."""

    subsystem: str
    confidence: float
    bounds: Mapping[str, float]
    tokens: int | None = None
    """Of the server's answer, where it was asked."""


def truths(path: Path) -> list[Truth]:
    """Every kernel of a file of times. A fix that did not count what its kernel counts proves nothing: left out."""
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    by_kernel: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        by_kernel.setdefault(row["kernel"], {})[row["what"]] = row
    seeds = dict.fromkeys(suite.seed_of(kernel) for kernel in by_kernel)
    drawn = {name: (_half(seed), one) for seed in seeds for name, one in suite.of_seed(seed).items()}
    found = []
    for kernel, of_kernel in by_kernel.items():
        half, launch = drawn[kernel]
        base = of_kernel[BASE]
        time = float(base["time_us"])
        emptied = {v.what for v in suite.variants(launch) if not any(getattr(v.launch.demand, a) for a in _WORK)}
        measured = tuple(
            Measured(what, time / float(row["time_us"]), row["keeps_work"] == "1", what in emptied)
            for what, row in of_kernel.items()
            if what != BASE and (row["keeps_work"] == "0" or row["counted"] == base["counted"])
        )
        copied = launch.demand.access == "ASYNC"
        found.append(
            Truth(kernel, half, launch.family, _level(launch), time, measured, launch.shape.stride > 1, copied)
        )
    return found


def unlike(path: Path) -> list[str]:
    """The fixes of a file that did not count what their kernel counts."""
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    counted = {row["kernel"]: row["counted"] for row in rows if row["what"] == BASE}
    return [
        f"{row['kernel']} {row['what']}"
        for row in rows
        if row["keeps_work"] == "1" and row["counted"] != counted[row["kernel"]]
    ]


def _half(seed: int) -> str:
    return next((half for half, of_half in suite.HALVES.items() if of_half == seed), f"seed {seed}")


def _level(launch: suite.Launch) -> str:
    if launch.on_host:
        return "host"
    return next(level for level in ("l1", "l2", "hbm") if launch.shape.mask < suite.FOOTPRINTS[level])


@cache
def _table() -> dict[str, frozenset[str]]:
    stated = tomllib.loads((HERE / "supports.toml").read_text(encoding="utf-8"))
    return {what: frozenset(entry["supports"]) for what, entry in stated.items()}


def supported(truth: Truth, measured: Measured) -> frozenset[str]:
    """The subsystems that an intervention supports, whatever it brought. Raises KeyError for one that is not stated."""
    table = _table()
    closer = [f"{measured.what}.{truth.level}", *([f"{measured.what}.strided"] if truth.strided else [])]
    through_lds = table.get(f"{measured.what}.async", frozenset()) if truth.copied else frozenset()
    return table[next((name for name in closer if name in table), measured.what)] | through_lds


def credited(truth: Truth, measured: Measured) -> frozenset[str]:
    """The same with what a removal supports because a fix proves that what it takes away was waited for, not full."""
    by_itself = supported(truth, measured)
    if measured.fix:
        return by_itself
    proofs = [m for m in truth.measured if m.fix and m.what in _same_demand() and m.gain >= PROVES_WAITING]
    return by_itself.union(*(supported(truth, m) & WAITING for m in proofs))


def helped(truth: Truth, subsystem: str) -> bool:
    """Whether anything that supports a subsystem helps."""
    return max(truth.gain_for(subsystem, fix=True), truth.gain_for(subsystem, fix=False)) >= HELPS


def matters(truth: Truth, subsystem: str) -> bool:
    """Whether what supports a subsystem is among the best of the fixes, or of the removals."""
    return any(
        (gain := truth.gain_for(subsystem, fix=fix)) >= HELPS and gain >= MATTERS * truth.best(fix=fix)
        for fix in (True, False)
    )


def names_the_best(truth: Truth, subsystem: str) -> bool:
    """Whether something that supports a subsystem is among the best of all that one could do."""
    gain = max((m.gain for m in truth.worth if subsystem in supported(truth, m)), default=1.0)
    return gain >= HELPS and gain >= MATTERS * max(m.gain for m in truth.worth)


def best_of_everything(truth: Truth, subsystem: str, *, proofs: bool = True) -> bool:
    """Whether what supports a subsystem is among the best of every fix and removal, emptying ones too.

    Without ``proofs`` a removal supports only the demand that it takes away, never the waiting for it.
    """
    supports = credited if proofs else supported
    gain = max((m.gain for m in truth.measured if subsystem in supports(truth, m)), default=1.0)
    return gain >= HELPS and gain >= MATTERS * max(m.gain for m in truth.measured)


def names_the_best_fix(truth: Truth, subsystem: str) -> bool:
    """The same among the changes that keep the work."""
    gain = truth.gain_for(subsystem, fix=True)
    return gain >= HELPS and gain >= MATTERS * truth.best(fix=True)


def wrong_and_sure(truth: Truth, said: Said) -> bool:
    """Whether nothing supports a confident verdict; of a kernel that was changed in part, nothing of what could."""
    tried = truth.whole or any(said.subsystem in supported(truth, m) for m in truth.measured)
    return said.confidence >= SURE and tried and not helped(truth, said.subsystem)


@cache
def _pure() -> frozenset[str]:
    stated = tomllib.loads((HERE / "supports.toml").read_text(encoding="utf-8"))
    return frozenset(what for what, entry in stated.items() if not entry.get("also"))


@cache
def _same_demand() -> frozenset[str]:
    stated = tomllib.loads((HERE / "supports.toml").read_text(encoding="utf-8"))
    return frozenset(what for what, entry in stated.items() if entry.get("same_demand"))


def bounded(truth: Truth, said: Said) -> list[tuple[str, str, float, float]]:
    """Every bound beside every fix that it bounds: subsystem, fix, bound, gain."""
    return [
        (subsystem, m.what, bound, m.gain)
        for subsystem, bound in said.bounds.items()
        for m in truth.measured
        if m.fix and m.what in _pure() and subsystem in supported(truth, m)
    ]


def scores(pairs: Iterable[tuple[Truth, Said]]) -> dict[str, Any]:
    """Shares in percent; calibration in ten classes of confidence; bounds against fixes."""
    every = list(pairs)
    decided = [(t, s) for t, s in every if t.anything_helps]
    fixable = [(t, s) for t, s in every if t.best(fix=True) >= HELPS]
    checked = [(t, *b) for t, s in every for b in bounded(t, s)]
    tokens = [s.tokens for _, s in every if s.tokens is not None]
    best = [
        bound / gain
        for t, s in every
        if (bound := s.bounds.get(s.subsystem)) and (gain := t.gain_for(s.subsystem, fix=True)) >= HELPS
    ]
    return {
        "kernels": len(every),
        "where_something_helps": len(decided),
        "matters_pct": _pct(matters(t, s.subsystem) for t, s in decided),
        "best_of_everything_pct": _pct(best_of_everything(t, s.subsystem) for t, s in decided),
        "without_proofs_pct": _pct(best_of_everything(t, s.subsystem, proofs=False) for t, s in decided),
        "names_the_best_pct": _pct(names_the_best(t, s.subsystem) for t, s in decided),
        "where_a_fix_helps": len(fixable),
        "names_the_best_fix_pct": _pct(names_the_best_fix(t, s.subsystem) for t, s in fixable),
        "helps_pct": _pct(helped(t, s.subsystem) for t, s in decided),
        "wrong_and_sure": sum(wrong_and_sure(t, s) for t, s in every),
        "calibration": _calibration(every),
        "bounds": len(checked),
        "bounds_below_a_fix": sum(gain > bound * (1 + SPREAD) for _, _, _, bound, gain in checked),
        "median_bound_over_gain": statistics.median(best) if best else None,
        "tokens_per_answer": statistics.mean(tokens) if tokens else None,
        "most_tokens": max(tokens, default=None),
    }


def _calibration(pairs: list[tuple[Truth, Said]]) -> list[dict[str, Any]]:
    classes: dict[int, list[tuple[Truth, Said]]] = {}
    for truth, said in pairs:
        if said.subsystem != "unknown":
            classes.setdefault(min(int(said.confidence * 10), 9), []).append((truth, said))
    return [
        {
            "confidence": f"{k / 10:.1f}-{(k + 1) / 10:.1f}",
            "kernels": len(inside),
            "mean_confidence_pct": 100 * statistics.mean(s.confidence for _, s in inside),
            "matters_pct": _pct(matters(t, s.subsystem) for t, s in inside),
        }
        for k, inside in sorted(classes.items())
    ]


def _pct(true: Iterable[bool]) -> float | None:
    values = list(true)
    return 100 * sum(values) / len(values) if values else None
