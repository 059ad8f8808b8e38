"""The answers of tools as objects: tables as DataFrames, verdicts and notes as attributes, and a view for notebooks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from ..analysis.base.notes import Reason
from ..tools.base.results import Result
from ..tools.compare_workloads import CompareResult
from ..tools.compute_occupancy import OccupancyResult
from ..tools.compute_timeline import TimelineResult
from ..tools.diagnose_bottleneck import DiagnosisResult
from ..tools.find_hotspots import HotspotsResult
from ..tools.plan_profile import PlanResult
from .display import DisplayedObject, Drawing, Pictured, View, of_any, of_records, some, value_text

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R", bound=Result)


class Answer(DisplayedObject, Generic[R]):
    """The answer of a tool. ``result`` is the complete result of the tool; ``notes`` explains its figures."""

    def __init__(self, result: R) -> None:
        self.result = result

    @property
    def notes(self) -> list[str]:
        """Sentences that explain the figures or limit what they mean."""
        return list(self.result.notes)


class ComparisonAnswer(Pictured, Answer[CompareResult]):
    """A comparison of a baseline with candidates; ``verdict`` is that of the pair that takes the most time."""

    def __init__(self, result: CompareResult, drawing: Drawing) -> None:
        Pictured.__init__(self, drawing)
        Answer.__init__(self, result)

    @property
    def verdict(self) -> str:
        """improved, regressed or inconclusive; the first two are given only if both did the same work."""
        return self.result.verdict

    @property
    def same_work(self) -> str:
        """yes, no or unknown: whether both did the same work."""
        return self.result.same_work

    @property
    def summary(self) -> str:
        """The outcome as a sentence."""
        return self.result.answer or ""

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """A row per pair of kernels (per step with several candidates): times, speed-up, interval and verdict."""
        return of_any(self.result.kernels)

    @cached_property
    def changed(self) -> pd.DataFrame:
        """The metrics that changed, for the 20 pairs that take the most time; use ``kernel=`` for other pairs."""
        return of_any(self.result.metrics)

    @cached_property
    def explanation(self) -> pd.DataFrame:
        """The terms that the change in each pair's time consists of."""
        return of_any(self.result.explanation)

    @cached_property
    def work(self) -> pd.DataFrame:
        """The quantities that show whether the work was the same."""
        return of_any(self.result.work)

    @cached_property
    def launches(self) -> pd.DataFrame:
        """The differences between the launches: sizes, registers, LDS, clocks."""
        return of_any(self.result.launch)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """The kernels in each group of the argument ``group``."""
        return of_any(self.result.groups)

    @cached_property
    def lines(self) -> pd.DataFrame:
        """Source lines or instructions that lost or gained samples, if both workloads have samples."""
        return of_any(self.result.lines)

    @cached_property
    def normalised(self) -> pd.DataFrame:
        """For different GPUs: the minimum times as shares of each GPU's own ceilings."""
        return of_any(self.result.normalised)

    @property
    def causes(self) -> list[str]:
        """Sentences about other changes in the pair that takes the most time."""
        return list(self.result.causes)

    @property
    def only_in_baseline(self) -> list[str]:
        """Kernels without a counterpart in the candidate."""
        return list(self.result.only_in_baseline)

    @property
    def only_in_candidate(self) -> list[str]:
        """Kernels without a counterpart in the baseline."""
        return list(self.result.only_in_candidate)

    def _view(self) -> View:
        facts = {"verdict": self.verdict, "same work": self.same_work, "summary": self.summary}
        facts["causes"] = "; ".join(self.causes)
        times = ("kernel", "share_pct", "baseline_ms", "candidate_ms", "ms", "speedup", "low", "high")
        tables = {
            "kernels": some(self.kernels, *times, "verdict", "same_work", "status"),
            "changed": self.changed,
            "explanation": self.explanation,
        }
        return View("Comparison", facts, tables, notes=self.notes)


