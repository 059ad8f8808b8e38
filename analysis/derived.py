"""What one query yields: aggregates per metric, the peaks beside them, and figures that are no plain ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .catalog import Metric
from .compile import Query
from .formula import references

if TYPE_CHECKING:
    import duckdb

Aggregation = Literal["sum_ratio", "mean"]
Key = tuple[str | None, int, int]
"""Kernel (None: all), index of the metric in the query, channel (0 where there are none)."""


@dataclass(frozen=True)
class Aggregate:
    """The values of one metric over the dispatches of one group; ``zero`` and ``untimed`` count what had no value."""

    ratio: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    std: float | None = None
    q1: float | None = None
    median: float | None = None
    q3: float | None = None
    n: int = 0
    zero: int = 0
    total: int = 0
    untimed: int = 0

    def value(self, metric: Metric, aggregation: Aggregation) -> float | None:
        """The aggregate asked for; None where sums overflowed."""
        found = self.mean if aggregation == "mean" or metric.rule == "mean" else self.ratio
        return found if found is not None and math.isfinite(found) else None


NOTHING = Aggregate()


def run(con: duckdb.DuckDBPyConnection, query: Query) -> dict[Key, Aggregate]:
    """Execute a compiled query; empty where nothing could be compiled."""
    if not query.sql:
        return {}
    found = {(kernel, pair, ch): Aggregate(*rest) for kernel, pair, ch, *rest in con.execute(query.sql).fetchall()}
    users: dict[int, list[int]] = {}
    for metric, pair in enumerate(query.pairs):
        if pair is not None:
            users.setdefault(pair, []).append(metric)
    return {(kernel, metric, ch): a for (kernel, pair, ch), a in found.items() for metric in users[pair]}


def peaks(con: duckdb.DuckDBPyConnection, query: Query) -> dict[str, float | str]:
    """Peaks by metric name: a number, or a sentence that names the device fact that is unknown."""
    formulas = {m.name: m.peak for m in query.metrics if m.peak}
    needs = references(formulas.values())
    found: dict[str, float | str] = {}
    ready: dict[str, str] = {}
    for name, formula in formulas.items():
        if unknown := sorted(needs[formula] - query.facts.keys()):
            found[name] = f"no peak: {', '.join(unknown)} unknown"
        else:
            ready[name] = formula
    if ready:
        distinct = list(dict.fromkeys(ready.values()))
        used = {name for formula in distinct for name in needs[formula]}
        given = _given({name: query.facts[name] for name in used})
        items = ", ".join(f"({f})::DOUBLE" for f in distinct)
        values = dict(zip(distinct, con.execute(f"SELECT {items} FROM (SELECT {given})").fetchone() or (), strict=True))
        found |= {n: float(v) for n, f in ready.items() if (v := values[f]) is not None and math.isfinite(v)}
    return found


def finish(
    con: duckdb.DuckDBPyConnection, query: Query, aggregates: dict[Key, Aggregate], aggregation: Aggregation
) -> dict[Key, float | None]:
    """Apply ``finish`` expressions to the aggregates of the metrics that have one, those first that others use."""
    found: dict[Key, float | None] = {}
    place = {m.name: i for i, m in enumerate(query.metrics)}
    wanted = [key for key in aggregates if query.metrics[key[1]].finish]
    for key in sorted(wanted, key=lambda k: bool(query.metrics[k[1]].uses)):
        metric = query.metrics[key[1]]
        value = aggregates[key].value(metric, aggregation)
        others = {name: found.get((key[0], place[used], key[2])) for name, used in metric.uses.items()}
        known = {name: v for name, v in others.items() if v}
        if value is None or len(known) < len(others):
            continue
        inputs = {**query.facts, **known, "value": value}
        given = _given({name: inputs[name] for name in references([metric.finish or "0"])[metric.finish or "0"]})
        answer = con.execute(f"SELECT ({metric.finish})::DOUBLE FROM (SELECT {given})").fetchone()
        found[key] = answer[0] if answer else None
    return found


def _given(values: dict[str, float]) -> str:
    return ", ".join(f"{v!r}::DOUBLE AS {k}" for k, v in values.items()) or "1 AS nothing"
