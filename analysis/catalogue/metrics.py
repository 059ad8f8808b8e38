"""The catalogue of metrics and named terms, read from the TOML files in metrics/."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, get_args

from ..base.problems import BadInput
from . import files, targets
from .counter_names import spelling
from .files import CatalogueModel
from .formula import references
from .targets import Gpu, as_on_target, family_documents, family_table, gpu, holds

# Launch columns of the table dispatches that formulas may name.
LAUNCH = ("grid", "workgroup_size", "vgpr", "agpr", "sgpr", "lds_bytes", "scratch_bytes")


@cache
def alternatives(target: str) -> dict[str, tuple[str, ...]]:
    """Named expressions that formulas of a target may use, ordered so that each needs only earlier ones.

    If a quantity has several expressions, the first one whose inputs a workload has is used; profiling collects the
    counters of the first.
    """
    stated = family_table(target, "terms")
    return {name: (terms,) if isinstance(terms, str) else tuple(terms) for name, terms in stated.items()}


@cache
def terms(target: str) -> dict[str, str]:
    """The named expressions of a target, with only the first expression of each."""
    return {name: stated[0] for name, stated in alternatives(target).items()}


class NormalizationDivisor(CatalogueModel):
    """A divisor for metrics with ``norm``: the expression, and the word appended to the unit."""

    den: str
    word: str


@cache
def normalizations(target: str) -> dict[str, NormalizationDivisor]:
    """The divisors of normalised metrics on a target, by name."""
    return {
        name: files.validate_entry(NormalizationDivisor, value, f"The normalization {name}")
        for document in family_documents(target)
        for name, value in document.get("normalization", {}).items()
    }


@cache
def is_counter(target: str, name: str) -> bool:
    """Whether a name in a formula is a counter of the profiler rather than a term, a fact or a launch column.

    The terms file of a family defines the pattern of its counters.
    """
    if name in LAUNCH or name == "duration_ns" or name in alternatives(target) or name in gpu(target).facts:
        return False
    patterns = [d["counters"] for d in family_documents(target) if "counters" in d]
    return any(re.fullmatch(pattern, name) for pattern in patterns)


@cache
def block(target: str, counter: str) -> str | None:
    """The hardware block of a counter, for families whose names contain it and whose profiles do not list passes.

    It is the group of the pattern ``block`` in the terms file.
    """
    for document in family_documents(target):
        if "block" in document and (match := re.match(document["block"], counter)):
            return match[1]
    return None


Better = Literal["higher", "lower", "none"]
Release = Literal["3.3", "3.8"]
"""The releases of rocprof-compute whose ids select a metric."""
SUBSYSTEMS = (
    "dispatch", "instruction_fetch", "salu", "valu", "sfu", "matrix", "lds", "vl1d", "l2", "hbm", "fabric",
    "scratch", "atomics", "barrier", "divergence", "occupancy", "latency", "unknown",
)  # fmt: skip


class Metric(CatalogueModel):
    """One metric as defined for one GPU target.

    ``num`` and ``den`` are SQL expressions over the counters of one dispatch, the launch columns
    (grid, vgpr, duration_ns, ...), the device facts and the named terms. The value of a dispatch is
    num / den; a metric with ``norm`` is divided by the chosen normalisation instead.
    """

    name: str
    id: str
    """The id in rocprof-compute 3.3; metrics that only 3.8 has continue the numbering of their table."""
    newer_id: str | None = None
    """The id in rocprof-compute 3.8, if it differs."""
    release: Release | None = None
    """The release that has the metric, if only one does."""
    of: str | None = None
    """The metric whose fields are the defaults of this one; usually the same figure in another table."""
    title: str
    table: str
    table_title: str
    panel: int
    subsystem: str
    unit: str
    better: Better
    num: str
    den: str | None = None
    norm: bool = False
    peak: str | None = None
    limit: float | None = None
    """The maximum of the value, if it is neither the peak nor 100 %."""
    finish: str | None = None
    """An expression over ``value`` (the aggregate) that computes the figure, if it is not a plain ratio."""
    uses: dict[str, str] = {}
    """Names in ``finish`` -> metrics whose figures over the same dispatches they represent."""
    rule: Literal["ratio", "mean"] = "ratio"
    """``mean``: no single ratio of sums exists, so dispatches are averaged in every aggregation."""
    chart: bool = False
    """Whether it is a figure of the memory chart: an integer with aggregation="mean", as in rocprof-compute."""
    per: Literal["dispatch", "l2_channel"] = "dispatch"
    unseen: str | None = None
    """The amount of work that its counters do not see: a launch with any has no figure, and the metric is not_supported
    there. ``unseen_why`` describes that work."""
    unseen_why: str = ""
    instead: str | None = None
    """A metric that says about the same, if this one has an impossible value."""
    imported_only: bool = False
    """Whether its counters are used if a profile has them, but are never requested: a profiler that lacks one rejects
    the whole run."""
    labels: dict[str, str] = {}
    caveat: str | None = None
    """A caveat on every value of the metric."""
    caveat_last: dict[str, str] = {}
    """Term -> caveat if the last of the term's expressions is used."""
    description: str
    source: str

    @property
    def is_bounded(self) -> bool:
        """Whether impossible values can be recognised from its counters alone: it is a share of a whole, or has a
        limit."""
        return self.peak is None and (self.unit == "%" or self.limit is not None)


