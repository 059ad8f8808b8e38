"""export-db writes a store or a workload of it, with the computed tables."""

from __future__ import annotations

from pathlib import Path

import duckdb

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.tools.sql.export import export_db


def test_one_workload_is_exported_alone_with_its_metrics_and_over_no_other_file(samples: Store, tmp_path: Path) -> None:
    target = tmp_path / "one.duckdb"
    words = ["--store", str(samples.root), "export-db"]
    rows = export_db(samples, target, "yax_after")
    assert (rows["workloads"], rows["dispatches"], rows["passes"]) == (1, 1, 1) and rows["facts"] > 10
    with duckdb.connect(str(target), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM metrics WHERE status = 'ok'").fetchone()[0] > 50
        comment = "SELECT comment FROM duckdb_columns() WHERE column_name = 'duration_ns' LIMIT 1"
        assert con.execute(comment).fetchone()[0]
    assert main([*words, str(target)]) == 1, "an existing file is kept"
    assert main([*words, str(tmp_path / "no" / "out.duckdb")]) == 1
    assert list(tmp_path.iterdir()) == [target]
