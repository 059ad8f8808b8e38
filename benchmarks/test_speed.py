"""How long import, metrics and SQL take: `make bench`. Figures are for comparison within one run, never pass or fail.

Large cases are generated: ROOFLENS_BENCH_MAX=1000000 includes the largest (about 3 GB of CSV, several minutes).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.import_profile import import_profile
from rooflens.tools.query_counters import query_counters

SHARED = Path(__file__).resolve().parents[2] / "shared" / "workloads"
SIZES = [n for n in (1_000, 100_000, 1_000_000) if n <= int(os.environ.get("ROOFLENS_BENCH_MAX", "100000"))]
COUNTERS = 300
FACTS = {
    "cu_per_gpu": 104.0,
    "simd_per_cu": 4.0,
    "se_per_gpu": 8.0,
    "sqc_per_gpu": 56.0,
    "pipes_per_gpu": 4.0,
    "wave_size": 64.0,
    "max_waves_per_cu": 32.0,
    "max_sclk": 1700.0,
    "max_mclk": 1600.0,
    "total_l2_chan": 32.0,
    "num_xcd": 1.0,
    "num_hbm_channels": 32.0,
}


def _names() -> list[str]:
    """The counters that gfx90a formulas use, filled up to 300."""
    from rooflens.analysis.catalogue import metrics as catalog

    used = {c for m in catalog.metrics("gfx90a") if m.per == "dispatch" for c in catalog.counters("gfx90a", m)}
    plain = sorted(c for c in used if "@" not in c and "[" not in c and "duration" not in c)
    return (plain + [f"SQ_FILLER_{i}" for i in range(COUNTERS)])[:COUNTERS]


def _rows(n: int) -> str:
    values = ", ".join(f'CAST(floor(random() * 1e6) AS DOUBLE) AS "{c}"' for c in _names())
    launch = "range AS dispatch_id, 'kernel_' || (range % 200) AS kernel, 1e4 + random() * 1e5 AS duration_ns"
    return f"SELECT {launch}, {values} FROM range({n})"


@pytest.fixture(scope="module", params=SIZES)
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with one workload of n dispatches and 300 counters."""
    store, con = Store(tmp_path_factory.mktemp(f"store{request.param}")), duckdb.connect()
    with store.draft() as folder:
        write_table(con, _rows(request.param), folder / "counters.parquet")
        launch = (
            "SELECT dispatch_id, kernel, kernel AS kernel_raw, 0 AS device_id, 1::BIGINT AS pid, "
            "0::BIGINT AS queue_id, "
            "65536::BIGINT AS grid, 256 AS workgroup_size, 32 AS vgpr, 0 AS agpr, 32 AS sgpr, 0::BIGINT AS lds_bytes, "
            "0::BIGINT AS scratch_bytes, 1 AS ordinal, 0::BIGINT AS start_ns, 0::BIGINT AS end_ns, duration_ns "
            f"FROM read_parquet('{folder / 'counters.parquet'}')"
        )
        write_table(con, launch, folder / "dispatches.parquet")
        store.publish(folder, Manifest(name="w", format="generated", arch="gfx90a", facts=FACTS, counters=_names(),
                                       dispatches=request.param, kernels=200))  # fmt: skip
    return store


@pytest.fixture(scope="module")
def largest(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The largest recorded workload: mixbench on MI200, 167 kernels, 1,013 columns."""
    if not SHARED.is_dir():
        pytest.skip("needs the recorded profiles in ../shared, which the project does not ship")
    store = Store(tmp_path_factory.mktemp("largest"))
    import_profile(store, str(SHARED / "mixbench" / "MI200"), name="w")
    return store


def test_import_of_the_largest_recorded_workload(benchmark: Any, tmp_path: Path) -> None:
    if not SHARED.is_dir():
        pytest.skip("needs the recorded profiles in ../shared, which the project does not ship")
    result = benchmark.pedantic(import_profile, (Store(tmp_path), str(SHARED / "mixbench" / "MI200")), rounds=3)
    assert result.dispatches == 167


@pytest.mark.parametrize("n", SIZES)
def test_import_of_generated_csv(benchmark: Any, tmp_path: Path, n: int) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()
    select = (
        "SELECT dispatch_id AS Dispatch_ID, kernel AS Kernel_Name, 0 AS GPU_ID, "
        "dispatch_id * 200000 AS Start_Timestamp, "
        "dispatch_id * 200000 + CAST(duration_ns AS BIGINT) AS End_Timestamp, "
        f"* EXCLUDE (dispatch_id, kernel, duration_ns) FROM ({_rows(n)})"
    )
    duckdb.execute(f"COPY ({select}) TO '{folder / 'pmc_perf.csv'}' (HEADER)")
    (folder / "sysinfo.csv").write_text("gpu_arch,cu_per_gpu,max_sclk\ngfx90a,104,1700\n")
    result = benchmark.pedantic(import_profile, (Store(tmp_path / "store"), str(folder)), rounds=1)
    assert result.dispatches == n


def test_every_metric_of_the_largest_recorded_workload(benchmark: Any, largest: Store) -> None:
    result = benchmark(compute_metrics, largest, "w", metrics=["*"], detail="full", limit=100_000)
    assert result.table.total_rows > 900


def test_overview_of_generated_dispatches(benchmark: Any, generated: Store) -> None:
    result = benchmark.pedantic(compute_metrics, (generated, "w"), {"metrics": ["overview"]}, rounds=3)
    assert result.table.rows


def test_sql_over_the_largest_recorded_workload(benchmark: Any, largest: Store) -> None:
    sql = "SELECT kernel, sum(SQ_INSTS_VALU) / sum(SQ_WAVES) AS per_wave FROM counters GROUP BY kernel ORDER BY 2 DESC"
    assert benchmark.pedantic(query_counters, (largest, sql), rounds=3).table.rows


def test_sql_over_generated_dispatches(benchmark: Any, generated: Store) -> None:
    hit = "sum(TCC_HIT_sum) / sum(TCC_REQ_sum) AS hit"
    sql = f"SELECT kernel, {hit}, sum(duration_ns) AS ns FROM counters GROUP BY kernel ORDER BY ns DESC"
    assert benchmark.pedantic(query_counters, (generated, sql), rounds=3).table.rows
