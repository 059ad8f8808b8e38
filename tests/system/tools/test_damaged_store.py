"""Damaged and vanishing workloads: every tool names them, none takes it for a bug, and SQL answers with the others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base.database import sql_path
from rooflens.analysis.base.problems import BadInput, Problem, StoreProblem
from rooflens.analysis.store.integrity import damage, readable_workloads
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.server.mcp.toolbox import answer
from rooflens.tools import query_counters as query
from rooflens.tools.base.results import Result
from rooflens.tools.compute_occupancy import compute_occupancy
from rooflens.tools.sql.export import export_db

READING = {
    "compute_metrics": {},
    "compute_roofline": {},
    "compute_occupancy": {},
    "diagnose_bottleneck": {},
    "list_workloads": {},
    "plot": {"kind": "roofline"},
    "query_counters": {"sql": "SELECT count(*), max(kernel), sum(duration_ns) FROM dispatches"},
    "compare_workloads": {"baseline": "yax_before", "candidate": ["yax_after"]},
}


@pytest.fixture
def twins(samples: Store, tmp_path: Path) -> Store:
    """A store of its own with the two samples."""
    shutil.copytree(samples.root, tmp_path / "twins", ignore=shutil.ignore_patterns("derived", "tmp", "plots"))
    return Store(tmp_path / "twins")


def garbled(path: Path, start: int) -> None:
    """The same size, but zeros from ``start`` on but for the last bytes."""
    content = path.read_bytes()
    path.write_bytes(content[:start] + bytes(len(content) - start - 4) + content[-4:])


def without(path: Path, columns: str) -> None:
    """Rewrite a table without some columns, as another tool may have left it; the manifest follows."""
    draft = path.with_suffix(".draft")
    duckdb.execute(
        f"COPY (SELECT * EXCLUDE ({columns}) FROM read_parquet({sql_path(path)}, hive_partitioning = false)) "
        f"TO {sql_path(draft)} (FORMAT parquet)"
    )
    draft.replace(path)
    file = path.with_name("manifest.json")
    manifest = Manifest.model_validate_json(file.read_bytes())
    manifest.files[path.name] = path.stat().st_size
    file.write_text(manifest.model_dump_json())


def told(store: Store, tool: str, workload: str) -> Result | Problem:
    given = READING[tool]
    return answer(store, tool, given if "baseline" in given else given | {"workload": workload})


@pytest.mark.parametrize("tool", READING)
def test_a_damaged_table_of_the_right_size_is_a_problem_of_the_store(twins: Store, tool: str) -> None:
    bad = twins.resolve("yax_before")
    for table in ("dispatches", "counters"):
        garbled(twins.file(bad, table), 4)  # type: ignore[arg-type]
    said = told(twins, tool, bad.id)
    assert isinstance(said, StoreProblem), said
    assert tool == "query_counters" or (bad.id in said.text and "counters.parquet is damaged" in said.text)


def test_tables_that_were_exchanged_are_named(twins: Store) -> None:
    bad = twins.resolve("yax_before")
    counters, passes = (twins.file(bad, table) for table in ("counters", "passes"))
    assert counters and passes
    shutil.copy(passes, counters)
    file = counters.with_name("manifest.json")
    file.write_text(
        bad.model_copy(update={"files": bad.files | {counters.name: counters.stat().st_size}}).model_dump_json()
    )
    said = told(twins, "compute_metrics", bad.id)
    assert isinstance(said, StoreProblem) and "counters.parquet is damaged" in said.text, said


@pytest.mark.parametrize("tool", ["compute_metrics", "list_workloads", "query_counters", "compare_workloads"])
def test_a_workload_deleted_before_its_tables_are_read_is_a_problem_of_the_store(
    twins: Store, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = twins.resolve("yax_before")
    file = Store.file
    monkeypatch.setattr(
        Store, "file", lambda *a: (shutil.rmtree(twins.root / f"workload={bad.id}", ignore_errors=True), file(*a))[1]
    )
    said = told(twins, tool, bad.id)
    assert isinstance(said, StoreProblem), said


def test_a_sound_workload_stays_one_and_a_bug_stays_a_bug(twins: Store) -> None:
    manifest = twins.resolve("latest")
    assert damage(twins, manifest) is None
    with pytest.raises(duckdb.CatalogException), Workload(twins, manifest) as workload:
        workload.rows("SELECT * FROM absent")


@pytest.mark.parametrize(("table", "start"), [("counters", 0), ("metrics", 4)])
def test_sql_over_all_workloads_answers_without_the_damaged_one_and_names_it(
    twins: Store, table: str, start: int
) -> None:
    bad, good = twins.resolve("yax_before"), twins.resolve("yax_after")
    for name in ("dispatches", "counters"):
        garbled(twins.file(bad, name), start)  # type: ignore[arg-type]
    sql = f"SELECT DISTINCT workload FROM {table}"
    with pytest.raises(StoreProblem):
        query.query_counters(twins, sql, workload=bad.id, timeout_s=20)
    result = query.query_counters(twins, sql, timeout_s=20)
    assert result.table.rows == [[good.id]]
    assert len(result.notes) == 1 and bad.id in result.notes[0] and "is damaged" in result.notes[0]


def test_damaged_files_of_computed_rows_are_computed_anew(twins: Store) -> None:
    sql = "SELECT count(*) FROM metrics"
    rows = query.query_counters(twins, sql).table.rows
    kept = sorted(twins.root.glob("derived/*/*/metrics.parquet"))
    kept[0].unlink()
    os.mkfifo(kept[0])
    garbled(kept[1], 0)
    assert query.query_counters(twins, sql).table.rows == rows
    garbled(kept[0], 4)
    readable_workloads(twins, twins.scan()[0])
    assert not kept[0].exists() and kept[1].exists()
    assert query.query_counters(twins, sql).table.rows == rows


def test_an_export_names_what_is_damaged_and_leaves_no_file(twins: Store, tmp_path: Path) -> None:
    bad = twins.resolve("yax_before")
    garbled(twins.file(bad, "counters"), 4)  # type: ignore[arg-type]
    (tmp_path / "out").mkdir()
    with pytest.raises(StoreProblem, match=f"cannot be exported.*{bad.id}"):
        export_db(twins, tmp_path / "out" / "all.duckdb")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_profile_without_registers_or_sizes_is_read_as_not_stating_them(twins: Store) -> None:
    bare = twins.resolve("yax_before")
    without(twins.file(bare, "dispatches"), "vgpr, agpr, sgpr, lds_bytes, scratch_bytes, grid, workgroup_size")  # type: ignore[arg-type]
    for tool in set(READING) - {"plot"}:
        said = told(twins, tool, bare.id)
        assert not isinstance(said, Problem) or tool == "compute_occupancy", (tool, said)
    with pytest.raises(BadInput, match="does not state the registers"):
        compute_occupancy(twins, workload=bare.id)