@cache
def targets_with_metrics() -> tuple[str, ...]:
    """The targets with metrics, grouped by vendor."""
    vendors = get_args(Gpu.model_fields["vendor"].annotation)
    return tuple(sorted(filter(_states_metrics, targets.targets()), key=lambda t: vendors.index(gpu(t).vendor)))


def _states_metrics(target: str) -> bool:
    """Whether ``metrics`` of the target is not empty; faster than building it."""
    stated = (
        m for document in family_documents(target) for table in document.get("table", []) for m in table["metric"]
    )
    return any(holds(m.get("gpus"), target) for m in stated)


def how_to_add(target: str) -> str:
    """The sentence on the file that a GPU target without one needs, and how to get its draft."""
    like = targets.nearest(target, targets_with_metrics())
    takes = f'; a file with like = "{like}" takes the facts and formulas of {like}' if like else ""
    return (
        f"Add gpus/{target}.toml to a folder and name that folder in {files.VARIABLE}{takes}; on a machine with this "
        f"GPU, rooflens doctor --draft {target}.toml writes a draft"
    )


def without_metrics(target: str) -> str | None:
    """The sentence on what there is for a target without metrics, and which file it lacks; None for any other."""
    if target in targets_with_metrics():
        return None
    if target not in targets.targets():
        return (
            f"{target} has no file in the catalogue: only times, timelines, hotspots and, of imported counters, "
            f"metrics that need no facts of the device. {how_to_add(target)}."
        )
    raw = ", and raw counters by name (SQL)" if gpu(target).counter_limits else ""
    return f"rooflens has no metrics for {target}, because no formulas of it are verified: only times, timelines{raw}."


def no_formulas(workload: str, target: str | None) -> BadInput:
    """The error for a workload whose target has no metrics: what is missing, and what works."""
    if not target:
        return BadInput(
            f"No metrics are known for workload {workload!r}",
            "its GPU target is not stated in the profile",
            f"Import it again with gpu= one of {', '.join(targets_with_metrics())}",
        )
    if target not in targets.targets():
        return BadInput(
            f"No metrics are known for workload {workload!r}",
            f"its GPU target is {target}, which the catalogue does not have; times, launches, the timeline, hotspots, "
            "raw counters (query_counters) and metrics that need no facts of the device (compute_metrics) are there",
            how_to_add(target),
        )
    occupancy = f"; compute_occupancy knows {target}" if gpu(target).occupancy else ""
    return BadInput(
        f"No metrics, rooflines or rules are known for {target}",
        f"no recorded profile of it has verified formulas: workload {workload!r} has times, launches and raw counters",
        f"query_counters answers SQL over dispatches and counters{occupancy}",
    )


def families() -> dict[str, list[str]]:
    """The families of targets that share formulas -> their targets with metrics."""
    members: dict[str, list[str]] = {}
    for target in targets_with_metrics():
        members.setdefault(gpu(target).family, []).append(target)
    return members


@cache
def metrics(target: str) -> tuple[Metric, ...]:
    """Every metric of a target, ordered by its id."""
    tables = [t for d in family_documents(target) for t in d.get("table", [])]
    entries = {m["name"]: (t, m) for t in tables for m in t["metric"]}
    on_target = []
    for table in tables:
        on_target += [_metric(table, m, target, place, entries) for m, place in _entry_places(table, target)]
    return tuple(sorted(on_target, key=lambda m: [int(part) for part in m.id.split(".")]))


