"""More than two workloads: a step each, against the baseline and against the step before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis.comparison.compare import Compared, Comparison
from ..analysis.comparison.effect import ENOUGH
from .comparison_notes import per_unit, risen
from .comparison_tables import rounded, short, traffic
from .results import Table, table


def steps(found: Sequence[Comparison]) -> Table:
    """One row a step and pair: against the baseline and against the step before, with HBM traffic and bandwidth."""
    columns: dict[str, str | None] = {
        "workload": None, "kernel": None, "ms": "ms", "speedup": None, "low": None, "high": None, "verdict": None,
        "same_work": None, "step_speedup": None, "hbm_bytes": "bytes", "hbm_gbs": "GB/s", "pct_of_peak": "%",
        "traffic_ratio": None, "bandwidth_ratio": None,
    }  # fmt: skip
    rows: list[list[Any]] = []
    last: dict[str, float] = {}
    for step, comparison in enumerate(found):
        for pair in comparison.pairs:
            label = pair.pair.before[0] if pair.pair.how != "group" else pair.pair.label
            if step == 0:
                rows.append(_first_step(comparison, pair, label))
                last[label] = pair.effect.baseline_ns if pair.effect else 0.0
            rows.append(_step(comparison, pair, label, last.get(label)))
            last[label] = pair.effect.candidate_ns if pair.effect else 0.0
    return table(columns, rows)


def summary(found: Sequence[Comparison]) -> str:
    """The speed-up of every step over the baseline, and the best of those that are certain."""
    steps = [(c, p) for c in found for p in c.pairs if p.effect is not None]
    if not steps:
        return "No kernel of the baseline has a timed counterpart."
    told = [(c, p) for c, p in steps if p.verdict == "improved"]
    words = [
        f"{c.after.name} x {p.effect.speedup:.3f} ({'not like for like' if p.work.answer == 'no' else p.verdict})"
        for c, p in steps
        if p.effect and c.other_gpu is None
    ]
    best = max(told, key=lambda s: s[1].effect.speedup if s[1].effect else 0.0, default=None)
    lead = f"Best so far: {best[0].after.name}. " if best else "No step is a certain improvement. "
    return f"{lead}Speed-up over {found[0].before.name}: {', '.join(words)}."


def notes(found: Sequence[Comparison]) -> list[str]:
    """What the steps of a series teach, and where they are not alike."""
    said = []
    for c in found:
        if c.other_gpu:
            said.append(f"{c.after.name}: {c.other_gpu}; its times are not compared.")
        for pair in c.pairs:
            if pair.work.answer == "no":
                said.append(f"{c.after.name}: not like for like, {pair.work.why}. {per_unit(pair)}")
            if text := risen(pair):
                said.append(f"{c.after.name}: {text}")
        if not c.pairs:
            said.append(f"{c.after.name}: no kernel has a counterpart in the baseline.")
    few = [p for c in found for p in c.pairs if p.effect and min(p.effect.n) < ENOUGH]
    if few:
        said.append(
            f"Fewer than {ENOUGH} timed launches in {len(few)} of {len(found)} steps: no interval, and a noise floor "
            f"of {max(p.effect.floor for p in few if p.effect):.0%}."
        )
    return list(dict.fromkeys(said))


def _first_step(comparison: Comparison, pair: Compared, label: str) -> list[Any]:
    e, amounts = pair.effect, traffic(pair)
    head = [comparison.before.name, short(label), e.baseline_ns / 1e6 if e else None, 1.0 if e else None, None, None]
    return [*head, "baseline", None, None, *_bandwidth(comparison, amounts, 0, pair.before.time_ns), None, None]


def _step(comparison: Comparison, pair: Compared, label: str, last: float | None) -> list[Any]:
    e, amounts = pair.effect, traffic(pair)
    times: list[Any] = [e.candidate_ns / 1e6, rounded(e.speedup), rounded(e.low), rounded(e.high)] if e else [None] * 4
    step = rounded(last / e.candidate_ns) if last and e else None
    if comparison.other_gpu is not None:
        times[1:], step = [None] * 3, None
    ratios: list[float | None] = [None, None]
    if amounts and pair.after.time_ns:
        more = amounts[1] / amounts[0]
        ratios = [rounded(more), rounded(more * pair.before.time_ns / pair.after.time_ns)]
    name = short(pair.pair.after[0]) if pair.pair.how not in ("group", "same name") else short(label)
    row = [comparison.after.name, name, *times, pair.verdict, pair.work.answer, step]
    return [*row, *_bandwidth(comparison, amounts, 1, pair.after.time_ns), *ratios]


def _bandwidth(comparison: Comparison, amounts: tuple[float, float] | None, side: int, time_ns: float) -> list[Any]:
    limits = comparison.ceilings[side]
    peak = limits.value("hbm.bw") if limits is not None else None
    if not amounts or not time_ns:
        return [None, None, None]
    rate = amounts[side] / time_ns
    return [rounded(amounts[side]), rounded(rate), rounded(100 * rate / peak) if peak else None]
