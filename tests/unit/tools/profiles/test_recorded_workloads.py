"""Recorded workloads of rocprof-compute: what is read of them, and what is doubted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.analysis.store.store import Manifest, Store
from rooflens.tests.support.recordings import stored
from rooflens.tools.sql.unlimited_query import query

Read = Callable[[str], tuple[Manifest, Callable[[str], list[tuple[Any, ...]]]]]


@pytest.fixture(scope="module")
def recorded(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """``recorded("vcopy/MI200")``: what the store says of it, and its rows by a SELECT."""
    store = Store(tmp_path_factory.mktemp("recorded"))

    @cache
    def read(name: str) -> tuple[Manifest, Callable[[str], list[tuple[Any, ...]]]]:
        manifest = stored(store, shared / "workloads" / name, name)

        def rows(sql: str) -> list[tuple[Any, ...]]:
            columns = query(store, [manifest], sql).columns.values()
            return list(zip(*(np.ma.asarray(column).tolist() for column in columns), strict=True))

        return manifest, rows

    return read


def codes(manifest: Manifest) -> set[str]:
    return {warning.code for warning in manifest.warnings}


def test_registers_that_early_tools_wrote_for_a_gfx950_are_flagged(recorded: Read) -> None:
    assert "gfx950_registers" in codes(recorded("vcopy/MI350")[0])


@pytest.mark.parametrize("model", ["MI100", "MI200", "MI300X_A1"])
def test_the_known_answer_kernel_has_its_known_answer(recorded: Read, model: str) -> None:
    _, rows = recorded(f"vcopy/{model}")
    assert rows("SELECT SQ_WAVES, TCP_TOTAL_CACHE_ACCESSES_sum FROM counters")[0] == (16_384.0, 524_288.0)


def test_channels_of_an_mi300_are_numbered_within_their_xcd(recorded: Read) -> None:
    _, rows = recorded("join_type_grid/MI300X_A1")
    places = set(rows("SELECT xcd, instance FROM counter_instances WHERE counter = 'TCC_HIT'"))
    assert places == {(xcd, channel) for xcd in range(8) for channel in range(16)}


def test_channels_that_were_not_collected_are_absent_and_not_zero(recorded: Read) -> None:
    _, rows = recorded("vcopy/MI350")
    counted = set(rows("SELECT xcd, instance FROM counter_instances WHERE counter = 'TCC_EA0_RDREQ'"))
    assert 0 < len(counted) < 128
