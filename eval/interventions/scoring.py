"""Compares diagnoses with the measured gains of interventions on the same kernels."""

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
"""Minimum speed-up with which an intervention counts as helping."""
MATTERS = 0.7
"""A verdict matters if its supporting interventions achieve at least this share of the best gain of their kind."""
PROVES_WAITING = 1 / 0.6
"""A fix with the same load on every unit and this speed-up proves that no unit was at its limit of 60 %."""
WAITING = frozenset({"latency", "occupancy", "dispatch"})
"""The verdicts that are supported by waiting."""
SURE = 0.7
SPREAD = 0.1
"""Tolerance for a fix beyond its bound: counters come from another run, with cold caches and a different clock."""
BASE = "base"
_WORK = (*suite.AMOUNTS, "live", "barrier")


@dataclass(frozen=True)
class Measured:
    """One intervention: its speed-up, and whether it does the same work.

    ``empties``: the kernel does nothing afterwards, which gives a bound, but is not advice.
    """

    what: str
    gain: float
    fix: bool
    empties: bool = False


@dataclass(frozen=True)
class Truth:
    """A kernel, the cause that it was generated for, its time, and the gains of interventions.

    ``level`` is the farthest memory level of its loads. ``strided``: accesses of neighbouring lanes are apart.
    ``copied``: asynchronous copies load the data through LDS. ``whole``: every demand of the kernel was changed.
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
        """The largest gain of a kind; 1 if nothing helps."""
        return max((m.gain for m in self.measured if m.fix == fix), default=1.0)

    def gain_for(self, subsystem: str, *, fix: bool) -> float:
        """The largest gain of a kind that supports a subsystem; 1 if there is none."""
        return max((m.gain for m in self.measured if m.fix == fix and subsystem in supported(self, m)), default=1.0)

    @property
    def worth(self) -> list[Measured]:
        """The practical interventions: fixes, and removals that leave some work; if none helps, all interventions."""
        some = [m for m in self.measured if not m.empties]
        return some if any(m.gain >= HELPS for m in some) else list(self.measured)

    @property
    def anything_helps(self) -> bool:
        return max(self.best(fix=True), self.best(fix=False)) >= HELPS


@dataclass(frozen=True)
class Said:
    """The diagnosis of a kernel; ``bounds`` contains the speed-up bound of each named subsystem."""

    subsystem: str
    confidence: float
    bounds: Mapping[str, float]
    beside: tuple[str, ...] = ()
    """Units that the diagnosis calls limits at once with the subsystem."""
    tokens: int | None = None
    """Tokens of the server's answer, if it was asked."""


def truths(path: Path) -> list[Truth]:
    """Read every kernel of a file of times. Fixes whose counts differ from those of the kernel are skipped."""
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
    """The fixes of a file whose counts differ from those of their kernel."""
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
    """The subsystems that an intervention supports, whatever its gain. Raises KeyError for an unknown one."""
    table = _table()
    closer = [f"{measured.what}.{truth.level}", *([f"{measured.what}.strided"] if truth.strided else [])]
    through_lds = table.get(f"{measured.what}.async", frozenset()) if truth.copied else frozenset()
    return table[next((name for name in closer if name in table), measured.what)] | through_lds


def credited(truth: Truth, measured: Measured) -> frozenset[str]:
    """The same, plus latency for a removal if a fix proves that the unit was waited for rather than saturated."""
    by_itself = supported(truth, measured)
    if measured.fix:
        return by_itself
    proofs = [m for m in truth.measured if m.fix and m.what in _same_demand() and m.gain >= PROVES_WAITING]
    return by_itself.union(*(supported(truth, m) & WAITING for m in proofs))


def helped(truth: Truth, subsystem: str) -> bool:
    """Whether any intervention that supports a subsystem helps."""
    return max(truth.gain_for(subsystem, fix=True), truth.gain_for(subsystem, fix=False)) >= HELPS


def matters(truth: Truth, subsystem: str) -> bool:
    """Whether an intervention that supports a subsystem is among the best fixes, or the best removals."""
    return any(
        (gain := truth.gain_for(subsystem, fix=fix)) >= HELPS and gain >= MATTERS * truth.best(fix=fix)
        for fix in (True, False)
    )


def names_the_best(truth: Truth, subsystem: str) -> bool:
    """Whether an intervention that supports a subsystem is among the best practical ones."""
    gain = max((m.gain for m in truth.worth if subsystem in supported(truth, m)), default=1.0)
    return gain >= HELPS and gain >= MATTERS * max(m.gain for m in truth.worth)


def best_of_everything(truth: Truth, subsystem: str, *, proofs: bool = True) -> bool:
    """Whether an intervention that supports a subsystem is among the best of all, including emptying ones.

    Without ``proofs``, a removal supports only the demand that it removes, never the waiting for it.
    """
    supports = credited if proofs else supported
    gain = max((m.gain for m in truth.measured if subsystem in supports(truth, m)), default=1.0)
    return gain >= HELPS and gain >= MATTERS * max(m.gain for m in truth.measured)


def names_the_best_fix(truth: Truth, subsystem: str) -> bool:
    """The same, among changes that keep the work."""
    gain = truth.gain_for(subsystem, fix=True)
    return gain >= HELPS and gain >= MATTERS * truth.best(fix=True)


def wrong_and_sure(truth: Truth, said: Said) -> bool:
    """Whether a confident verdict has no support; for a partly changed kernel, only if support was possible.

    Limits at once promise that no change that relieves one of them gains much: then only a gain for another is wrong.
    """
    named = (said.subsystem, *said.beside)
    tried = truth.whole or any(name in supported(truth, m) for name in named for m in truth.measured)
    if said.beside:
        tried = tried and truth.anything_helps
    return said.confidence >= SURE and tried and not any(helped(truth, name) for name in named)


@cache
def _pure() -> frozenset[str]:
    stated = tomllib.loads((HERE / "supports.toml").read_text(encoding="utf-8"))
    return frozenset(what for what, entry in stated.items() if not entry.get("also"))


@cache
def _same_demand() -> frozenset[str]:
    stated = tomllib.loads((HERE / "supports.toml").read_text(encoding="utf-8"))
    return frozenset(what for what, entry in stated.items() if entry.get("same_demand"))


def bounded(truth: Truth, said: Said) -> list[tuple[str, str, float, float]]:
    """Pair every bound with the fixes that it applies to: subsystem, fix, bound, gain."""
    return [
        (subsystem, m.what, bound, m.gain)
        for subsystem, bound in said.bounds.items()
        for m in truth.measured
        if m.fix and m.what in _pure() and subsystem in supported(truth, m)
    ]


def scores(pairs: Iterable[tuple[Truth, Said]]) -> dict[str, Any]:
    """Compute shares in percent, calibration in ten classes of confidence, and bounds compared with fixes."""
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
