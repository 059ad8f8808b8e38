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


def test_spoiled_timestamps_of_an_mi300_give_no_duration(recorded: Read) -> None:
    manifest, rows = recorded("vcopy/MI300X_A1")
    assert rows("SELECT duration_ns FROM counters") == [(None,)] * 3
    assert any("3 of 3 dispatches have no usable timing" in warning.text for warning in manifest.warnings)


def test_registers_that_early_tools_wrote_for_a_gfx950_are_flagged(recorded: Read) -> None:
    assert "gfx950_registers" in codes(recorded("vcopy/MI350")[0])


def test_waves_that_do_not_fit_their_launches_are_flagged(recorded: Read) -> None:
    assert "waves_vs_grid" in codes(recorded("multikernel/MI200")[0])


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


def test_a_row_per_counter_of_rocpd_becomes_a_row_per_dispatch(recorded: Read) -> None:
    manifest, rows = recorded("vcopy/MI300X_A1_rocpd")
    assert len(manifest.counters) == 217 and len(rows("SELECT name FROM passes")) == 1
    launches = rows("SELECT dispatch_id, duration_ns FROM dispatches ORDER BY dispatch_id")
    assert [number for number, _ in launches] == [1, 2, 3] and all(5000 < time < 9000 for _, time in launches)


def test_level_counters_are_called_as_in_rocpd(recorded: Read) -> None:
    counters = set(recorded("vcopy/MI200")[0].counters)
    assert {"SQ_LEVEL_WAVES_ACCUM", "SQ_INST_LEVEL_VMEM_ACCUM", "SQ_WAVES@SQ_LEVEL_WAVES", "SQ_WAVES"} <= counters
    assert not any(counter.startswith("SQ_ACCUM_PREV") for counter in counters)


def test_a_profile_without_accumulation_registers_has_none_known(recorded: Read) -> None:
    _, rows = recorded("mixbench/MI100")
    assert rows("SELECT DISTINCT agpr FROM dispatches") == [(None,)]
    assert rows("SELECT min(start_ns) > 2::BIGINT ** 53 FROM dispatches") == [(True,)]


def test_counters_of_some_blocks_are_all_that_a_filtered_profile_has(recorded: Read) -> None:
    assert len(recorded("ipblocks_TD/MI200")[0].counters) == 14