class DiagnosisAnswer(Answer[DiagnosisResult]):
    """What limits each kernel, longest total time first."""

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """A row per kernel: subsystem, bound, confidence, upper bounds of the speed-up."""
        rows = []
        for d in self.result.kernels:
            verdict = d.verdict
            rows.append(
                {
                    "rank": d.rank,
                    "number": f"#{d.number}",
                    "kernel": d.kernel,
                    "share_pct": d.share_pct,
                    "launches": d.launches,
                    "subsystem": verdict.subsystem,
                    "bound": verdict.bound,
                    "confidence": verdict.confidence,
                    "speedup_bound": verdict.speedup_bound,
                    "program_bound": verdict.program_bound,
                    "status": "suspect" if verdict.doubt else "ok",
                    "reason": _text(verdict.doubt),
                }
            )
        return of_records(rows, {"share_pct": "%"})

    @cached_property
    def findings(self) -> pd.DataFrame:
        """A row per finding: claim, severity (0 to 100), evidence, contradictions and advice."""
        rows = [
            {
                "number": f"#{d.number}",
                "kernel": d.kernel,
                "subsystem": f.subsystem,
                "severity": f.severity,
                "claim": f.claim,
                "speedup_bound": f.speedup_bound,
                "evidence": _evidence(f.evidence),
                "contradicting": _evidence(f.contradicting),
                "advice": "; ".join(a.do for a in f.advice) or None,
                "falsify": f.falsify,
                "then": f.then,
                "tried": "; ".join(f.tried) or None,
            }
            for d in self.result.kernels
            for f in d.findings
        ]
        return of_records(rows)

    @cached_property
    def evidence(self) -> pd.DataFrame:
        """A row per figure behind a finding, with the SQL that reproduces it."""
        rows = [
            {
                "number": f"#{d.number}",
                "subsystem": f.subsystem,
                "speaks": speaks,
                "metric": e.metric,
                "value": e.value,
                "unit": e.unit,
                "threshold": e.threshold,
                "status": e.status,
                "reason": _text(e.reason),
                "sql": e.sql,
            }
            for d in self.result.kernels
            for f in d.findings
            for speaks, figures in (("for", f.evidence), ("against", f.contradicting))
            for e in figures
        ]
        return of_records(rows)

    @cached_property
    def loads(self) -> pd.DataFrame:
        """The load of each unit for each kernel, in percent of what the unit can sustain."""
        rows = [
            {
                "number": f"#{d.number}",
                "kernel": d.kernel,
                "unit": load.unit,
                "label": load.label,
                "pct": load.pct,
                "cycles_pct": load.cycles_pct,
                "work_pct": load.work_pct,
                "status": load.status,
                "reason": _text(load.reason),
            }
            for d in self.result.kernels
            for load in d.units
        ]
        return of_records(rows, dict.fromkeys(("pct", "cycles_pct", "work_pct"), "%"))

    @cached_property
    def next_counters(self) -> pd.DataFrame:
        """For undecided verdicts, the counters that would decide them and the passes needed to collect these."""
        rows = [
            {
                "number": f"#{d.number}",
                "decides": ", ".join(r.decides),
                "metrics": ", ".join(r.metrics),
                "passes": r.passes,
            }
            for d in self.result.kernels
            for r in d.next_counters
        ]
        return of_records(rows)

    def _view(self) -> View:
        facts, whole = {}, self.result.application
        if whole is not None:
            facts["application"] = f"{whole.height}: {whole.claim}"
        for d in self.result.kernels[:5]:
            gain = "" if d.verdict.speedup_bound is None else f", at most {d.verdict.speedup_bound:.3g} times as fast"
            facts[f"#{d.number}"] = (
                f"{d.verdict.subsystem} ({d.verdict.bound}), confidence {d.verdict.confidence:.2f}{gain}; {d.kernel}"
            )
        tables = {
            "verdicts": self.verdicts,
            "findings": some(self.findings, "number", "subsystem", "severity", "claim", "evidence", "advice"),
        }
        return View(f"Diagnosis of {self.result.name}", facts, tables, notes=self.notes)


def _text(reason: Reason | None) -> str | None:
    return None if reason is None else reason.text


def _evidence(figures: Sequence[object]) -> str | None:
    told = []
    for e in figures:
        value, unit, threshold = (getattr(e, name) for name in ("value", "unit", "threshold"))
        known = "unknown" if value is None else f"{value_text(value)} {unit}".strip()
        told.append(f"{getattr(e, 'metric')} = {known}" + (f" ({threshold})" if threshold else ""))  # noqa: B009
    return "; ".join(told) or None


class OccupancyAnswer(Pictured, Answer[OccupancyResult]):
    """The number of waves that are resident on one CU, what limits it, and what would increase it."""

    def __init__(self, result: OccupancyResult, drawing: Drawing) -> None:
        Pictured.__init__(self, drawing)
        Answer.__init__(self, result)

    @property
    def waves_per_cu(self) -> int | None:
        """For the first kernel; None if it cannot be computed."""
        return self.result.waves_per_cu

    @property
    def occupancy_pct(self) -> float | None:
        """For the first kernel: its waves as a percentage of the maximum on a CU."""
        return self.result.occupancy_pct

    @property
    def limiters(self) -> list[str]:
        """The resources that limit the first kernel."""
        return list(self.result.limiters)

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """A row per kernel and launch configuration: resources, waves and limiters."""
        return of_any(self.result.kernels)

    @cached_property
    def limits(self) -> pd.DataFrame:
        """The number of waves that each resource alone would allow for the first kernel."""
        return of_any(self.result.limits)

    @cached_property
    def what_if(self) -> pd.DataFrame:
        """The smallest changes that would increase the number of waves of the first kernel."""
        return of_any(self.result.what_if)

    def _view(self) -> View:
        result = self.result
        waves = f"{value_text(result.waves_per_cu)} of {value_text(result.max_waves_per_cu)} waves per {result.cu}"
        facts = {
            "kernel": result.kernel or "",
            "occupancy": f"{waves} ({value_text(result.occupancy_pct)} %), limited by {', '.join(result.limiters)}"
            if result.waves_per_cu is not None
            else "",
            "achieved": f"{value_text(result.achieved_waves_per_cu)} waves ({value_text(result.achieved_pct)} %)"
            if result.achieved_waves_per_cu is not None
            else "",
            "answer": result.answer or "",
        }
        tables = {"limits": self.limits, "what if": self.what_if, "kernels": self.kernels}
        return View(f"Occupancy on {result.gpu}", facts, tables, notes=self.notes)


