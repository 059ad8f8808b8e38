"""search_metrics: find metrics of the catalogue by words, names, ids or counters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import products
from ..analysis.catalogue.metrics import Metric
from ..analysis.checking import confirmed
from ..analysis.problems import near
from ..analysis.store import Store
from .parameters import Offset, Reference, Sentence
from .results import NextCall, Result, Table, table

_COLUMNS = {"name": None, "id": None, "unit": None, "better": None, "formula": None, "counters": None, "gpus": None,
            "description": None, "newer_id": None}  # fmt: skip


_SHOWN = 4
_ALL_WORDS, _NAMED, _BY_ANOTHER_NAME = 20.0, 100.0, 0.5
_ALSO = {
    "dram": ("hbm", "memory"), "hbm": ("dram", "fabric"), "memory": ("hbm", "fabric"), "bandwidth": ("_bw_",),
    "shared": ("lds",), "warp": ("wave",), "warps": ("waves",), "l1": ("vl1d",), "tensor": ("matrix", "mfma"),
    "mfma": ("matrix",), "coalesced": ("coalescing",), "flops": ("flop",), "registers": ("vgpr",),
}  # fmt: skip
"""What the vendors and the field call the same thing."""


class SearchResult(Result):
    """Catalogue rows, best match first. ``id`` is that of rocprof-compute 3.3, ``newer_id`` of 3.8 where it differs."""

    table: Table


def search_metrics(
    store: Store,
    query: Annotated[Sentence, Field(description="words, name, id (17.3.7), panel (17), subsystem or counter")] = "",
    gpu: Annotated[Reference | None, Field(description="only of this target (gfx942) or product (MI300X)")] = None,
    limit: Annotated[int, Field(ge=1, le=100000, description="most rows")] = 12,
    offset: Offset = 0,
) -> SearchResult:
    """Find metrics in the catalogue: meaning, formula, counters, GPUs. Needs no workload."""
    target = products.resolved(gpu)[0] if gpu else None
    every = catalog.variants(target)
    if "_" in query:  # a counter, perhaps: then the formulas of all are read
        for one in catalog.with_metrics():
            catalog.parse_all(one)
    # One row for each family: what bears one name there is computed from other counters here.
    found = [every] if target else [catalog.variants(family=family) for family in catalog.families()]
    entries = [on for name in every for named in found if (on := named.get(name))]
    scored = sorted(((_score(query, on), on) for on in entries), key=lambda s: (-s[0], *_plainness(every, s[1])))
    fitting = _plain_ones([(score, on) for score, on in scored if score])
    shown = table(_COLUMNS, [_row(on) for on in fitting[offset : offset + limit]])
    shown.total_rows, shown.truncated = len(fitting), offset + limit < len(fitting)
    told = _confirmed(store, fitting[offset : offset + limit])
    notes = told if fitting else [f"Nothing in the catalogue fits {query[:80]!r}. {near(query, every)}".strip()]
    best = next(iter(fitting[0].values())).name if fitting else None
    suggested = [NextCall(tool="compute_metrics", arguments={"workload": "latest", "metrics": [best]},
                          why="its value in the newest workload")] if best else []  # fmt: skip
    return SearchResult(table=shown, notes=notes, next=suggested)


def _confirmed(store: Store, shown: list[dict[str, Metric]]) -> list[str]:
    """What checks in this store found of the metrics that are shown."""
    known = confirmed.confirmations(store)
    names = [next(iter(on.values())).name for on in shown]
    held = [name for name in names if "holds" in known.get(name, {})]
    notes = []
    if held:
        devices = sorted({device for name in held for device in known[name]["holds"]})
        more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
        notes.append(f"Confirmed by check_counters on {', '.join(devices[:_SHOWN])}: {', '.join(held[:_SHOWN])}{more}.")
    off = {name: known[name]["off"] for name in names if "off" in known.get(name, {})}
    listed = list(off.items())[:_SHOWN]
    notes += [f"Found off by check_counters on {', '.join(on[:_SHOWN])}: {name}." for name, on in listed]
    return notes


def _plain_ones(scored: list[tuple[float, dict[str, Metric]]]) -> list[dict[str, Metric]]:
    """The metrics without those that repeat another found one as well in a further table (sol_, summary_, chart_).

    A name or an id that was asked for is none of those.
    """
    found = {(next(iter(on.values())).name) for _, on in scored}
    return [
        on
        for score, on in scored
        if score >= _NAMED or not all(m.of is not None and m.of in found and m.of != m.name for m in on.values())
    ]


def _score(query: str, on: dict[str, Metric]) -> float:
    """0 for no match; names and ids weigh more than titles, titles more than descriptions."""
    if not query.strip():
        return 1.0
    metric = next(iter(on.values()))
    word = query.strip().casefold()
    ids = {i for m in on.values() for i in (m.id, m.newer_id, m.table, str(m.panel))}
    if word in (metric.name, metric.subsystem) or word in ids:
        return _NAMED
    counters = " ".join(c for target, m in on.items() for c in _counters(target, m)) if "_" in word else ""
    fields = (
        (metric.name, 8.0),
        (metric.title, 6.0),
        (counters, 4.0),
        (metric.table_title, 3.0),
        (metric.subsystem, 3.0),
        (metric.description, 2.0),
    )
    hits = [max(w * _found(t, text) for text, w in fields) for t in word.replace("-", " ").split()]
    # All words found come before most of them, whatever each of them weighs.
    return _ALL_WORDS * sum(map(bool, hits)) / len(hits) + sum(hits) / len(hits) if any(hits) else 0.0


def _found(token: str, text: str) -> float:
    """1 where a word is in a text, less where only what it is called elsewhere is, else 0."""
    folded = text.casefold()
    if token in folded:
        return 1.0
    return _BY_ANOTHER_NAME if any(one in folded for one in _ALSO.get(token, ())) else 0.0


def _plainness(every: dict[str, dict[str, Metric]], on: dict[str, Metric]) -> tuple[bool, int]:
    """Of what fits equally well, the figure in its own table comes first, and what says least beside the words."""
    metric = next(iter(on.values()))
    same_name = next(iter(every[metric.name].values()))
    return metric.of is not None, len(same_name.name) + len(same_name.title)


def _row(on: dict[str, Metric]) -> list[object]:
    target, metric = next(reversed(on.items()))
    where = _per_target({t: m.id for t, m in on.items()})
    newer = _per_target({t: m.newer_id for t, m in on.items() if m.newer_id})
    unit = metric.unit + ("/<normalization>" if metric.norm else "")
    counters = ", ".join(_counters(target, metric))
    words = metric.description
    return [metric.name, where, unit, metric.better, _formula(metric), counters, ", ".join(on), words, newer or None]


def _per_target(ids: dict[str, str]) -> str:
    """One id where all targets agree, else each with its target."""
    if len(set(ids.values())) == 1:
        return next(iter(ids.values()))
    return ", ".join(f"{id} ({target})" for target, id in ids.items())


def _counters(target: str, metric: Metric) -> list[str]:
    """What it reads, asked for or not."""
    return catalog.counters_of(target, [metric.num, metric.den or "1"])


def _formula(metric: Metric) -> str:
    den = "<normalization>" if metric.norm else metric.den
    return f"({metric.num}) / ({den})" if den else metric.num
