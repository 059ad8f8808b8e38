"""What counters stand for: launches that were counted, in sampled profiles and in those of some kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.launches import coverage, outliers
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.analysis.workload import Workload

LAUNCHES = [  # kernel, grid, ns, waves
    ("a", 6400, 900.0, None),
    ("a", 6400, 900.0, 100.0),
    ("a", 64, 100.0, None),
    ("b", 64, 60.0, None),
    ("b", 64, 40.0, None),
]


def workload(folder: Path, matched: int, **stated: Any) -> Workload:
    """Launches of a run for times, and one pass that counted ``matched`` of them."""
    store, con = Store(folder), duckdb.connect()
    con.execute("CREATE TABLE t (kernel VARCHAR, grid BIGINT, duration_ns DOUBLE, waves DOUBLE)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", LAUNCHES)
    numbered = "SELECT row_number() OVER () - 1 AS dispatch_id, 0 AS device_id, 64 AS workgroup_size, * FROM t"
    with store.draft() as draft:
        write_table(con, f"SELECT * EXCLUDE (waves) FROM ({numbered})", draft / "dispatches.parquet")
        picks = "dispatch_id, kernel, duration_ns, waves AS SQ_INSTS_SALU"
        write_table(con, f"SELECT {picks} FROM ({numbered})", draft / "counters.parquet")
        passes = f"(0, 'timing', '', 5), (1, 'pass_1', 'SQ_INSTS_SALU', {matched})"
        write_table(con, f"FROM (VALUES {passes}) p(pass_id, name, counters, matched)", draft / "passes.parquet")
        made = {
            "name": "w",
            "format": "test",
            "arch": "gfx90a",
            "counters": ["SQ_INSTS_SALU"],
            "dispatches": 5,
        } | stated
        return Workload(store, store.publish(draft, Manifest.model_validate(made)))


def test_counted_launches_stand_for_those_of_their_configuration(tmp_path: Path) -> None:
    with workload(tmp_path, 1, sampled=True) as opened:
        found = coverage.coverage(opened, opened.select())
        assert found == coverage.Coverage(5, 1, 3, 1, 40.0, 90.0)
        assert "1 of 5 launches were counted, of 1 of 3 launch configurations" in found.text
        assert "40 % of the launches and 90 % of the time" in found.text
        assert coverage.counted_launches(opened) == {"a": 1}
        texts = [note.text for note in coverage.notes(opened, opened.select())]
        assert texts[1:] == ["Not counted: #2; profile with kernel= to count them."]


@pytest.mark.parametrize("sampled", [True, False])
def test_the_reason_of_a_figure_is_that_nothing_of_its_kernel_was_counted(tmp_path: Path, sampled: bool) -> None:
    """Also where only some kernels were asked for."""
    with workload(tmp_path, 1, sampled=sampled) as opened:
        found = figures(opened, ["salu.instructions"], FigureRequest(by_kernel=True))
        assert {f.kernel: f.reason and f.reason.code for f in found} == {"a": None, "b": "not_counted"}
        one = figures(opened, ["salu.instructions"], FigureRequest(kernel="b"))
        assert (one[0].value, one[0].status, one[0].reason) == (None, "not_collected", coverage.NOT_COUNTED)


def test_where_every_pass_holds_every_launch_nothing_is_uncounted(tmp_path: Path) -> None:
    """A NULL is then a counter without a value, and no table of counters is read to find that out."""
    with workload(tmp_path, 5) as opened:
        assert coverage.uncounted_kernels(opened, ["a", "b"]) == set()
        assert coverage.coverage(opened, opened.select()) is None and coverage.notes(opened, opened.select()) == []
        found = figures(opened, ["salu.instructions"], FigureRequest(kernel="b"))
        assert found[0].reason is not None and found[0].reason.code == "no_value"


def test_kernels_whose_configurations_take_different_times_are_told_with_both(tmp_path: Path) -> None:
    with workload(tmp_path, 5) as opened:
        found = outliers.configuration_spreads(opened, opened.select().kernels)
        assert found == [outliers.ConfigurationSpread("1", 2, 100.0, 900.0)], "#2 has one configuration"
        assert "from 100 ns to 900 ns a launch; by='launch' or kernel='#1.1'" in outliers.spread_notes(found)[0].text
        apart = Workload.open(opened.store, opened.manifest, by="launch")
    with apart:
        assert outliers.configuration_spreads(apart, apart.select().kernels) == []
