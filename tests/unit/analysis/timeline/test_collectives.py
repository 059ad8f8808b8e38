"""Collectives: bus bandwidths by nccl-tests' formulas, waiting apart from the transfer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.tables import schema
from rooflens.analysis.tables.derived import table_rows
from rooflens.analysis.timeline.collectives import collectives
from rooflens.analysis.timeline.trace import Window
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish

US = 1_000


def collective(made: Made, rank: int, start: int, length: int, **stated: Any) -> None:
    """A kernel of a collective with what PyTorch states with it, in us."""
    facts = {"collective": "allreduce", "in": 1 << 20, "out": 1 << 20, "type": "Float", "ranks": 2, "group": "0",
             "members": "[0, 1]", "split": "[]"} | stated  # fmt: skip
    made.add("kernel", "ncclDevKernel_Generic", start * US, (start + length) * US, device_id=0, stream=9, rank=rank,
             pid=rank + 1, arguments=json.dumps(facts))  # fmt: skip


def analysed(folder: Path, made: Made, windows: list[Window] | None = None) -> list[dict[str, Any]]:
    store = Store(folder)
    with Workload.open(store, publish(store, made).id) as workload:
        stored = table_rows(workload, "collectives")
        assert all(list(row) == list(schema()["collectives"].columns) for row in stored), "columns as documented"
        return collectives(prepare(workload), windows)


FORMULAS = {
    "allreduce": (1000, 1000, 4000, 2 * 7 / 8), "_allgather_base": (1000, 8000, 32000, 7 / 8),
    "reduce_scatter_tensor_coalesced": (8000, 1000, 32000, 7 / 8), "all_to_all": (8000, 8000, 32000, 7 / 8),
    "broadcast": (1000, 1000, 4000, 1), "gather": (1000, 0, 32000, 7 / 8),
}  # fmt: skip
"""Collective of 8 ranks -> elements in and out of each, the bytes that count, and the bus factor of nccl-tests."""


def test_bus_bandwidths_follow_the_formulas_of_nccl_tests(tmp_path: Path) -> None:
    made = Made()
    for number, (name, (sent, received, *_)) in enumerate(FORMULAS.items()):
        for rank in range(8):
            sizes = {"in": sent, "out": received}
            collective(made, rank, 10 + 10 * number, 5, collective=name, **sizes, ranks=8, group=str(number))
    found = analysed(tmp_path, made)
    assert {row["collective"] for row in found} == FORMULAS.keys()
    for row in found:
        _, _, size, factor = FORMULAS[row["collective"]]
        assert (row["status"], row["bytes"], row["calls"], row["recorded"]) == ("ok", size, 1, 8)
        assert (row["algbw_gbs"], row["busbw_gbs"]) == (size / (5 * US), pytest.approx(factor * size / (5 * US)))


def test_waiting_for_the_last_rank_is_not_part_of_the_transfer(tmp_path: Path) -> None:
    """Twice, rank 1 arrives 30 us later; the third time, rank 0 does, by 5 us."""
    made = Made()
    for at, early, late, lag in ((0, 0, 1, 30), (100, 0, 1, 30), (200, 1, 0, 5)):
        collective(made, early, at, 10 + lag)
        collective(made, late, at + lag, 10)
    (row,) = analysed(tmp_path, made)
    assert (row["calls"], row["transfer_ns"], row["waited_ns"], row["ns"]) == (3, 30 * US, 65 * US, 125 * US)
    assert row["busbw_gbs"] == pytest.approx(3 * (4 << 20) / (30 * US)) and row["waited_pct"] == pytest.approx(
        100 * 65 / 125
    )
    (part,) = analysed(tmp_path / "window", made, [Window(150 * US, 300 * US)])
    assert (part["calls"], part["transfer_ns"], part["waited_ns"]) == (1, 10 * US, 5 * US)


def test_groups_of_other_ranks_are_not_compared(tmp_path: Path) -> None:
    made = Made()
    for rank, length in enumerate((10, 20, 30, 40)):
        collective(made, rank, 0, length, members="[0, 1]" if rank < 2 else "[2, 3]")
    (row,) = analysed(tmp_path, made)
    assert (row["calls"], row["transfer_ns"], row["waited_ns"]) == (2, 40 * US, 20 * US)


def test_different_numbers_of_collectives_are_not_matched_and_odd_texts_ignored(tmp_path: Path) -> None:
    made = Made()
    for text in ("", "[]", "{", '{"collective": 5}', '{"ranks": 2}', "null"):
        made.add("kernel", "ncclDevKernel_Generic", 0, 10 * US, device_id=0, stream=1, arguments=text)
    collective(made, 0, 0, 10)
    collective(made, 0, 50, 10)
    collective(made, 1, 0, 40)
    (row,) = analysed(tmp_path, made)
    assert (row["calls"], row["waited_ns"], row["status"]) == (3, None, "suspect") and "different numbers" in str(
        row["reason"]
    )


DOUBTED: list[tuple[dict[str, Any], str, str]] = [
    ({"ranks": 16}, "suspect", "2 of 16 ranks recorded"), ({"type": "Unheard"}, "undefined", "its sizes, its type"),
    ({"collective": "unheard"}, "undefined", "no formula"), ({"split": "[100, 300]"}, "undefined", "its parts differ"),
    ({"collective": "send"}, "suspect", "waiting for the other rank"),
]  # fmt: skip
IMPOSSIBLE: list[dict[str, Any]] = [
    {"ranks": 0}, {"in": 10**30}, {"in": "many"}, {"members": "[" * 3000}, {"type": ["Float"]},
]  # fmt: skip


def test_what_is_not_certain_has_a_status_and_a_reason(tmp_path: Path) -> None:
    made = Made()
    for group, (stated, *_) in enumerate(DOUBTED):
        for rank in (0, 1):
            collective(made, rank, 100 * group, 10, group=str(group), **stated)
    rows = analysed(tmp_path, made)
    assert len(rows) == len(DOUBTED)
    for _, status, reason in DOUBTED:
        (row,) = (row for row in rows if reason in str(row["reason"]))
        assert (row["status"], row["busbw_gbs"] is None) == (status, status == "undefined")


def test_impossible_facts_do_not_stop_the_analysis(tmp_path: Path) -> None:
    made = Made()
    for group, stated in enumerate(IMPOSSIBLE):
        for rank in (0, 1):
            collective(made, rank, 100 * group, 10, group=str(group), **stated)
    rows = analysed(tmp_path, made)
    assert sum(row["calls"] for row in rows) == len(IMPOSSIBLE)
    assert sum(row["ns"] for row in rows) == len(IMPOSSIBLE) * 20 * US
    assert all(row["busbw_gbs"] is None or row["bytes"] == 4 << 20 for row in rows)