@cache
def by_name(target: str) -> dict[str, Metric]:
    """The metrics of a target by name."""
    return {m.name: m for m in metrics(target)}


@cache
def presets() -> dict[str, list[str]]:
    """Named selections of metrics; several files may add to the same one."""
    selections: dict[str, list[str]] = {}
    for document in files.documents("metrics").values():
        for name, wanted in document.get("presets", {}).items():
            selections[name] = [*selections.get(name, []), *wanted]
    return selections


def variants(target: str | None = None, family: str | None = None) -> dict[str, dict[str, Metric]]:
    """Metric name -> the metric as defined on each target that has it (or only on one target or family)."""
    by_target: dict[str, dict[str, Metric]] = {}
    for here in [gpu(target).target] if target else families()[family] if family else targets_with_metrics():
        for metric in metrics(here):
            by_target.setdefault(metric.name, {})[here] = metric
    return by_target


def known_targets(name: str) -> list[str]:
    """The targets on which a metric of this name exists."""
    return [t for t in targets.targets() if name in by_name(t)]


@cache
def parse_all(target: str) -> None:
    """Parse every formula of a target in one call, which is much faster than one by one."""
    every = [f for stated in alternatives(target).values() for f in stated]
    references(every + [f for m in metrics(target) for f in (m.num, m.den or "1", m.unseen or "0")])


def counters(target: str, metric: Metric) -> list[str]:
    """The counters to collect for a metric on a target, with terms resolved, in the target's spelling."""
    if metric.imported_only:
        return []
    parse_all(target)
    return counters_of(target, [metric.num, metric.den or "1", metric.unseen or "0"])


def counters_of(target: str, formulas: Iterable[str]) -> list[str]:
    """The counters that any formulas read, such as those of the rooflines."""
    return list(_counters_of(target, tuple(formulas)))


@cache
def _counters_of(target: str, formulas: tuple[str, ...]) -> tuple[str, ...]:
    known_terms, read, pending = terms(target), set[str](), list(formulas)
    references(pending)
    while pending:
        for name in references([formula := pending.pop()])[formula]:
            if name in known_terms:
                pending.append(known_terms[name])
            elif is_counter(target, name):
                read.add(spelling(target, name))
    return tuple(sorted(read))


def _metric(
    table: dict[str, Any],
    entry: dict[str, Any],
    target: str,
    place: dict[str, Any],
    entries: dict[str, tuple[dict[str, Any], Any]],
) -> Metric:
    """One entry as defined on ``target``.

    With ``of``, all fields that are not stated here are taken from another entry, except its ``place``.
    """
    fields, base = _entry_fields(table, entry, target), entry
    while "of" in base:
        origin = entries[base["of"]]
        fields, base = _entry_fields(*origin, target) | fields, origin[1]
    where = {"table": table["id"], "table_title": table["title"], "panel": int(table["id"].split(".")[0])}
    whole = {"better": "none", "of": entry.get("of")} | fields | where | place
    return files.validate_entry(Metric, whole, f"The metric {entry.get('name')}")


def _entry_places(table: dict[str, Any], target: str) -> list[tuple[Any, dict[str, Any]]]:
    """The entries of a table that a target has, with their ids: the index among those of a release, from 0.

    Entries that only 3.8 has follow those of 3.3, so that no two share an id. If ``per`` is a channel, the ids of the
    figures end in the channel number, and the entry itself has the id of its table.
    """
    here = [m for m in table["metric"] if holds(m.get("gpus"), target)]
    only = [as_on_target(m, target).get("release") for m in here]
    older = len(only) - only.count("3.8")
    places = []
    for i, (entry, release) in enumerate(zip(here, only, strict=True)):
        new = only[:i].count("3.8")
        id = f"{table['id']}.{older + new if release == '3.8' else i - new}"
        newer = f"{table['id']}.{i - only[:i].count('3.3')}"
        if "l2_channel" in (table.get("per"), entry.get("per")):
            id = newer = table["id"]
        differs = release != "3.3" and newer != id
        places.append((entry, {"id": id, "newer_id": newer if differs else None, "release": release}))
    return places


def _entry_fields(table: dict[str, Any], entry: dict[str, Any], target: str) -> dict[str, Any]:
    inherited = ("chart",) if "of" in entry else ("subsystem", "source", "chart", "per")
    defaults = {k: table[k] for k in inherited if k in table}
    return defaults | {k: v for k, v in as_on_target(entry, target).items() if k not in ("of", "release")}
