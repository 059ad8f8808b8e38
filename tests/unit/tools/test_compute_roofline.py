"""compute_roofline: its tables, notes and next calls, on the shipped samples and on workloads made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.tests.support.rooflines import publish
from rooflens.tools.answers import roofline_summary
from rooflens.tools.base.results import Table
from rooflens.tools.compute_roofline import compute_roofline

FMA = {"kernel": "fma", "duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": 1.5e6, "SQ_INSTS_VALU": 1.6e6,
       "TCC_EA_RDREQ_sum": 100.0}  # fmt: skip


def records(found: Table | None) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries."""
    assert found is not None
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_levels_that_a_kernel_moves_nothing_through_are_a_note_unless_asked_for(store: Store) -> None:
    publish(store, [FMA])
    found = compute_roofline(store, "latest")
    assert [r["level"] for r in records(found.points)] == ["hbm"]
    assert "No bytes moved, so no point: #1 l2, #1 vl1d, #1 lds." in found.notes
    asked = compute_roofline(store, "latest", levels=["l2"])
    assert [r["bytes"] for r in records(asked.points)] == [0] and not any("No point" in n for n in asked.notes)


def test_bytes_that_are_not_known_are_said_once_and_a_kernel_keeps_a_point() -> None:
    columns = ("rank", "kernel", "level", "bytes", "operations", "status", "reason")
    lacks = "not_collected"
    rows = [[1, "a", "hbm", None, 8.0, lacks, "x"], [1, "a", "l2", None, 8.0, lacks, "y"],
            [2, "b", "hbm", 64.0, 8.0, "ok", None], [2, "b", "l2", 0.0, 8.0, "ok", None],
            [2, "b", "lds", None, 8.0, lacks, "z"], [3, "c", "hbm", 0.0, 8.0, "ok", None],
            [3, "c", "lds", None, 8.0, "not_supported", "bulk copies"]]  # fmt: skip
    made = [dict(zip(columns, row, strict=True)) for row in rows]
    numbers = {"a": "#1", "b": "#2", "c": "#3"}
    main = roofline_summary.main_points(made, numbers, unused_levels=False)
    assert [(row["kernel"], row["level"]) for row in main] == [("a", "hbm"), ("b", "hbm"), ("c", "hbm"), ("c", "lds")]
    assert len(roofline_summary.main_points(made, numbers, unused_levels=True)) == len(rows)
    moved, unknown = roofline_summary.notes_on_unused_levels(made, numbers)
    assert moved == "No bytes moved, so no point: #2 l2."
    assert unknown == 'Bytes or time unknown: #1 hbm, l2; #2 lds. detail="full" gives the reasons.'


def test_an_empty_profile_says_what_lacks_and_claims_no_totals(store: Store) -> None:
    launch = "SELECT 1 AS dispatch_id, 'k' AS kernel, 1000::DOUBLE AS duration_ns, 64 AS grid, 64 AS workgroup_size"
    with store.draft() as folder:
        for name in ("dispatches", "counters"):
            write_table(connect(), launch, folder / f"{name}.parquet")
        facts = {"name": "w", "format": "torch", "vendor": "nvidia", "arch": "sm_90", "dispatches": 1, "kernels": 1}
        done = store.publish(folder, Manifest.model_validate(facts))
    found = compute_roofline(store, done.id)
    (reason,) = {row[found.points.columns.index("reason")] for row in found.points.rows}
    assert "operations: counter" in reason and "bytes: counter dram" in reason
    assert found.pipes.rows[0][found.pipes.columns.index("status")] == "not_collected"
    said = " ".join(found.notes)
    assert "operations are unknown" in said and "lower bounds." not in said.split("vl1d")[0]


def test_a_level_that_only_others_have_is_refused_with_those_that_there_are(samples: Store) -> None:
    with pytest.raises(BadArgument, match="no memory level 'gl1'.*hbm, l2, vl1d, lds"):
        compute_roofline(samples, "yax_before", levels=["gl1"])
