"""How often a gate is wrong: programs of known change with the noise of an H200, judged by the gate's own rule.

python -m rooflens.tests.unit.analysis.comparison.gate_rates   prints the tables of docs/how-to/gate_in_ci.md
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rooflens.analysis.comparison.gate import by_time, certain
from rooflens.analysis.comparison.time_ratio import Effect, ShapeTimes, effect
from rooflens.tests import DATA

RECORDED = DATA / "h200_launches.csv.gz"
"""Launches of the same build of examples/kernels on an H200: medians of 30 in ten runs, single ones in twenty, all
launches under ncu in four."""
LIMIT = 0.03
PROGRAMS = 200
Runs = Sequence[np.ndarray]


def recorded(how: str) -> dict[str, dict[str, list[float]]]:
    """Kernel -> run -> times in ns, of one build on an H200."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(RECORDED, "rt") as lines:
        for row in csv.DictReader(lines):
            if row["how"] == how:
                found[row["kernel"]][row["run"]].append(float(row["time_us"]) * 1000)
    return found


def run_noise() -> list[float]:
    """Of each kernel: the deviation of the logarithm of its median between ten runs."""
    return [
        float(np.std([np.log(times[0]) for times in runs.values()], ddof=1)) for runs in recorded("median").values()
    ]


def changed(before: Runs, after: Runs) -> Effect:
    """The change of one kernel; each side is a list of runs, which are pooled."""
    sides = [[ShapeTimes(tuple(np.concatenate(runs)), sum(map(len, runs)))] for runs in (before, after)]
    counts = (sides[0][0].launches, sides[1][0].launches)
    return effect(sides[0], sides[1], counts, runs=(len(before), len(after)))


def verdicts(effects: Mapping[str, Effect], limit: float = LIMIT) -> dict[str, str]:
    """Kernel -> its status."""
    sure = certain(list(effects.values()))
    return {name: by_time(e, limit, certain=s)[0] for (name, e), s in zip(effects.items(), sure, strict=True)}


def overall(found: Mapping[str, str]) -> str:
    """The verdict over all kernels."""
    return next((word for word in ("fail", "inconclusive") if word in found.values()), "pass")


def of_recordings(
    limit: float = LIMIT, factors: Sequence[float] = (), count: int = 4
) -> tuple[Counter[str], Counter[str]]:
    """Verdicts over all ordered pairs of recorded runs, where nothing changed, and of each kernel in turn slowed.

    By each of the factors.
    """
    runs = {name: [np.array(times) for times in of.values()] for name, of in recorded("ncu").items()}
    nothing, slowed = Counter[str](), Counter[str]()
    for i, j in itertools.permutations(range(count), 2):
        same = {name: changed([of[i]], [of[j]]) for name, of in runs.items()}
        nothing[overall(verdicts(same, limit))] += 1
        for name, of in runs.items():
            for factor in factors:
                slower = changed([of[i]], [of[j] * factor])
                slowed[verdicts({**same, name: slower}, limit)[name]] += 1
    return nothing, slowed


@dataclass(frozen=True)
class Noise:
    """A simulated program: kernels with ``launches`` each in ``runs`` runs, whose launches spread by ``spread``."""

    launches: int
    spread: float
    runs: int = 1
    kernels: int = 17


def simulated(noise: Noise, factor: float, programs: int, limit: float = LIMIT) -> Counter[str]:
    """Verdicts over so many programs; with a ``factor`` those of the one kernel in each that is slower."""
    rng, between = np.random.default_rng(0), run_noise()

    def side(ns: float, of_run: float) -> list[np.ndarray]:
        return [ns * np.exp(rng.normal(rng.normal(0, of_run), noise.spread, noise.launches)) for _ in range(noise.runs)]

    counts: Counter[str] = Counter()
    for number in range(programs):
        slowed = f"k{number % noise.kernels}"
        names = {f"k{i}": between[i % len(between)] for i in range(noise.kernels)}
        before = {name: side(1e6, of_run) for name, of_run in names.items()}
        after = {name: side(1e6 * (factor if name == slowed else 1), of_run) for name, of_run in names.items()}
        found = verdicts({name: changed(before[name], after[name]) for name in names}, limit)
        counts[overall(found) if factor == 1 else found[slowed]] += 1
    return counts


def main() -> None:
    """Print what was found."""
    for limit in (0.01, 0.03, 0.05):
        nothing, slowed = of_recordings(limit, [1.05])
        print("recorded, limit", limit, "nothing changed", dict(nothing), "one kernel 5 % slower", dict(slowed))
    for noise in (Noise(5, 0.005), Noise(5, 0.02), Noise(20, 0.005), Noise(20, 0.02), Noise(100, 0.02),
                  Noise(100, 0.05), Noise(20, 0.02, runs=3)):  # fmt: skip
        rates = [(factor, dict(simulated(noise, factor, PROGRAMS))) for factor in (1.0, 1.05, 1.1)]
        print(noise, *rates, sep="  ", flush=True)


if __name__ == "__main__":
    main()
