"""Small stores for the tests of tools, written with the store's own functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rooflens.analysis.base.database import connect, sql_name
from rooflens.analysis.store.store import Manifest, Store, write_table

MakeWorkload = Callable[..., Manifest]


def add_workload(
    store: Store, name: str, counters: dict[str, str] | None = None, dispatches: int = 20, **manifest: object
) -> Manifest:
    """Publish a workload of ``dispatches`` launches of four kernels.

    ``counters`` maps a column to SQL over the dispatch number i. There are a pass, two ceilings, and no instances.
    """
    if counters is None:
        counters = {"SQ_WAVES": "64 * (i + 1)", "TCC_HIT_sum": "i * 10", "TCC_MISS_sum": "NULLIF(i % 5, 4)"}
    wide = "".join(f", CAST({sql} AS DOUBLE) AS {sql_name(column)}" for column, sql in counters.items())
    base = (
        "SELECT i AS dispatch_id, 'kernel_' || (i % 4) AS kernel, CAST(100 + i AS DOUBLE) AS duration_ns, "
        f"i FROM range({dispatches}) t(i)"
    )
    con = connect()
    with store.draft() as folder:
        write_table(con, f"SELECT * EXCLUDE (i){wide} FROM ({base})", folder / "counters.parquet")
        write_table(
            con,
            "SELECT dispatch_id, kernel, kernel AS kernel_raw, 0 AS device_id, CAST(1 AS BIGINT) AS pid, "
            "CAST(i // 4 AS INT) AS ordinal, CAST(65536 AS BIGINT) AS grid, 256 AS workgroup_size, "
            "32 AS vgpr, 0 AS agpr, 48 AS sgpr, CAST(1024 AS BIGINT) AS lds_bytes, "
            "CAST(0 AS BIGINT) AS scratch_bytes, CAST(9007199254740993 + i * 1000 AS BIGINT) AS start_ns, "
            f"CAST(9007199254741093 + i * 1001 AS BIGINT) AS end_ns, duration_ns FROM ({base})",
            folder / "dispatches.parquet",
        )
        write_table(
            con,
            "SELECT CAST(0 AS INT) AS pass_id, 'main' AS name, 'rocprofv3' AS tool, 'main.csv' AS source, "
            f"{dispatches} AS dispatches, {dispatches} AS matched, 0 AS unmatched, "
            f"'{','.join(counters)}' AS counters",
            folder / "passes.parquet",
        )
        facts = {"name": name, "format": "test", "vendor": "amd", "arch": "gfx942", "tags": ["a", "b"], **manifest}
        collected = [column for column in counters if not column.startswith("duration_ns@")]
        return store.publish(
            folder,
            Manifest.model_validate(
                {"facts": {"cu": 304.0}, "dispatches": dispatches, "kernels": 4, "counters": collected, **facts}
            ),
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


@pytest.fixture
def workload(store: Store) -> Manifest:
    """One workload in the store."""
    return add_workload(store, "first")


@pytest.fixture
def make_workload(store: Store) -> MakeWorkload:
    """``make_workload(name, counters, dispatches, **manifest)`` publishes a further workload."""
    return lambda name, counters=None, dispatches=20, **manifest: add_workload(
        store, name, counters, dispatches, **manifest
    )
