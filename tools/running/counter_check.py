"""Evaluate the profile of kernels with known work: import it, compare every metric, store and report the verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import __version__
from ...analysis.base.database import sql_name
from ...analysis.counter_check import check_records
from ...analysis.counter_check.known_kernels import KnownLaunch, parse_plan
from ...analysis.counter_check.metric_verdicts import (
    MeasuredMetric,
    MetricJudgement,
    QuestionAnswer,
    answer_questions,
    judge_metrics,
    meanings,
    questions,
)
from ...analysis.engine.evaluation import FigureRequest, figures
from ...analysis.store.store import Store
from ...analysis.workload import Workload
from ..device.counter_check import disassembly, report
from .run_state import ProfileRun, read_record
from .saving import save
from .worker import CallProgress

FOLDER, PLAN, RESULTS, REPORT, PAGE = "check", "plan.json", "results.json", "report.json", "report.md"
"""File names in the run's folder: what was launched, what the program reported about it, and what was found."""
_CYCLES, _SPIN = "dispatch.gpu_cycles", "known_spin"


def judge(store: Store, progress: CallProgress, run_id: str) -> dict[str, Any]:
    """Import the profile of a run and compare it: one row per metric, answers to open questions, and two reports.

    The verdicts are also kept in the store.
    """
    summary = save(store, progress, run_id)
    if not (store.run_folder(run_id) / FOLDER / RESULTS).exists():
        # The program failed before it had launched every kernel, so missing launches say nothing about a metric.
        return summary
    progress(0.5, "comparing")
    return {**summary, **conclude_check(store, store.run_folder(run_id), summary["workload"])}


def conclude_check(store: Store, run_folder: Path, imported: str) -> dict[str, Any]:
    """Judge the workload of a run; write the reports into the run's folder and the verdicts into the store."""
    folder, run = run_folder / FOLDER, read_record(run_folder)
    assert isinstance(run, ProfileRun)
    launches = parse_plan((folder / PLAN).read_text(encoding="utf-8"))
    results = folder / RESULTS
    program_results = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    reported = program_results.get("kernels", {})
    with Workload.open(store, imported) as workload:
        judgements = judge_workload(workload, launches, reported, disassembly.code_quantities(folder, launches))
        answers = [answer_row(one) for one in answer_open_questions(workload, launches, reported)]
        record = _record(workload, run, judgements)
    check_records.save(store, record)
    rows = [row(one) for one in judgements]
    compiler = program_results.get("compiler")
    about = {
        **record.model_dump(exclude={"metrics"}),
        # Without the path of its folder.
        "compiler": compiler and compiler.partition(" (")[0],
        "kernels": len(launches),
    }
    (folder / REPORT).write_text(report.document(about, rows, answers), encoding="utf-8")
    (folder / PAGE).write_text(report.markdown(about, rows, answers), encoding="utf-8")
    wrong = {name: one["wrong"] for name, one in reported.items() if one.get("right") is False}
    told_rows = [{name: value for name, value in one.items() if name != "points"} for one in rows]
    return {"check": told_rows, "questions": answers, "wrong": wrong, "report": str(folder / PAGE)}


def _record(workload: Workload, run: ProfileRun, judgements: Iterable[MetricJudgement]) -> check_records.Record:
    digests = check_records.digests(workload.arch)
    verdicts = {
        one.metric.name: check_records.MetricCheck(
            verdict=one.verdict, formula=digests[one.metric.name], factor=one.factor, cause=one.cause
        )
        for one in judgements
        if one.verdict != "not_determined"
    }
    return check_records.Record(
        target=workload.arch,
        device=workload.manifest.device,
        tool=workload.manifest.tool,
        tool_version=workload.manifest.tool_version or run.profiler_version,
        rooflens=__version__,
        checked_at=datetime.now(UTC).strftime("%Y-%m-%d"),
        metrics=verdicts,
    )


def answer_row(one: QuestionAnswer) -> dict[str, Any]:
    """Return an answer as data."""
    figure = "" if one.figure is None else f"{one.figure:.4g} in {one.question.kernel}"
    return {
        "question": one.question.question,
        "answer": one.reading or "open",
        "evidence": figure if one.reading else "; ".join(part for part in (one.why, figure) if part),
    }


