"""After the profile of known kernels: import it, hold every metric against what it must say, keep and report that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...analysis.checking.known import Launch
from ...analysis.checking.meanings import meanings
from ...analysis.checking.verdicts import Judgement, Measured, judged
from ...analysis.engine import View, figures
from ...analysis.store import Store
from ...analysis.workload import Workload
from ..profile_command import save
from ..runner.worker import Progress

FOLDER, PLAN, RESULTS = "check", "plan.json", "results.json"
"""Names in the run's folder: what was launched, and what the program said of it."""


def judge(store: Store, progress: Progress, run_id: str) -> dict[str, Any]:
    """Import the profile of a run and compare: a row for every metric."""
    summary = save(store, progress, run_id)
    progress(0.5, "comparing")
    folder = store.run_folder(run_id) / FOLDER
    launches = [Launch.model_validate(one) for one in json.loads((folder / PLAN).read_text(encoding="utf-8"))]
    results = folder / RESULTS
    said = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    with Workload.open(store, summary["workload"]) as workload:
        found = compared(workload, launches, said.get("kernels", {}))
    return {**summary, "check": [row(one) for one in found]}


def compared(workload: Workload, launches: list[Launch], said: Mapping[str, Any]) -> list[Judgement]:
    """Every metric of a workload of known kernels beside what it must say."""
    target = workload.arch
    measured = figures(workload, list(meanings(target)), View(by_kernel=True, quartiles=False))
    short = {name: one.name for name in workload.kernels for one in launches if one.name in name}
    have = [
        Measured(f.name, short[f.kernel], f.value, f.reason.text if f.reason else "")
        for f in measured
        if f.kernel in short
    ]
    given = _given(workload, {short[name]: name for name in sorted(short, key=len, reverse=True)}, launches, said)
    return judged(target, launches, have, given, workload.facts)


def _given(
    workload: Workload, names: Mapping[str, str], launches: Iterable[Launch], said: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """What is known of single kernels besides their work: their time, and the cycles in it at the clock of one."""
    rows = workload.rows(
        f"SELECT kernel, avg(duration_ns)::DOUBLE FROM {workload.relation('dispatches')} GROUP BY kernel"
    )
    times = {kernel: time for kernel, time in rows if time}
    given: dict[str, dict[str, float]] = {}
    mhz = _clock({short: times[name] for short, name in names.items() if name in times}, launches, said)
    for launch in launches:
        time = times.get(names.get(launch.name, ""))
        given[launch.name] = {"cus": workload.facts.get("cu_per_gpu", 0.0), **({"time_ns": time} if time else {})}
        if mhz:
            given[launch.name] |= {"mhz": mhz, **({"cycles": time * mhz / 1000} if time else {})}
    return given


def _clock(times: Mapping[str, float], launches: Iterable[Launch], said: Mapping[str, Any]) -> float | None:
    """The core clock in MHz: as a wave counted cycles and nanoseconds, else the cycles it was to spin by their time."""
    spinning = next((launch for launch in launches if launch.name == "known_spin"), None)
    told = said.get("known_spin", {})
    if told.get("ns") and told.get("cycles"):
        return 1000.0 * float(told["cycles"]) / float(told["ns"])
    if spinning and times.get("known_spin"):
        return 1000.0 * spinning.quantities["spun"] / times["known_spin"]
    return None


def row(one: Judgement) -> dict[str, Any]:
    """A judgement as data."""
    shown = one.shown
    return {
        "metric": one.metric.name,
        "unit": one.metric.unit,
        "verdict": one.verdict,
        "expected": shown.expected if shown else None,
        "measured": shown.measured if shown else None,
        "ratio": shown.ratio if shown else None,
        "kernel": shown.kernel if shown else None,
        "kernels": len(one.points),
        "factor": one.factor,
        "cause": one.cause,
        "points": [[p.kernel, p.expected, p.measured, p.holds] for p in one.points],
    }


def read_plan(path: Path) -> list[Launch]:
    """The launches of a plan file."""
    return [Launch.model_validate(one) for one in json.loads(path.read_text(encoding="utf-8"))]
