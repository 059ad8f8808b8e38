"""A store behind a DuckLake catalogue in a real PostgreSQL, its files in S3, with many writers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool, Problem, StoreProblem
from rooflens.analysis.store.manifest import PREFIX
from rooflens.analysis.store.remote import catalogue, extensions
from rooflens.analysis.store.store import Store
from rooflens.server import cli
from rooflens.tests.external.team.crowd import crowd
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.import_profile import import_profile
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.query_counters import query_counters
from rooflens.tools.team.workload_choice import change_tags, transfer

MANY = 4
"""Workloads without a copy here, so many that SQL reads them through the catalogue."""


def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str = "another") -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))


def copies(store: Store) -> list[str]:
    return [path.name for path in store.root.glob(f"{PREFIX}*")]


def test_one_machine_imports_and_another_asks_every_figure_the_same(
    lake: Store, four: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rooflens.tests.external.team.conftest import SAMPLES

    done = import_profile(lake, str(SAMPLES / "yax_before"), name="yax_before")
    elsewhere(monkeypatch, tmp_path)
    there = Store.locate(lake.address)
    assert there.resolve("latest").id == there.resolve(done.workload).id == done.workload
    far, near = (compute_metrics(s, "yax_before", ["*"]).table.rows for s in (there, four))
    assert far == near


def test_sql_over_many_workloads_asks_the_catalogue_and_copies_none(
    lake: Store, four: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Store(tmp_path / "here")
    crowd(four, "yax_before", here, MANY)
    crowd(four, "matmul_fp64", here, 1, "m")
    transfer(here, lake, here.scan()[0])
    elsewhere(monkeypatch, tmp_path)
    there = Store.locate(lake.address)
    for sql in (
        "SELECT w.name, d.kernel, d.duration_ns, d.launch, d.configuration FROM dispatches d JOIN workloads w "
        "USING (workload) ORDER BY ALL",
        # The second name of a counter, one that only some have, and one of no file at all.
        "SELECT workload, sum(TCC_EA0_RDREQ_sum), sum(SQ_WAVES), max(SQ_INSTS_VALU_ADD_F64) FROM counters "
        "GROUP BY ALL ORDER BY 1",
        "SELECT commit, branch, name, (SELECT count(*) FROM events) FROM workloads ORDER BY ALL",
    ):
        assert query_counters(there, sql).table.rows == query_counters(here, sql).table.rows, sql
    assert not copies(there)
    described = [row[0] for row in query_counters(there, "DESCRIBE counters").table.rows]
    assert described == [row[0] for row in query_counters(here, "DESCRIBE counters").table.rows]


def test_only_the_files_of_the_workloads_asked_for_are_read(lake: Store, four: Store, tmp_path: Path) -> None:
    here = Store(tmp_path / "here")
    made = crowd(four, "clover", here, 3)
    transfer(here, lake, here.scan()[0])
    data = lake.objects  # type: ignore[attr-defined]
    data.delete([f"{PREFIX}{made[0].id}/dispatches.parquet"])
    target = tmp_path / "out.parquet"
    lake.catalogue.extract([m.id for m in made[1:]], "dispatches", ["workload", "kernel"], target)  # type: ignore[attr-defined]
    assert target.exists()
    with pytest.raises(StoreProblem):
        lake.catalogue.extract([m.id for m in made], "dispatches", ["workload"], tmp_path / "all.parquet")  # type: ignore[attr-defined]


def counted(lake: Store, table: str) -> int:
    with lake.catalogue._open(read_only=True) as con:  # type: ignore[attr-defined]
        row = con.execute(f"SELECT count(*) FROM lake.{table}").fetchone()
    return int(row[0])


_WRITER = """
import sys
from rooflens.analysis.store.store import Store
from rooflens.tools.team.workload_choice import transfer
source, target = Store(sys.argv[1]), Store.locate(sys.argv[2])
mine = source.scan()[0]
for one in mine[int(sys.argv[3])::2] + mine[-2:]:
    transfer(source, target, [one])