class TimelineAnswer(Pictured, Answer[TimelineResult]):
    """Where the wall time of a program is spent, and why the device is idle."""

    def __init__(self, result: TimelineResult, drawing: Drawing) -> None:
        Pictured.__init__(self, drawing)
        Answer.__init__(self, result)

    @property
    def verdict(self) -> str:
        """What takes the most wall time: gpu, launch, host, copies, synchronisation, allocation, communication."""
        return self.result.verdict.height

    @cached_property
    def findings(self) -> pd.DataFrame:
        """A row per cause: share of the wall time, claim, upper bound of the gain, evidence and advice."""
        rows = [
            {
                "height": f.height,
                "share_pct": f.share_pct,
                "claim": f.claim,
                "speedup_bound": f.speedup_bound,
                "evidence": "; ".join(f.evidence) or None,
                "advice": "; ".join(f.advice) or None,
            }
            for f in self.result.findings
        ]
        return of_records(rows, {"share_pct": "%"})

    @cached_property
    def split(self) -> pd.DataFrame:
        """The wall time by the activity of the device."""
        return of_any(self.result.split)

    @cached_property
    def idle(self) -> pd.DataFrame:
        """The idle time by cause."""
        return of_any(self.result.idle)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """The gaps, longest first."""
        return of_any(self.result.gaps)

    @cached_property
    def copies(self) -> pd.DataFrame:
        """Copies by direction, with bytes and rates."""
        return of_any(self.result.copies)

    @cached_property
    def devices(self) -> pd.DataFrame:
        """A row per device with its shares of the wall time."""
        return of_any(self.result.devices)

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """The kernels by time within the window."""
        return of_any(self.result.kernels)

    @cached_property
    def ranges(self) -> pd.DataFrame:
        """The ranges (NVTX, ROCTX, operators) by host and device time."""
        return of_any(self.result.ranges)

    @cached_property
    def figures(self) -> pd.DataFrame:
        """Single figures, such as launches per second, each with unit, status and reason."""
        return of_any(self.result.figures)

    def _view(self) -> View:
        result = self.result
        share = "" if result.verdict.share_pct is None else f" ({value_text(result.verdict.share_pct)} %)"
        facts = {
            "verdict": f"{self.verdict}{share}",
            "window": f"{value_text(result.wall_ms)} ms, {result.window}",
            "steps": result.steps,
        }
        return View(f"Timeline of {result.name}", facts, {"split": self.split, "idle": self.idle}, notes=self.notes)


class Hotspots(Answer[HotspotsResult]):
    """The source lines or instructions of one kernel that take the time."""

    @property
    def kernel(self) -> str:
        """The kernel that the rows belong to."""
        return self.result.kernel

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The places, most expensive first: share of the samples with interval, stall reasons, causes of waiting."""
        return of_any(self.result.hotspots)

    @cached_property
    def loops(self) -> pd.DataFrame:
        """The loops that contain these places."""
        return of_any(self.result.loops)

    @cached_property
    def source(self) -> pd.DataFrame:
        """Source lines around the most expensive place, if they are available."""
        return of_any(self.result.source)

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """The other kernels with samples, each with its hottest place."""
        return of_any(self.result.kernels)

    def _view(self) -> View:
        facts = {"kernel": f"#{self.result.number} {self.kernel}", "samples": value_text(self.result.samples)}
        return View(f"Hot spots of {self.result.name}", facts, {"rows": self.rows}, notes=self.notes)


class PlanAnswer(Answer[PlanResult]):
    """The counter passes that metrics need, and the commands that collect them on any machine."""

    @cached_property
    def passes(self) -> pd.DataFrame:
        """The counters of each pass."""
        return of_any(self.result.passes)

    @property
    def files(self) -> Mapping[str, str]:
        """Input files of the commands: path relative to the folder that they run in, and content."""
        table = self.result.files
        at = [table.columns.index(name) for name in ("file", "text")]
        return {str(row[at[0]]): str(row[at[1]]) for row in table.rows}

    @property
    def script(self) -> str:
        """The commands as lines for bash, including the preparations."""
        lines = [command.shell or shlex.join(command.argv) for command in self.result.commands]
        return "\n".join([self.result.prepare, *lines]) + "\n"

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Metrics that cannot be collected on this GPU, with the reason."""
        return dict(self.result.unsupported)

    def _view(self) -> View:
        result = self.result
        facts = {
            "profiler": result.profiler,
            "runs of the program": str(result.application_runs),
            "metrics complete in one pass": str(result.whole_total),
            "metrics split": ", ".join(result.split),
        }
        return View(f"Plan for {result.gpu}", facts, {"passes": self.passes}, notes=self.notes)
