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
_CYCLES, _SPIN = "dispatch.gpu_cycles", "known_spin"


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
    short = {name: found for name in workload.kernels if (found := _launched(name, launches))}
    have = [
        Measured(f.name, short[f.kernel], f.value, f.reason.text if f.reason else "")
        for f in measured
        if f.kernel in short
    ]
    cycles = {m.kernel: m.value for m in have if m.metric == _CYCLES and m.value}
    given = _given(_times(workload, short), cycles, launches, said)
    return judged(target, launches, have, given, workload.facts)


def _launched(kernel: str, launches: Iterable[Launch]) -> str | None:
    """Which launch a kernel's name as the profiler writes it stands for."""
    fitting = [launch.name for launch in launches if launch.name in kernel]
    return max(fitting, key=len, default=None)


def _times(workload: Workload, short: Mapping[str, str]) -> dict[str, float]:
    """Nanoseconds of each launch."""
    source = workload.relation("dispatches")
    rows = workload.rows(f"SELECT kernel, avg(duration_ns)::DOUBLE FROM {source} GROUP BY kernel")
    return {short[kernel]: time for kernel, time in rows if time and kernel in short}


def _given(
    times: Mapping[str, float], cycles: Mapping[str, float], launches: Iterable[Launch], said: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """What is known of single kernels besides their work: time, and cycles as counted, by the measure of the one kernel
    that knows its own: a clock that changes is in them, and a wrong factor is not."""
    given: dict[str, dict[str, float]] = {}
    mhz = _clock(times, launches, said)
    spun = next((launch.quantities["spun"] for launch in launches if launch.name == _SPIN), None)
    scale = spun / cycles[_SPIN] if spun and cycles.get(_SPIN) else None
    for name, time in times.items():
        given[name] = {"time_ns": time, **({"mhz": mhz} if mhz else {})}
        if scale and name in cycles:
            given[name]["cycles"] = cycles[name] * scale
        elif mhz:
            given[name]["cycles"] = time * mhz / 1000
    return given


def _clock(times: Mapping[str, float], launches: Iterable[Launch], said: Mapping[str, Any]) -> float | None:
    """The core clock in MHz: as a wave counted cycles and nanoseconds, else the cycles it was to spin by their time."""
    spinning = next((launch for launch in launches if launch.name == _SPIN), None)
    told = said.get(_SPIN, {})
    if told.get("ns") and told.get("cycles"):
        return 1000.0 * float(told["cycles"]) / float(told["ns"])
    if spinning and times.get(_SPIN):
        return 1000.0 * spinning.quantities["spun"] / times[_SPIN]
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
