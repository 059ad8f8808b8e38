"""Recorded workloads of rocprof-compute: what is read of them, and what is doubted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rooflens.analysis.store.store import Manifest, Store
from rooflens.tests.support.recordings import stored
from rooflens.tools.sql.unlimited_query import query


def rows(store: Store, manifest: Manifest, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a SELECT over one workload."""
    columns = query(store, [manifest], sql).columns.values()
    return list(zip(*(np.ma.asarray(column).tolist() for column in columns), strict=True))


def test_the_known_answer_kernel_has_its_known_answer(shared: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    for model in ("MI100", "MI200", "MI300X_A1"):
        manifest = stored(store, shared / "workloads" / "vcopy" / model, model)
        counted = rows(store, manifest, "SELECT SQ_WAVES, TCP_TOTAL_CACHE_ACCESSES_sum FROM counters")
        assert counted[0] == (16_384.0, 524_288.0), model


def test_channels_of_an_mi300_are_numbered_within_their_xcd(shared: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    manifest = stored(store, shared / "workloads" / "join_type_grid" / "MI300X_A1")
    places = set(rows(store, manifest, "SELECT xcd, instance FROM counter_instances WHERE counter = 'TCC_HIT'"))
    assert places == {(xcd, channel) for xcd in range(8) for channel in range(16)}


def test_an_mi350_has_doubted_registers_and_no_channels_that_were_not_collected(shared: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    manifest = stored(store, shared / "workloads" / "vcopy" / "MI350")
    assert "gfx950_registers" in {warning.code for warning in manifest.warnings}
    counted = rows(store, manifest, "SELECT DISTINCT instance FROM counter_instances WHERE counter = 'TCC_EA0_RDREQ'")
    assert 0 < len(counted) < 128
