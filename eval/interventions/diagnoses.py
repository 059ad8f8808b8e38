"""Diagnoses the recorded kernels, and scores the diagnoses by half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp.client import Client

from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tools.import_profile import import_profile

from . import scoring, suite
from .scoring import Said, Truth

HERE = Path(__file__).resolve().parent
TIMES, COUNTERS = HERE / "h200_times.csv", HERE / "h200_counters.csv.gz"
LATER_TIMES, LATER_COUNTERS = HERE / "h200_later_times.csv", HERE / "h200_later_counters.csv.gz"
LATER = {3: "seeds 3 to 6", 4: "seeds 3 to 6", 5: "seeds 3 to 6", 6: "seeds 3 to 6", 7: "seeds 7, 8", 8: "seeds 7, 8"}
"""Recordings made after the rules: four rules were changed after the first four; the last two were only evaluated."""
SETS = {
    **dict.fromkeys(("own", "detailed", "basic"), HERE / "h200_set_times.csv"),
    **dict.fromkeys(("states", "shares"), HERE / "h200_page_times.csv"),
}
"""Sets of counters, each with the times of its kernels: of seed 9, recorded after the rules with the counters of
rooflens and with two sets of ncu; of seed 47 with the sections of warp states and the shares that agents collect."""
NAME = "interventions"
CHARACTERS_PER_TOKEN = 4
SAMPLED = 60
"""Every n-th kernel is diagnosed through the server, because calls for all would take minutes."""


async def diagnosed(client: Client, store: Store) -> list[tuple[Truth, Said]]:
    """Diagnose every recorded kernel; every SAMPLED-th also through the server, which must give the same result.

    Raises ValueError if the server refuses or disagrees.
    """
    result = await client.call_tool("import_profile", {"path": str(COUNTERS), "name": NAME})
    if result.is_error:
        raise ValueError(f"{COUNTERS.name}: {result.content}")
    pairs = recorded(store)
    for place, (truth, of_kernel) in enumerate(pairs):
        if place % SAMPLED:
            continue
        answer = await client.call_tool("diagnose_bottleneck", {"workload": NAME, "kernel": f"^{truth.kernel}$"})
        text = "".join(getattr(block, "text", "") for block in answer.content)
        if answer.is_error:
            raise ValueError(f"{truth.kernel}: {text}")
        verdict = (answer.structured_content or {})["kernels"][0]["verdict"]
        if verdict["subsystem"] != of_kernel.subsystem:
            raise ValueError(
                f"{truth.kernel}: {verdict['subsystem']} through the server, {of_kernel.subsystem} without"
            )
        pairs[place] = (truth, replace(of_kernel, tokens=len(text) // CHARACTERS_PER_TOKEN))
    return pairs


def recorded(store: Store) -> list[tuple[Truth, Said]]:
    """Diagnose every kernel with times and counters."""
    return _paired(store, NAME, scoring.truths(TIMES))


def of_recording(store: Store, counters: Path, truths: list[Truth], name: str) -> list[tuple[Truth, Said]]:
    """Diagnose another recording, which is imported under ``name``."""
    import_profile(store, str(counters), name=name)
    return _paired(store, name, truths)


def later(store: Store) -> list[tuple[Truth, Said]]:
    """Diagnose the kernels of the later seeds."""
    truths = scoring.truths(LATER_TIMES)
    told = [replace(truth, half=LATER[suite.seed_of(truth.kernel)]) for truth in truths]
    return of_recording(store, LATER_COUNTERS, told, "later")


def by_set(store: Store) -> list[tuple[Truth, Said]]:
    """Diagnose the same kernels from different sets of counters; the half of each truth is its set."""
    return [
        pair
        for name, times in SETS.items()
        for pair in of_recording(
            store,
            HERE / f"h200_set_{name}.csv.gz",
            [replace(truth, half=f"set {name}") for truth in scoring.truths(times)],
            f"set_{name}",
        )
    ]


def _paired(store: Store, name: str, truths: list[Truth]) -> list[tuple[Truth, Said]]:
    by_name = {d.kernel: said(d) for d in diagnose(Workload.open(store, name))[0]}
    return [(truth, by_name[truth.kernel]) for truth in truths if truth.kernel in by_name]


def said(kernel: Diagnosis) -> Said:
    """The parts of a diagnosis that are scored."""
    bounds = {f.subsystem: f.speedup_bound for f in kernel.findings if f.speedup_bound is not None}
    verdict = kernel.verdict
    if verdict.speedup_bound is not None:
        bounds[verdict.subsystem] = verdict.speedup_bound
    return Said(verdict.subsystem, verdict.confidence, bounds, tuple(verdict.beside or ()))


def scores(pairs: list[tuple[Truth, Said]]) -> dict[str, Any]:
    """Score each half; list kernels with an unsupported confident verdict or a bound that is too low."""
    told = dict.fromkeys(truth.half for truth, _ in pairs)
    halves = {half: scoring.scores([p for p in pairs if p[0].half == half]) for half in told}
    return {
        "halves": halves,
        "wrong_and_sure": [
            {"kernel": t.kernel, "said": s.subsystem, "confidence": s.confidence}
            for t, s in pairs
            if scoring.wrong_and_sure(t, s)
        ],
        "bounds_below_a_fix": [
            {"kernel": t.kernel, "subsystem": subsystem, "fix": fix, "bound": bound, "gain": gain}
            for t, s in pairs
            for subsystem, fix, bound, gain in scoring.bounded(t, s)
            if gain > bound * (1 + scoring.SPREAD)
        ],
    }


def report(found: dict[str, Any]) -> list[str]:
    """Format the results as text."""
    lines = [
        "Interventions  kernels  something helps  verdict matters  best of everything  without proofs  "
        "names the best  of the fixes  helps  "
        "wrong and sure  bounds  below a fix  bound / gain  tokens per answer"
    ]
    for half, s in found["halves"].items():
        shares = [
            ("matters", 15), ("best_of_everything", 18), ("without_proofs", 14), ("names_the_best", 14),
            ("names_the_best_fix", 12), ("helps", 5),
        ]  # fmt: skip
        lines.append(
            f"  {half:13}{s['kernels']:8}{s['where_something_helps']:17}"
            + "".join(f"{_told(s[f'{name}_pct'], 1):>{width}} %" for name, width in shares)
            + f"{s['wrong_and_sure']:16}{s['bounds']:8}{s['bounds_below_a_fix']:13}"
            f"{_told(s['median_bound_over_gain'], 2):>14}{_told(s['tokens_per_answer'], 0):>19}"
        )
    for half, s in found["halves"].items():
        classes = ", ".join(f"{c['confidence']}: {c['matters_pct']:.0f} % of {c['kernels']}" for c in s["calibration"])
        lines.append(f"  verdict matters by confidence, {half}: {classes}")
    return lines


def _told(value: float | None, digits: int) -> str:
    """Format a figure, or a dash if it was not measured."""
    return "-" if value is None else f"{value:.{digits}f}"
