"""compare_workloads: two versions, or a series of them, with a verdict over the work as well as the time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..analysis import experiments
from ..analysis.comparison.compare import Compared, Comparison, compare
from ..analysis.experiments import Entry, Outcome
from ..analysis.problems import BadArgument
from ..analysis.store import Manifest, Store
from . import comparison_notes, comparison_series, comparison_tables
from .collectors.names import noted
from .results import Result, Table

_KERNELS = {"summary": 5, "full": 50}
_SERIES = 20


class CompareResult(Result):
    """What changed between workloads; the verdict is that of the pair that takes most of the baseline's time.

    improved and regressed are said of the same work only; ``kernels`` has every pair with its own verdict.
    """

    baseline: str
    candidates: list[str]
    verdict: str
    same_work: str
    summary: str
    kernels: Table
    work: Table | None = None
    explanation: Table | None = None
    metrics: Table | None = None
    normalised: Table | None = None
    only_in_baseline: list[str] = []
    only_in_candidate: list[str] = []
    logged: str | None = None


def compare_workloads(
    store: Store,
    baseline: str,
    candidate: str | list[str],
    kernel: str | None = None,
    group: Annotated[
        dict[str, list[str]] | None, Field(description='{"name": ["regex before", "regex after"]}')
    ] = None,
    hypothesis: str | None = None,
    change: str | None = None,
    detail: Literal["summary", "full"] = "summary",
) -> CompareResult:
    """Compare versions: times with 95 % interval and verdict, same work or not, what the change of time consists of,
    changed metrics. group: several kernels against one. hypothesis and change go to the log."""
    before = store.resolve(baseline)
    wanted = [candidate] if isinstance(candidate, str) else list(candidate)
    if not 1 <= len(wanted) <= _SERIES:
        raise BadArgument(f"candidate names {len(wanted)} workloads", fix=f"Name 1 to {_SERIES}")
    after = [store.resolve(word) for word in wanted]
    limit = _KERNELS[detail] if len(after) == 1 else 1
    found = [compare(store, before, m, kernel=kernel, groups=group, limit=limit) for m in after]
    result = _pair(store, found[0], detail) if len(found) == 1 else _series(before, found)
    if hypothesis or change:
        _log(store, found, hypothesis, change, result)
    return result


def _pair(store: Store, found: Comparison, detail: str) -> CompareResult:
    first = _first(found)
    top = found.pairs[: 1 if detail == "summary" else 5]
    alike = found.other_gpu is None
    return CompareResult(
        baseline=found.before.id,
        candidates=[found.after.id],
        verdict=first.verdict if first else "inconclusive",
        same_work=first.work.answer if first else "unknown",
        summary=comparison_notes.summary(found, first),
        kernels=comparison_tables.kernels(found),
        work=comparison_tables.work(top, detail) if alike else None,
        explanation=comparison_tables.explanation(top) if alike else None,
        normalised=None if alike else comparison_tables.normalised(found),
        metrics=comparison_tables.metrics(store, found, top, detail),
        only_in_baseline=comparison_tables.named(found.matching.only_before),
        only_in_candidate=comparison_tables.named(found.matching.only_after),
        notes=comparison_notes.notes(found),
        next=comparison_notes.next_calls(found, first),
    )


def _series(before: Manifest, found: list[Comparison]) -> CompareResult:
    last = _first(found[-1])
    return CompareResult(
        baseline=before.id,
        candidates=[c.after.id for c in found],
        verdict=last.verdict if last else "inconclusive",
        same_work=last.work.answer if last else "unknown",
        summary=comparison_series.summary(found),
        kernels=comparison_series.steps(found),
        notes=comparison_series.notes(found),
        next=comparison_notes.next_calls(found[-1], last),
    )


def _first(found: Comparison) -> Compared | None:
    return max(found.pairs, key=lambda p: p.share, default=None)


def _log(
    store: Store, found: list[Comparison], hypothesis: str | None, change: str | None, result: CompareResult
) -> None:
    """Note what was tried and what came of it; where the store may only be read, say that it was not noted."""
    if store.read_only:
        result.notes.append("Not noted in the experiment log: the store is open for reading only.")
        return
    for comparison in found:
        done = experiments.record(
            store,
            Entry(
                kind="comparison",
                workload=comparison.after.id,
                baseline=comparison.before.id,
                hypothesis=noted(hypothesis),
                change=noted(change),
                outcomes=[_outcome(pair, comparison.other_gpu is not None) for pair in comparison.pairs],
            ),
        )
        result.logged = done.id


def _outcome(found: Compared, other_gpu: bool) -> Outcome:
    effect = None if other_gpu else found.effect
    return Outcome(
        kernel=found.pair.label,
        kernels=list(dict.fromkeys((*found.pair.before, *found.pair.after))),
        verdict=found.verdict,
        why=found.why,
        speedup=effect.speedup if effect else None,
        low=effect.low if effect else None,
        high=effect.high if effect else None,
        same_work=found.work.answer,
    )
