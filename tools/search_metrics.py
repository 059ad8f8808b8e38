"""search_metrics: find metrics of the catalogue by words, names, ids or counters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue.metrics import Metric
from ..analysis.problems import near
from ..analysis.store import Store
from .parameters import Offset
from .results import NextCall, Result, Table, table

_COLUMNS = {"name": None, "id": None, "unit": None, "better": None, "formula": None, "counters": None, "gpus": None,
            "description": None}  # fmt: skip


class SearchResult(Result):
    """Catalogue rows, best match first."""

    table: Table


def search_metrics(
    store: Store,
    query: Annotated[str, Field(description="words, name, id (17.3.7), panel (17), subsystem or counter")] = "",
    gpu: Annotated[str | None, Field(description="only metrics of this target, such as gfx942")] = None,
    limit: Annotated[int, Field(ge=1, le=100000, description="metrics in one answer")] = 12,
    offset: Offset = 0,
) -> SearchResult:
    """Find metrics in the catalogue: what they mean, their formula, counters and GPUs. Needs no workload."""
    every = catalog.variants(gpu)
    # One row for each family: what bears one name there is computed from other counters here.
    found = [every] if gpu else [catalog.variants(family=family) for family in catalog.families()]
    entries = [on for name in every for named in found if (on := named.get(name))]
    scored = sorted(((_score(query, on), on) for on in entries), key=lambda s: -s[0])
    rows = [_row(on) for score, on in scored if score]
    notes = [] if rows else [f"Nothing in the catalogue fits {query[:80]!r}. {near(query, every)}".strip()]
    suggested = [NextCall(tool="compute_metrics", arguments={"workload": "latest", "metrics": [rows[0][0]]},
                          why="its value in the newest workload")] if rows else []  # fmt: skip
    return SearchResult(table=table(_COLUMNS, rows, limit=limit, offset=offset), notes=notes, next=suggested)


def _score(query: str, on: dict[str, Metric]) -> float:
    """0 for no match; names and ids weigh more than titles, titles more than descriptions."""
    if not query.strip():
        return 1.0
    metric = next(iter(on.values()))
    word = query.strip().casefold()
    ids = {m.id for m in on.values()} | {m.table for m in on.values()} | {str(m.panel) for m in on.values()}
    if word in (metric.name, metric.subsystem) or word in ids:
        return 100.0
    counters = " ".join(c for target, m in on.items() for c in _counters(target, m)) if "_" in word else ""
    fields = (
        (metric.name, 8.0),
        (metric.title, 6.0),
        (counters, 4.0),
        (metric.table_title, 3.0),
        (metric.subsystem, 3.0),
        (metric.description, 2.0),
    )
    total = 0.0
    for token in word.replace("-", " ").split():
        hit = max((weight for text, weight in fields if token in text.casefold()), default=0.0)
        if not hit:
            return 0.0
        total += hit
    return total


def _row(on: dict[str, Metric]) -> list[object]:
    target, metric = next(reversed(on.items()))
    ids = sorted({m.id for m in on.values()})
    where = metric.id if len(ids) == 1 else ", ".join(f"{m.id} ({t})" for t, m in on.items())
    unit = metric.unit + ("/<normalization>" if metric.norm else "")
    counters = ", ".join(_counters(target, metric))
    return [metric.name, where, unit, metric.better, _formula(metric), counters, ", ".join(on), metric.description]


def _counters(target: str, metric: Metric) -> list[str]:
    """What it reads, asked for or not."""
    return catalog.counters_of(target, [metric.num, metric.den or "1"])


def _formula(metric: Metric) -> str:
    den = "<normalization>" if metric.norm else metric.den
    return f"({metric.num}) / ({den})" if den else metric.num
