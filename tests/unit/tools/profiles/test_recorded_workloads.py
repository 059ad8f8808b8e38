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
