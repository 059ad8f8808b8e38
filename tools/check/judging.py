"""After the profile of known kernels: import it, hold every metric against what it must say, keep and report that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import __version__
from ...analysis.checking import confirmed
from ...analysis.checking.known import Launch, planned
from ...analysis.checking.meanings import meanings
from ...analysis.checking.questions import Answer, answered, questions
from ...analysis.checking.verdicts import Judgement, Measured, judged
from ...analysis.database import sql_name
from ...analysis.engine import View, figures
from ...analysis.store import Store
from ...analysis.workload import Workload
from ..profilers.saving import save
from ..runner.state import ProfileRun, read_record
from ..runner.worker import Progress
from . import disassembly, report

FOLDER, PLAN, RESULTS, REPORT, PAGE = "check", "plan.json", "results.json", "report.json", "report.md"
"""Names in the run's folder: what was launched, what the program said of it, what was found."""
_CYCLES, _SPIN = "dispatch.gpu_cycles", "known_spin"


def judge(store: Store, progress: Progress, run_id: str) -> dict[str, Any]:
    """Import the profile of a run and compare: a row for every metric, answers to open questions, two reports.

    What holds and what does not is kept in the store.
    """
    summary = save(store, progress, run_id)
    if not (store.run_folder(run_id) / FOLDER / RESULTS).exists():
        # The program failed before it had launched everything: what is missing says nothing of a metric.
        return summary
    progress(0.5, "comparing")
    return {**summary, **concluded(store, store.run_folder(run_id), summary["workload"])}


def concluded(store: Store, run_folder: Path, imported: str) -> dict[str, Any]:
    """What the workload of a run says; the reports go into the run's folder, the verdicts into the store."""
    folder, run = run_folder / FOLDER, read_record(run_folder)
    assert isinstance(run, ProfileRun)
    launches = planned((folder / PLAN).read_text(encoding="utf-8"))
    results = folder / RESULTS
    said = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    with Workload.open(store, imported) as workload:
        found = compared(workload, launches, said.get("kernels", {}), disassembly.told(folder, launches))
        answers = [told(one) for one in asked(workload, launches, said.get("kernels", {}))]
        record = _record(workload, run, found)
    confirmed.save(store, record)
    rows = [row(one) for one in found]
    about = {
        **record.model_dump(exclude={"metrics"}),
        "compiler": _plain(said.get("compiler")),
        "kernels": len(launches),
    }
    (folder / REPORT).write_text(report.document(about, rows, answers), encoding="utf-8")
    (folder / PAGE).write_text(report.markdown(about, rows, answers), encoding="utf-8")
    wrong = {name: one["wrong"] for name, one in said.get("kernels", {}).items() if one.get("right") is False}
    told_rows = [{name: value for name, value in one.items() if name != "points"} for one in rows]
    return {"check": told_rows, "questions": answers, "wrong": wrong, "report": str(folder / PAGE)}


def _plain(compiler: str | None) -> str | None:
    """A compiler without the folder that it lies in."""
    return compiler and compiler.partition(" (")[0]


def _record(workload: Workload, run: ProfileRun, found: Iterable[Judgement]) -> confirmed.Record:
    digests = confirmed.digests(workload.arch)
    verdicts = {
        one.metric.name: confirmed.Verdict(
            verdict=one.verdict, formula=digests[one.metric.name], factor=one.factor, cause=one.cause
        )
        for one in found
        if one.verdict != "not_determined"
    }
    return confirmed.Record(
        target=workload.arch,
        device=workload.manifest.device,
        tool=workload.manifest.tool,
        tool_version=workload.manifest.tool_version or run.profiler_version,
        rooflens=__version__,
        checked_at=datetime.now(UTC).strftime("%Y-%m-%d"),
        metrics=verdicts,
    )


def told(one: Answer) -> dict[str, Any]:
    """An answer as data."""
    figure = "" if one.figure is None else f"{one.figure:.4g} in {one.question.kernel}"
    return {
        "question": one.question.question,
        "answer": one.reading or "open",
        "evidence": figure if one.reading else "; ".join(part for part in (one.why, figure) if part),
    }


def asked(workload: Workload, launches: Sequence[Launch], said: Mapping[str, Any]) -> list[Answer]:
    """The answers to open questions, from what a workload of known kernels counted."""
    short = _names(workload, launches)
    given = _given(_times(workload, short), {}, launches, said)
    relation = workload.relation("counters")
    columns = [name for name, *_ in workload.rows(f"SELECT column_name FROM (DESCRIBE SELECT * FROM {relation})")]
    wanted = {name for one in questions(workload.arch) for name in one.reads} & set(columns)
    counted: dict[str, dict[str, float]] = {}
    if wanted:
        listed = sorted(wanted)
        sums = ", ".join(f"avg({sql_name(name)})::DOUBLE" for name in listed)
        for kernel, *values in workload.rows(f"SELECT kernel, {sums} FROM {relation} GROUP BY kernel"):
            if kernel in short:
                counted[short[kernel]] = {n: v for n, v in zip(listed, values, strict=True) if v is not None}
    known = {
        launch.name: {
            **workload.facts,
            **given.get(launch.name, {}),
            **launch.quantities,
            **counted.get(launch.name, {}),
        }
        for launch in launches
    }
    return answered(workload.arch, known)


def _names(workload: Workload, launches: Iterable[Launch]) -> dict[str, str]:
    """Kernel as the profiler writes it -> the launch that it is."""
    return {name: found for name in workload.kernels if (found := _launched(name, launches))}


def compared(
    workload: Workload, launches: list[Launch], said: Mapping[str, Any], code: Mapping[str, Mapping[str, float]] = {}
) -> list[Judgement]:
    """Every metric of a workload of known kernels beside what it must say; ``code`` is what their code tells."""
    target = workload.arch
    measured = figures(workload, list(meanings(target)), View(by_kernel=True, quartiles=False))
    short = _names(workload, launches)
    have = [
        Measured(f.name, short[f.kernel], f.value, f.reason.text if f.reason else "")
        for f in measured
        if f.kernel in short
    ]
    cycles = {m.kernel: m.value for m in have if m.metric == _CYCLES and m.value}
    given = _given(_times(workload, short), cycles, launches, said)
    for name, told_by_code in code.items():
        given.setdefault(name, {}).update(told_by_code)
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
