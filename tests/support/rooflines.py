"""Workloads made of a few counters for the tests of rooflines: whatever a row leaves out is a measured zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb

from rooflens.analysis.base.database import sql_name
from rooflens.analysis.catalogue import counter_names
from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue.formula import references
from rooflens.analysis.catalogue.work_formulas import formulas
from rooflens.analysis.engine.work_sums import WorkUnit
from rooflens.analysis.rooflines import inputs as scenes
from rooflens.analysis.rooflines import roofline
from rooflens.analysis.rooflines.ceilings import CeilingSource
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.analysis.workload import Workload

MI250X = {
    "cu_per_gpu": 110.0, "max_sclk": 1700.0, "max_mclk": 1600.0, "num_hbm_channels": 32.0, "total_l2_chan": 32.0,
    "num_xcd": 1.0,
}  # fmt: skip
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
    con = duckdb.connect()
    columns = ", ".join(f"{sql_name(c)} DOUBLE" for c in names)
    con.execute(f"CREATE TABLE c (dispatch_id BIGINT, kernel VARCHAR, duration_ns DOUBLE, {columns})")
    for i, row in enumerate(rows):
        values = [row.get(c, 0.0) for c in names]
        marks = ", ".join("?" * (3 + len(names)))
        con.execute(f"INSERT INTO c VALUES ({marks})", [i, row["kernel"], row.get("duration_ns", 1000.0), *values])
    con.execute(
        "CREATE TABLE p (device_uuid VARCHAR, device_id INT, gpu VARCHAR, ceiling VARCHAR, unit VARCHAR, value DOUBLE, "
        "low DOUBLE, high DOUBLE, kind VARCHAR, n INT, method VARCHAR, measured_at VARCHAR)"
    )
    for device, name, unit, value in ceilings:
        con.execute(
            "INSERT INTO p VALUES (NULL, ?, ?, ?, ?, ?, NULL, NULL, 'empirical', NULL, 'a benchmark', ?)",
            [device, arch, name, unit, value, measured_at],
        )
    with store.draft() as folder:
        write_table(con, "FROM c", folder / "counters.parquet")
        write_table(con, "SELECT dispatch_id, kernel, duration_ns FROM c", folder / "dispatches.parquet")
        if ceilings:
            write_table(con, "FROM p", folder / "ceilings.parquet")
        kernels = len({r["kernel"] for r in rows})
        stated = {
            "name": "w",
            "format": "test",
            "vendor": "amd",
            "arch": arch,
            "facts": dict(facts or MI250X),
        } | manifest
        done = Manifest.model_validate({**stated, "counters": names, "dispatches": len(rows), "kernels": kernels})
        return store.publish(folder, done)


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
