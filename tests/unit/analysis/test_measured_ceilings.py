"""Measured ceilings in the store: written once, read by device, and used for the workloads of that device."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.store import measured_ceilings as peaks
from rooflens.analysis.store.schema import relation
from rooflens.analysis.store.store import Manifest, Store
from rooflens.tests.support.rooflines import MI250X, publish, scene

MINE, OTHER = "GPU-1111222233334444", "GPU-5555666677778888"
_CLOCK = iter(range(1, 1000))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def row(ceiling: str, rate: float, **changes: Any) -> dict[str, Any]:
    """A row as a run of benchmarks writes it; each call is a second later."""
    at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=next(_CLOCK))
    unit = "GB/s" if ceiling.endswith((".bw", ".copy", ".read")) else "GFLOP/s"
    return {
        "vendor": "amd", "device_uuid": MINE, "partition": "SPX/NPS1", "device": "AMD Instinct MI250X", "gpu": "gfx90a",
        "host": "node1", "run_id": "run-1", "mode": "full", "ceiling": ceiling, "unit": unit, "status": "ok",
        "value": rate, "median": rate, "p05": 0.99 * rate, "p95": 1.01 * rate, "n": 20, "driver": "6.10",
        "theoretical": 1.2 * rate, "compute_units": 110, "measured_at": at.isoformat(timespec="seconds"), **changes,
    }  # fmt: skip


def workload(store: Store, **manifest: Any) -> Manifest:
    return publish(store, [{"kernel": "k"}], **{"device": "AMD Instinct MI250X", "host": "node1", **manifest})


def test_a_file_is_complete_or_absent_and_lies_with_its_device(store: Store) -> None:
    path = peaks.save(store, [row("hbm.bw", 1400.0)])
    assert path.parent == store.root / "peak" / f"amd-{MINE}-SPX_NPS1"
    assert path.suffix == ".parquet" and not list((store.root / "tmp").iterdir())
    (path.parent / "cut.parquet").write_bytes(path.read_bytes()[:-10])
    assert peaks.files(store) == [path], "a file that was cut off would fail every query"
    assert store.scan() == ([], []), "they are no workloads, and nothing strange in the store"


def test_the_newest_row_of_each_ceiling_counts_and_points_of_a_sweep_stay_apart(store: Store) -> None:
    peaks.save(store, [row("hbm.bw", 1400.0), row("valu.f32", 20000.0)])
    points = [row("sweep.f32", 100.0 * i, intensity=float(i)) for i in (1, 2)]
    peaks.save(store, [row("hbm.bw", 1410.0), *points, row("hbm.bw", 1000.0, mode="quick")])
    with duckdb.connect() as con:
        found = peaks.latest(con, store)
    values = {(r["ceiling"], r["mode"], r["intensity"]): r["value"] for r in found}
    assert values == {
        ("hbm.bw", "full", None): 1410.0, ("hbm.bw", "quick", None): 1000.0, ("valu.f32", "full", None): 20000.0,
        ("sweep.f32", "full", 1.0): 100.0, ("sweep.f32", "full", 2.0): 200.0,
    }  # fmt: skip


def test_sql_sees_measurements_beside_theory_and_beside_those_of_profiles(store: Store) -> None:
    peaks.save(
        store, [row("hbm.bw", 1400.0), row("hbm.read", 0.0, value=None, status="not_supported", theoretical=None)]
    )
    mine = publish(store, [{"kernel": "k"}], ceilings=[(0, "hbm.bw", "GB/s", 1380.0)])
    source = relation(store, [mine], "ceilings", ["workload", "ceiling", "kind", "value", "device_uuid", "n", "driver"])
    with duckdb.connect() as con:
        found = con.execute(f"FROM ({source}) ORDER BY value").fetchall()
    assert found == [
        (mine.id, "hbm.bw", "empirical", 1380.0, None, None, None),
        (None, "hbm.bw", "empirical", 1400.0, MINE, 20, "6.10"),
        (None, "hbm.bw", "theoretical", 1680.0, MINE, None, None),
    ]


def test_a_workload_gets_the_ceilings_of_its_own_device_before_those_that_came_with_it(store: Store) -> None:
    peaks.save(store, [row("hbm.bw", 1111.0, device_uuid=OTHER)])
    peaks.save(store, [row("hbm.bw", 1400.0), row("valu.f32", 20000.0), row("hbm.copy", 1300.0)])
    mine = workload(store, device_uuid=MINE, ceilings=[(0, "hbm.bw", "GB/s", 900.0)])
    known = scene(store, mine).ceilings
    assert (known.kind, known.value("hbm.bw"), known.value("valu.f32")) == ("empirical", 1400.0, 20000.0)
    assert known.known["hbm.bw"].low == pytest.approx(1386.0) and MINE in known.device
    assert known.value("valu.issue") == pytest.approx(20000 / 128), "what follows from a measured one follows here too"
    assert "hbm.copy" not in known.known, "a way to use the memory is no ceiling of its own"
    notes = " ".join(map(str, known.notes))
    assert (
        "this workload's device" in notes
        and "ANOTHER" not in notes
        and {c.kind for c in known.known.values()} == {"empirical"}
    )


def test_without_an_identity_ceilings_of_the_product_count_with_a_note(store: Store) -> None:
    peaks.save(store, [row("hbm.bw", 1400.0)])
    here = scene(store, workload(store)).ceilings
    assert here.value("hbm.bw") == 1400.0 and "same machine" in " ".join(map(str, here.notes))
    elsewhere = scene(store, workload(store, host="node2")).ceilings
    assert elsewhere.value("hbm.bw") == 1400.0
    assert "ANOTHER device of the same product" in " ".join(map(str, elsewhere.notes))
    with_own = scene(store, workload(store, ceilings=[(0, "hbm.bw", "GB/s", 900.0)])).ceilings
    assert with_own.value("hbm.bw") == 900.0, "what was measured with the profile is nearer than a like device"


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "gfx942"}, {"device": "AMD Instinct MI210"}, {"compute_units": 104}, {"status": "impossible"},
        {"mode": "functional"},
    ],
)  # fmt: skip
def test_what_is_no_ceiling_of_the_device_never_counts(store: Store, changes: dict[str, Any]) -> None:
    peaks.save(store, [row("hbm.bw", 1400.0, **changes)])
    assert scene(store, workload(store)).ceilings.kind == "theoretical"


def test_a_full_measurement_counts_before_a_newer_quick_one(store: Store) -> None:
    peaks.save(store, [row("hbm.bw", 1400.0)])
    peaks.save(store, [row("hbm.bw", 1350.0, mode="quick"), row("l2.bw", 3000.0, mode="quick")])
    known = scene(store, workload(store, device_uuid=MINE)).ceilings
    assert (known.value("hbm.bw"), known.value("l2.bw")) == (1400.0, 3000.0)


def test_old_measurements_are_flagged_and_a_sweep_comes_along(store: Store) -> None:
    points = [
        row("sweep.f32", v, intensity=x, measured_at="2025-01-01T00:00:00Z") for x, v in ((8.0, 800.0), (1.0, 99.0))
    ]
    peaks.save(store, [row("hbm.bw", 1400.0, measured_at="2025-01-01T00:00:00Z"), *points])
    known = scene(store, workload(store, device_uuid=MINE, facts=MI250X)).ceilings
    assert any("STALE" in note.text for note in known.notes)
    assert [(p.intensity, p.value) for p in known.sweep] == [(1.0, 99.0), (8.0, 800.0)]


def test_theory_takes_no_sweep_and_no_measured_figure(store: Store) -> None:
    peaks.save(store, [row("hbm.bw", 1400.0), row("sweep.f32", 99.0, intensity=1.0)])
    known = scene(store, workload(store, device_uuid=MINE), source="theoretical").ceilings
    assert known.sweep == () and {c.kind for c in known.known.values()} == {"theoretical"}
