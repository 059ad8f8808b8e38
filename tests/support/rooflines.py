"""Workloads made of a few counters for the tests of rooflines: whatever a row leaves out is a measured zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rooflens.analysis.base.database import connect
from rooflens.analysis.catalogue import counter_names
from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue.formula import references
from rooflens.analysis.catalogue.targets import product
from rooflens.analysis.catalogue.work_formulas import formulas, work_formulas
from rooflens.analysis.engine.work_sums import WorkUnit
from rooflens.analysis.rooflines import ceilings, roofline
from rooflens.analysis.rooflines import inputs as scenes
from rooflens.analysis.rooflines.ceilings import CeilingSource
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import MI250X, workload

MI300X = MI250X | {"cu_per_gpu": 304.0, "max_sclk": 2100.0, "max_mclk": 1300.0, "num_hbm_channels": 128.0,
                   "total_l2_chan": 128.0, "num_xcd": 8.0}  # fmt: skip
Row = Mapping[str, float | str | None]


def counters(arch: str) -> list[str]:
    """Every counter that the rooflines of a target use, spelled as the target spells it."""
    terms = catalog.terms(arch)
    pending, found = list(formulas(arch).values()), set[str]()
    while pending:
        for name in references([text := pending.pop()])[text]:
            if name in terms:
                pending.append(terms[name])
            elif catalog.is_counter(arch, name):
                found.add(counter_names.spelling(arch, name))
    return sorted(found)


def publish(
    store: Store,
    rows: list[Row],
    *,
    arch: str = "gfx90a",
    facts: Mapping[str, float] | None = None,
    without: Iterable[str] = (),
    ceilings: Iterable[tuple[int, str, str, float]] = (),
    measured_at: str = "2026-11-20T10:00:00Z",
    **manifest: Any,
) -> Manifest:
    """A workload of one dispatch a row (kernel, duration_ns, counters); ``without`` are counters not collected.

    ``ceilings`` are rows of device number, name, unit and value, as a benchmark writes them.
    """
    names = [c for c in counters(arch) if c not in set(without)]
    stated = ("device_id", "ceiling", "unit", "value")
    of_all = {"gpu": arch, "kind": "empirical", "method": "a benchmark", "measured_at": measured_at}
    return workload(
        store,
        [
            {
                "kernel": row["kernel"],
                "duration_ns": row.get("duration_ns", 1000.0),
                **{c: row.get(c, 0.0) for c in names},
            }
            for row in rows
        ],
        arch=arch,
        facts=facts or MI250X,
        launch={},
        ceilings=[dict(zip(stated, one, strict=True)) | of_all for one in ceilings],
        **manifest,
    )


def scene(
    store: Store,
    manifest: Manifest,
    *,
    kernel: str | None = None,
    dispatches: str | None = None,
    by: WorkUnit = "kernel",
    source: CeilingSource = "empirical",
    by_hand: Mapping[str, float] | None = None,
    limit: int = 1000,
) -> scenes.RooflineInputs:
    """What both rooflines start from, for one workload."""
    with Workload(store, manifest) as workload:
        return scenes.prepare_inputs(workload, scenes.RooflineRequest(kernel, dispatches, by, limit), source, by_hand)


def points(
    found: scenes.RooflineInputs, datatype: str | None = None
) -> dict[tuple[str, str, str], roofline.RooflinePoint]:
    """The points of a scene by kernel, level and data type."""
    made = roofline.build_roofline(found, ("hbm", "l2", "vl1d", "lds"), datatype).points
    return {(p.kernel, p.level, p.datatype): p for p in made}


def theory(key: str) -> ceilings.Ceilings:
    """The ceilings of a product by its data sheet."""
    sheet = product(key)
    of_target = work_formulas("gfx908" if sheet.target == "gfx906" else sheet.target)
    facts = {name: fact.value for name, fact in (of_target.facts | sheet.all_facts).items()}
    with connect() as con:
        return ceilings.from_facts(con, of_target, facts, sheet.title)
