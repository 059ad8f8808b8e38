"""search_metrics: find metrics in the catalogue by words, names, ids or counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from ..analysis.base.problems import near
from ..analysis.base.text import first_few
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.catalogue.metrics import Metric
from ..analysis.catalogue.search import counters_read, fitting_best
from ..analysis.counter_check import check_records
from ..analysis.store.store import Store
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .answers.tables import Row, table_from
from .base.parameters import Offset, Reference, Sentence
from .base.results import Result, Table

_SHOWN = 4


class SearchResult(Result):
    """Catalogue rows, best match first. ``id`` is that of rocprof-compute 3.3, ``newer_id`` that of 3.8 if it
    differs."""

    table: Table


def search_metrics(
    store: Store,
    query: Annotated[Sentence, Field(description="words, name, id (17.3.7), panel (17), subsystem or counter")] = "",
    gpu: Annotated[Reference | None, Field(description="only of this target (gfx942) or product (MI300X)")] = None,
    limit: Annotated[int, Field(ge=1, le=100000, description="most rows")] = 12,
    offset: Offset = 0,
) -> SearchResult:
    """Find metrics in the catalogue: meaning, formula, counters, GPUs. Needs no workload."""
    target = targets.resolve_gpu(gpu)[0] if gpu else None
    every = catalog.variants(target)
    if "_" in query:  # possibly a counter, so the formulas of all metrics are read
        for one in catalog.targets_with_metrics():
            catalog.parse_all(one)
    # One row per family, because metrics with the same name are computed from different counters.
    variants = [every] if target else [catalog.variants(family=family) for family in catalog.families()]
    entries = [on for name in every for named in variants if (on := named.get(name))]
    fitting = fitting_best(query, entries, every)
    page = fitting[offset : offset + limit]
    shown = table_from("found_metrics", list(map(_row, page)))
    shown.total_rows, shown.truncated = len(fitting), offset + limit < len(fitting)
    notes = [*_check_notes(store, page)]
    if not fitting and (similar := near(query, every)):
        notes.append(similar)
    if target is None and shown.truncated:
        notes.append("Metrics of all GPUs; use gpu= to select one.")
    best = next(iter(fitting[0].values())).name if fitting else None
    why = "its value in the newest workload"
    suggested = [next_call("compute_metrics", why, workload="latest", metrics=[best])] if best else []
    return SearchResult(answer=_answer(query, fitting), table=shown, notes=notes, next=suggested)


def _answer(query: str, fitting: Sequence[Mapping[str, Metric]]) -> str:
    """Say how many metrics match, and which is the best match."""
    if not fitting:
        return sentence("search.none", query=query[:80])
    best = next(iter(fitting[0].values()))
    code = "search.one" if len(fitting) == 1 else "search.several"
    return sentence(code, count=len(fitting), name=best.name, title=best.title)


def _check_notes(store: Store, shown: list[dict[str, Metric]]) -> Iterator[str]:
    """Notes on the results of checks in this store for the metrics shown."""
    known = check_records.confirmations(store)
    names = [next(iter(on.values())).name for on in shown]
    held = [name for name in names if "holds" in known.get(name, {})]
    if held:
        devices = sorted({device for name in held for device in known[name]["holds"]})
        yield sentence("checked.holds", devices=devices[:_SHOWN], names=first_few(held, _SHOWN))
    off = {name: known[name]["off"] for name in names if "off" in known.get(name, {})}
    listed = list(off.items())[:_SHOWN]
    yield from [sentence("checked.off", devices=on[:_SHOWN], name=name) for name, on in listed]


def _row(on: dict[str, Metric]) -> Row:
    target, metric = next(reversed(on.items()))
    den = "<normalization>" if metric.norm else metric.den
    return {
        "metric": metric,
        "id": _per_target({t: m.id for t, m in on.items()}),
        "unit": metric.unit + ("/<normalization>" if metric.norm else ""),
        "formula": f"({metric.num}) / ({den})" if den else metric.num,
        "counters": ", ".join(counters_read(target, metric)),
        "gpus": ", ".join(on),
        "newer_id": _per_target({t: m.newer_id for t, m in on.items() if m.newer_id}) or None,
    }


def _per_target(ids: dict[str, str]) -> str:
    """One id if all targets agree, or else each id with its target."""
    if len(set(ids.values())) == 1:
        return next(iter(ids.values()))
    return ", ".join(f"{id} ({target})" for target, id in ids.items())