def answer_open_questions(
    workload: Workload, launches: Sequence[KnownLaunch], reported: Mapping[str, Any]
) -> list[QuestionAnswer]:
    """Return the answers to open questions, based on the counters of a workload of known kernels."""
    short = _launch_names(workload, launches)
    inputs = _known_inputs(_times(workload, short), {}, launches, reported)
    relation = workload.relation("counters")
    columns = [name for name, *_ in workload.rows(f"SELECT column_name FROM (DESCRIBE SELECT * FROM {relation})")]
    wanted = {name for one in questions(workload.arch) for name in one.reads} & set(columns)
    counters: dict[str, dict[str, float]] = {}
    if wanted:
        listed = sorted(wanted)
        sums = ", ".join(f"avg({sql_name(name)})::DOUBLE" for name in listed)
        for kernel, *values in workload.rows(f"SELECT kernel, {sums} FROM {relation} GROUP BY kernel"):
            if kernel in short:
                counters[short[kernel]] = {n: v for n, v in zip(listed, values, strict=True) if v is not None}
    quantities = {
        launch.name: {
            **workload.facts,
            **inputs.get(launch.name, {}),
            **launch.quantities,
            **counters.get(launch.name, {}),
        }
        for launch in launches
    }
    return answer_questions(workload.arch, quantities)


def _launch_names(workload: Workload, launches: Iterable[KnownLaunch]) -> dict[str, str]:
    """Map each kernel name that the profiler wrote to the name of its launch, the longest that it contains."""
    names = sorted((launch.name for launch in launches), key=len, reverse=True)
    return {kernel: fitting[0] for kernel in workload.kernels if (fitting := [n for n in names if n in kernel])}


def judge_workload(
    workload: Workload,
    launches: list[KnownLaunch],
    reported: Mapping[str, Any],
    code: Mapping[str, Mapping[str, float]] = {},
) -> list[MetricJudgement]:
    """Judge every metric of a workload of known kernels; ``code`` has the quantities read from their machine code."""
    target = workload.arch
    all_figures = figures(workload, list(meanings(target)), FigureRequest(by_kernel=True, quartiles=False))
    short = _launch_names(workload, launches)
    have = [
        MeasuredMetric(f.name, short[f.kernel], f.value, f.reason.text if f.reason else "")
        for f in all_figures
        if f.kernel in short
    ]
    cycles = {m.kernel: m.value for m in have if m.metric == _CYCLES and m.value}
    inputs = _known_inputs(_times(workload, short), cycles, launches, reported)
    for name, told_by_code in code.items():
        inputs.setdefault(name, {}).update(told_by_code)
    return judge_metrics(target, launches, have, inputs, workload.facts)


def _times(workload: Workload, short: Mapping[str, str]) -> dict[str, float]:
    """Return the duration of each launch in nanoseconds."""
    source = workload.relation("dispatches")
    rows = workload.rows(f"SELECT kernel, avg(duration_ns)::DOUBLE FROM {source} GROUP BY kernel")
    return {short[kernel]: time for kernel, time in rows if time and kernel in short}


def _known_inputs(
    times: Mapping[str, float],
    cycles: Mapping[str, float],
    launches: Iterable[KnownLaunch],
    reported: Mapping[str, Any],
) -> dict[str, dict[str, float]]:
    """Return what is known about each kernel besides its work: its time and its cycles.

    The cycles are the counted ones, scaled with the one kernel that measures its own cycles. They therefore follow a
    varying clock but do not contain a wrong factor in the cycle counter.
    """
    inputs: dict[str, dict[str, float]] = {}
    spun = next((launch.quantities["spun"] for launch in launches if launch.name == _SPIN), None)
    mhz = _core_clock_mhz(times, spun, reported.get(_SPIN, {}))
    scale = spun / cycles[_SPIN] if spun and cycles.get(_SPIN) else None
    for name, time in times.items():
        inputs[name] = {"time_ns": time, **({"mhz": mhz} if mhz else {})}
        if scale and name in cycles:
            inputs[name]["cycles"] = cycles[name] * scale
        elif mhz:
            inputs[name]["cycles"] = time * mhz / 1000
    return inputs


def _core_clock_mhz(times: Mapping[str, float], spun: float | None, spin_report: Mapping[str, Any]) -> float | None:
    """The core clock in MHz, from the cycles and nanoseconds that a wave counted, else from the nominal spin cycles."""
    if spin_report.get("ns") and spin_report.get("cycles"):
        return 1000.0 * float(spin_report["cycles"]) / float(spin_report["ns"])
    if spun is not None and times.get(_SPIN):
        return 1000.0 * spun / times[_SPIN]
    return None


def row(one: MetricJudgement) -> dict[str, Any]:
    """Return a judgement as data."""
    point = one.representative
    return {
        "metric": one.metric.name,
        "unit": one.metric.unit,
        "verdict": one.verdict,
        **{name: getattr(point, name, None) for name in ("expected", "measured", "ratio", "kernel")},
        "kernels": len(one.points),
        "factor": one.factor,
        "cause": one.cause,
        "points": [[p.kernel, p.expected, p.measured, p.holds] for p in one.points],
    }
