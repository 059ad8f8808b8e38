"""Puts the recorded kernels to the diagnosis and scores what it says by half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp.client import Client
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.store import Store
from rooflens.analysis.workload import Workload

from . import scoring
from .scoring import Said, Truth

HERE = Path(__file__).resolve().parent
TIMES, COUNTERS = HERE / "h200_times.csv", HERE / "h200_counters.csv.gz"
NAME = "interventions"
CHARACTERS_PER_TOKEN = 4
SAMPLED = 60
"""Of so many kernels one is asked for through the server: a call for each of hundreds would take minutes."""


async def diagnosed(client: Client, store: Store) -> list[tuple[Truth, Said]]:
    """What is said of every recorded kernel; every SAMPLED-th is asked for through the server, which must say the same.

    Raises ValueError where the server refuses or says something else.
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


def recorded(store: Store, times: Path = TIMES) -> list[tuple[Truth, Said]]:
    """What the analysis says of every kernel of the recording that the store holds."""
    kernels, _ = diagnose(Workload.open(store, NAME))
    by_name = {d.kernel: said(d) for d in kernels}
    return [(truth, by_name[truth.kernel]) for truth in scoring.truths(times)]


def said(kernel: Diagnosis) -> Said:
    """What matters of a diagnosis here."""
    bounds = {f.subsystem: f.speedup_bound for f in kernel.findings if f.speedup_bound is not None}
    verdict = kernel.verdict
    if verdict.speedup_bound is not None:
        bounds[verdict.subsystem] = verdict.speedup_bound
    return Said(verdict.subsystem, verdict.confidence, bounds)


def scores(pairs: list[tuple[Truth, Said]]) -> dict[str, Any]:
    """The scores of each half, and every kernel whose confident verdict nothing supports or whose bound is too low."""
    halves = {half: scoring.scores([p for p in pairs if p[0].half == half]) for half in scoring.suite.HALVES}
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
    """What was measured, for people."""
    lines = [
        "Interventions  kernels  something helps  verdict matters  best of everything  without proofs  "
        "names the best  of the fixes  helps  "
        "wrong and sure  bounds  below a fix  bound / gain  tokens per answer"
    ]
    for half, s in found["halves"].items():
        lines.append(
            f"  {half:12}{s['kernels']:8}{s['where_something_helps']:17}"
            f"{s['matters_pct']:15.1f} %{s['best_of_everything_pct']:18.1f} %{s['without_proofs_pct']:14.1f} %"
            f"{s['names_the_best_pct']:14.1f} %{s['names_the_best_fix_pct']:12.1f} %"
            f"{s['helps_pct']:5.1f} %"
            f"{s['wrong_and_sure']:16}{s['bounds']:8}{s['bounds_below_a_fix']:13}{s['median_bound_over_gain']:14.2f}"
            f"{s['tokens_per_answer']:19.0f}"
        )
    for half, s in found["halves"].items():
        classes = ", ".join(f"{c['confidence']}: {c['matters_pct']:.0f} % of {c['kernels']}" for c in s["calibration"])
        lines.append(f"  verdict matters by confidence, {half}: {classes}")
    return lines