print(len(target.scan()[0]))
"""


def test_processes_of_two_machines_write_at_once_and_none_is_lost_or_twice(
    lake: Store, four: Store, tmp_path: Path
) -> None:
    here = Store(tmp_path / "here")
    crowd(four, "yax_before", here, 2)
    crowd(four, "matmul_fp64", here, 2, "m")  # other counters: the table grows columns meanwhile
    writers = []
    for number in range(2):
        own = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / f"machine{number}")}
        arguments = [sys.executable, "-c", _WRITER, str(here.root), lake.address, str(number)]
        writers.append(subprocess.Popen(arguments, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    while any(writer.poll() is None for writer in writers):
        for one in lake.scan()[0]:
            assert set(one.files) == {"dispatches.parquet", "counters.parquet", "passes.parquet"}
        assert counted(lake, "workloads") <= 4
        time.sleep(0.5)
    for writer in writers:
        err = writer.communicate()[1]
        assert writer.returncode == 0, err[-2000:]
    assert {m.name for m in lake.scan()[0]} == {m.name for m in here.scan()[0]}
    assert (counted(lake, "workloads"), counted(lake, "dispatches"), counted(lake, "passes")) == (4, 2 + 2 * 6, 4)


def test_a_writer_killed_early_leaves_nothing_to_see_and_the_next_push_mends_it(
    lake: Store, four: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> list[bool]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(lake.catalogue), "add", killed)  # type: ignore[attr-defined]
        with pytest.raises(KeyboardInterrupt):
            transfer(four, lake, [four.resolve("clover")])
    assert lake.scan() == ([], []) and counted(lake, "dispatches") == 0
    assert [one.new for one in transfer(four, lake, [four.resolve("clover")])] == [True]
    assert [m.name for m in lake.scan()[0]] == ["clover"]


def test_pruned_workloads_are_gone_from_lists_sql_and_storage_and_the_rest_answers(
    lake: Store, four: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Store(tmp_path / "here")
    made = crowd(four, "clover", here, 2, "c")
    transfer(here, lake, made)
    transfer(four, lake, [four.resolve("yax_before")])
    command = ["prune", "--store", lake.address, "--keep-tag", "name=c1", "--keep-tag", "yax"]
    assert cli.main(command) == 0
    assert "1 of 3 workloads" in capsys.readouterr().out and len(lake.scan()[0]) == 3, "a dry run"
    assert cli.main([*command, "--yes"]) == 0
    assert {m.name for m in lake.scan()[0]} == {"c1", "yax_before"} and counted(lake, "dispatches") == 2
    data = lake.objects  # type: ignore[attr-defined]
    assert not data.listing(f"{PREFIX}{made[0].id}/") and data.listing(f"{PREFIX}{made[1].id}/")
    assert query_counters(lake, "SELECT count(*) FROM dispatches").table.rows == [[2]]
    assert [one.new for one in transfer(here, lake, [made[0]])] == [True], "it can be pushed again"


def test_tags_are_seen_on_all_machines_and_a_push_mends_a_change_cut_off(
    lake: Store, four: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = four.resolve("clover")
    transfer(four, lake, [one])
    lake.resolve("clover")
    change_tags(lake, lake.resolve("clover"), ["release"], [])
    elsewhere(monkeypatch, tmp_path)
    there = Store.locate(lake.address)
    assert there.resolve(one.id).tags == there.resolve("clover").tags == ["clo", "release"]
    sql = "SELECT tags FROM workloads"
    assert query_counters(there, sql).table.rows == [["clo,release"]] and there.scan()[1] == []
    with monkeypatch.context() as cut_off:
        cut_off.setattr(catalogue, "_update_manifest", lambda *_: None)  # the catalogue does not hear of it
        change_tags(there, there.resolve("clover"), ["half"], [])
    elsewhere(monkeypatch, tmp_path, "third")
    third = Store.locate(lake.address)
    assert "not the one that was stored" in third.scan()[1][0]
    assert [one.new for one in transfer(four, third, [one])] == [False]
    assert third.resolve("clover").tags == ["clo", "release", "half"] and third.scan()[1] == []
    assert query_counters(third, sql).table.rows == [["clo,release,half"]]


def test_pruning_drops_old_snapshots_and_no_file_of_a_workload(
    lake: Store, four: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def metadata(table: str, where: str = "true") -> int:
        with lake.catalogue._open(read_only=False) as con:  # type: ignore[attr-defined]
            counting = f"SELECT count(*) FROM __ducklake_metadata_lake.{table} WHERE {where}"
            return int(con.execute(counting).fetchone()[0])

    one, other = four.resolve("clover"), four.resolve("yax_before")
    for manifest in (one, other):
        transfer(four, lake, [manifest])
    lake.remove([one])
    files, snapshots = metadata("ducklake_data_file"), metadata("ducklake_snapshot")
    assert snapshots >= 4, "within a day all of it stays"
    transfer(four, lake, [one])
    monkeypatch.setattr(catalogue, "_SNAPSHOTS_S", 0)
    lake.remove([other])
    assert metadata("ducklake_snapshot") == 1 and metadata("ducklake_data_file") < files
    assert metadata("ducklake_files_scheduled_for_deletion", f"contains(path, '{PREFIX}')") == 0
    assert query_counters(lake, "SELECT workload FROM dispatches").table.rows == [[one.id]]
    assert lake.catalogue.manifest_versions().keys() == {one.id}  # type: ignore[attr-defined]


def test_no_manifest_path_or_view_that_somebody_put_in_place_is_believed(
    lake: Store, four: Store, tmp_path: Path
) -> None:
    one, other = four.resolve("clover"), four.resolve("yax_before")
    transfer(four, lake, [one, other])
    data = lake.objects  # type: ignore[attr-defined]
    marker = f"manifests/{one.id}.json"
    content = json.loads(data.read(marker, 1 << 20)) | {"name": "something else"}
    data.delete([marker])
    data.create(marker, json.dumps(content).encode())
    found, broken = lake.scan()
    assert [m.name for m in found] == [other.name] and one.id in broken[0]

    private = tmp_path / "workload=private" / "dispatches.parquet"
    private.parent.mkdir()
    private.write_bytes((four.folder(one) / private.name).read_bytes())
    behind = lake.catalogue  # type: ignore[attr-defined]
    behind.extract([one.id], "dispatches", ["kernel"], tmp_path / "before.parquet")
    with behind._open(read_only=False) as con:
        con.execute(
            f"CALL ducklake_add_data_files('lake', 'dispatches', '{private}', allow_missing => true, "
            "hive_partitioning => true)"
        )
    with pytest.raises(StoreProblem, match="ermission"):
        behind.extract(["private"], "dispatches", ["kernel"], tmp_path / "after.parquet")
    assert not (tmp_path / "after.parquet").exists()

    private = tmp_path / "private.txt"
    private.write_text("secret")
    with lake.catalogue._open(read_only=False) as con:  # type: ignore[attr-defined]
        con.execute("DROP TABLE lake.dispatches")
        con.execute(
            "CREATE VIEW lake.dispatches AS SELECT workload, 1::BIGINT AS dispatch_id, content AS kernel "
            f"FROM lake.workloads, read_text('{private}')"
        )
    lake.catalogue._writer.close()  # type: ignore[attr-defined]  # a file can be attached once
    again = Store.locate(lake.address)
    with pytest.raises(StoreProblem, match="is a view"):
        again.catalogue.extract([one.id], "dispatches", ["kernel"], tmp_path / "of_view.parquet")  # type: ignore[attr-defined]
    assert not (tmp_path / "of_view.parquet").exists()


def test_what_is_pushed_again_is_known_once_and_sql_reaches_nothing_else(
    s3: str, lake: Store, four: Store, s3_endpoint: str
) -> None:
    every = four.scan()[0]
    assert [one.new for one in transfer(four, lake, every)] == [True] * 4
    assert [one.new for one in transfer(four, lake, every)] == [False] * 4
    rows = lake.catalogue.manifest_versions()  # type: ignore[attr-defined]
    assert len(rows) == 4 and counted(lake, "workloads") == 4 and counted(lake, "dispatches") == 9
    for attack in (
        "SELECT * FROM lake.workloads",
        "SELECT * FROM postgres_query('lake', 'SELECT 1')",
        "SELECT * FROM __ducklake_metadata_lake.ducklake_metadata",
    ):
        with pytest.raises(Problem):
            query_counters(lake, attack)
    assert query_counters(lake, "SELECT count(*) FROM dispatches").table.rows == [[9]]
    polars = pytest.importorskip("polars")
    options = {
        "aws_access_key_id": "testing", "aws_secret_access_key": "the-secret-of-the-tests",
        "aws_endpoint_url": s3_endpoint, "aws_region": "us-east-1", "aws_allow_http": "true",
    }  # fmt: skip
    found = polars.scan_parquet(
        f"{s3}/workload=*/dispatches.parquet", storage_options=options, hive_partitioning=True
    ).collect()
    ours = query_counters(four, "SELECT workload, sum(duration_ns) FROM dispatches GROUP BY 1 ORDER BY 1").table.rows
    theirs = found.group_by("workload").agg(polars.col("duration_ns").sum()).sort("workload").rows()
    assert [list(row) for row in theirs] == ours


def test_what_is_missing_or_wrong_is_told(database: str, s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    there = Store.locate(f"ducklake:postgres:{database}")
    with pytest.raises(StoreProblem, match="rooflens init"):
        there.scan()
    with pytest.raises(StoreProblem, match="cannot be used"):
        Store.locate("ducklake:postgres:dbname=x host=/nonexistent").scan()
    assert cli.main(["init", "--store", there.address, "--data", s3]) == 0
    assert cli.main(["init", "--store", there.address, "--data", s3]) == 0
    assert cli.main(["init", "--store", there.address, "--data", f"{s3}-other"]) == 1
    assert "keeps its files at" in capsys.readouterr().err
    assert cli.main(["init", "--store", "/tmp/nowhere", "--data", s3]) == 1
    for address in ("ducklake:", "ducklake:sqlite:x.db", "ducklake:postgresql://host/db"):
        with pytest.raises(BadArgument, match="ducklake:postgres:dbname"):
            Store.locate(address)


def test_a_missing_extension_is_told_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr(extensions, "_packaged_file", lambda name: None)
    monkeypatch.delenv(extensions.INSTALL, raising=False)
    with (
        duckdb.connect(config={"autoinstall_known_extensions": "false", "extension_directory": "/nonexistent"}) as con,
        pytest.raises(MissingTool) as told,
    ):
        extensions.load(con, ["ducklake"])
    assert "duckdb-extension-ducklake" in told.value.text and extensions.INSTALL in told.value.text


def test_a_catalogue_in_a_file_with_a_shared_folder_serves_a_trial(
    postgres: str, four: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = Store.locate(f"ducklake:{tmp_path / 'team.ducklake'}")
    store.catalogue.create(str(tmp_path / "data"))  # type: ignore[attr-defined]
    transfer(four, store, [four.resolve("clover"), four.resolve("yax_before")])
    assert list_workloads(store).table.total_rows == 2
    assert query_counters(store, "SELECT count(*) FROM dispatches").table.rows == [[2]]
    store.remove([store.resolve("clover")])
    assert list_workloads(store).table.total_rows == 1
