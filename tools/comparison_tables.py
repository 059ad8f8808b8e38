"""The tables of compare_workloads: kernels, work, the sum that explains the time, metrics, and a series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis.comparison import explain
from ..analysis.comparison.changed import changes
from ..analysis.comparison.compare import Compared, Comparison
from ..analysis.comparison.matching import base_name
from ..analysis.scope import facts_of
from ..analysis.store import Store
from .results import Table, table

_NAME = 90
_ONLY = 8
_WORK = 6
_METRICS = {"summary": 6, "full": 20}
_FIGURES = 6
_NORMALISED = 2


def kernels(found: Comparison) -> Table:
    """One row a pair: time of a launch (of a group: of a round), speed-up with interval, verdict."""
    columns = {
        **dict.fromkeys(("kernel", "match")), "share_pct": "%", "baseline_ms": "ms", "candidate_ms": "ms",
        **dict.fromkeys(("speedup", "low", "high", "noise_pct", "n", "verdict", "same_work", "per_work", "per")),
    } | {"noise_pct": "%"}  # fmt: skip
    made, total = (
        table(columns, [_kernel(pair, found.other_gpu is not None) for pair in found.pairs]),
        len(found.matching.pairs),
    )
    return made.model_copy(update={"total_rows": total, "truncated": total > len(made.rows)})


def work(pairs: Sequence[Compared], detail: str) -> Table | None:
    """The quantities that tell whether the work was the same, in one round of launches."""
    rows = []
    for pair in pairs:
        shown = pair.work.evidence if detail == "full" else _telling(pair)
        for e in shown:
            unit = pair.per_unit.get(e.quantity)
            rows.append(
                [_brief(pair), e.quantity, rounded(e.before), rounded(e.after), rounded(e.ratio), rounded(unit)]
            )
    columns = ("kernel", "quantity", "baseline", "candidate", "ratio", "speedup_per_unit")
    return table(dict.fromkeys(columns), rows) if rows else None


def explanation(pairs: Sequence[Compared]) -> Table | None:
    """Terms whose ms add up to the change of the total time, and the factor that each puts on it."""
    rows = []
    for pair in pairs:
        for t in pair.terms:
            values = [rounded(t.before), rounded(t.after), t.unit or None]
            rows.append([_brief(pair), t.name, *values, rounded(t.factor), t.delta_ns / 1e6])
        if pair.terms:
            total = sum(t.delta_ns for t in pair.terms)
            before = pair.before.time_ns * pair.before.rounds
            rows.append([_brief(pair), "sum", None, None, None, rounded(1 + total / before), total / 1e6])
    columns = dict.fromkeys(("kernel", "term", "baseline", "candidate", "unit", "time_factor")) | {"delta_ms": "ms"}
    return table(columns, rows) if rows else None


def normalised(found: Comparison) -> Table:
    """Different GPUs: the least time on each one's own theoretical ceilings as a share of its time, and CU-cycles."""
    rows: list[list[Any]] = []
    for pair in found.pairs[:_NORMALISED]:
        shares, cycles = [], []
        for side, manifest, limits in zip(
            (pair.before, pair.after), (found.before, found.after), found.ceilings, strict=True
        ):
            least = explain.least_times(side, manifest.arch or "", limits) if limits is not None else {}
            shares.append({name: 100 * t[0] / side.time_ns for name, t in least.items() if side.time_ns})
            spent, units = side.amount("clock.of"), facts_of(manifest).get("cu_per_gpu") if manifest.arch else None
            cycles.append(spent * units if spent and units else None)
        for name in shares[0]:
            if name in shares[1] and max(shares[0][name], shares[1][name]) > 0:
                rows.append(
                    [_brief(pair), name, rounded(shares[0][name]), rounded(shares[1][name]), "% of own ceiling"]
                )
        if None not in cycles:
            rows.append([_brief(pair), "cycles of all units", rounded(cycles[0]), rounded(cycles[1]), "CU x cycles"])
    return table(dict.fromkeys(("kernel", "figure", "baseline", "candidate", "unit")), rows)


def metrics(store: Store, found: Comparison, pairs: Sequence[Compared], detail: str) -> Table | None:
    """The metrics that changed most, of pairs of single kernels."""
    rows: list[list[Any]] = []
    for pair in pairs:
        names = pair.pair.before, pair.pair.after
        if len(names[0]) != 1 or len(names[1]) != 1:
            continue
        other = found.other_gpu is not None
        for c in changes(store, found.before, names[0][0], found.after, names[1][0], other)[: _METRICS[detail]]:
            same = c.before.unit == c.after.unit
            unit = c.before.unit if same else f"{c.before.unit} / {c.after.unit}"
            word = "" if c.better is None else "yes" if c.better else "no"
            shown = [c.before.value, c.after.value]
            if other and c.before.pct_of_peak is not None and unit != "%":
                shown, unit = [c.before.pct_of_peak, c.after.pct_of_peak], "% of own peak"
            rows.append([_brief(pair), c.before.name, *map(rounded, shown), unit, word])
    columns = dict.fromkeys(("kernel", "metric", "baseline", "candidate", "unit", "better"))
    return table(columns, rows) if rows else None


def traffic(pair: Compared) -> tuple[float, float] | None:
    """HBM bytes of a round before and after, where both are known and not nothing."""
    amounts = pair.before.amount("hbm"), pair.after.amount("hbm")
    return (amounts[0], amounts[1]) if amounts[0] and amounts[1] else None


def short(name: str) -> str:
    """A kernel's name cut to what a table bears."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 20]}...{name[-17:]}"


def named(names: Sequence[str]) -> list[str]:
    """The first names of a list, and how many follow."""
    more = [f"and {len(names) - _ONLY} more"] if len(names) > _ONLY else []
    return [short(n) for n in names[:_ONLY]] + more


def _brief(pair: Compared) -> str:
    """A pair's name without parameters; the table kernels has it in full."""
    if pair.pair.how == "group":
        return pair.pair.label
    return short(" -> ".join(dict.fromkeys(base_name(names[0]) for names in (pair.pair.before, pair.pair.after))))


def _kernel(pair: Compared, other_gpu: bool) -> list[Any]:
    """The row of a pair; between different GPUs without the ratio of times."""
    e = pair.effect
    per = next(iter(pair.per_unit), None) if pair.work.answer != "yes" else None
    times: list[Any] = [e.baseline_ns / 1e6, e.candidate_ns / 1e6] if e else [None] * 2
    times += [rounded(e.speedup), rounded(e.low), rounded(e.high)] if e and not other_gpu else [None] * 3
    noise = [None if other_gpu else rounded(100 * e.floor), _counts(e.n)] if e else [None, None]
    judged = [pair.verdict, pair.work.answer, rounded(pair.per_unit[per]) if per else None, per]
    return [short(pair.pair.label), pair.pair.how, rounded(100 * pair.share), *times, *noise, *judged]


def _counts(n: tuple[int, int]) -> str:
    return str(n[0]) if n[0] == n[1] else f"{n[0]}, {n[1]}"


def _telling(pair: Compared) -> list[Any]:
    """What the answer rests on first, then what changed most."""
    evidence = [e for e in pair.work.evidence if e.before or e.after]
    return evidence[:_WORK]


def rounded(value: float | None) -> float | None:
    """A value with the digits that an answer needs."""
    return None if value is None else float(f"{value:.{_FIGURES}g}")
