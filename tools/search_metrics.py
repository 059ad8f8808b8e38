"""search_metrics: find metrics in the catalogue by words, names, ids or counters."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.base.problems import near
from ..analysis.base.text import first_few
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.catalogue.metrics import Metric
from ..analysis.catalogue.search import counters_read, fitting_best
from ..analysis.counter_check import check_records
from ..analysis.store.store import Store
from .answers.next_calls import next_call
from .answers.sentences import optional_sentence, present, sentence
from .answers.tables import Row, table_from
from .base.parameters import Reference, Sentence
from .base.results import Result, Table

_SHOWN = 4


class SearchResult(Result):
    """Catalogue rows, best match first. ``id`` is that of rocprof-compute 3.3, ``newer_id`` that of 3.8 if it
    differs."""

    table: Table


def search_metrics(
    store: Store,
    query: Sentence = "",
    gpu: Reference | None = None,
    limit: int = 12,
    offset: int = 0,
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
    all_gpus = optional_sentence("search.all_gpus", all_gpus=target is None and shown.truncated)
    if not fitting:
        notes = present(near(query, every), all_gpus)
        return SearchResult(answer=sentence("search.none", query=query[:80]), table=shown, notes=notes)
    best = next(iter(fitting[0].values()))
    code = "search.one" if len(fitting) == 1 else "search.several"
    why = "its value in the newest workload"
    return SearchResult(
        answer=sentence(code, count=len(fitting), best=best),
        table=shown,
        notes=present(*_check_notes(store, page), all_gpus),
        next=[next_call("compute_metrics", why, workload="latest", metrics=[best.name])],
    )


def _check_notes(store: Store, shown: list[dict[str, Metric]]) -> Iterator[str]:
    """Notes on the results of checks in this store for the metrics shown."""
    known = check_records.confirmations(store)
    names = [next(iter(on.values())).name for on in shown]
    held = [name for name in names if "holds" in known.get(name, {})]
    devices = sorted({device for name in held for device in known[name]["holds"]})
    yield optional_sentence("checked.holds", devices=devices[:_SHOWN], names=first_few(held, _SHOWN))
    for name in [name for name in names if "off" in known.get(name, {})][:_SHOWN]:
        yield sentence("checked.off", devices=known[name]["off"][:_SHOWN], name=name)


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
    different = len({*ids.values()}) > 1
    return ", ".join(f"{id} ({target})" for target, id in ids.items()) if different else "".join({*ids.values()})
