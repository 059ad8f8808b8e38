"""The store: many processes, sudden deaths, damage, a full disk, and finding workloads again."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base import temporary_files
from rooflens.analysis.base.database import connect, sql_path
from rooflens.analysis.base.problems import BadArgument, NotAllowed, NotFound, StoreProblem
from rooflens.analysis.comparison import experiment_log
from rooflens.analysis.store import measured_ceilings
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.tests.support.waiting import at_most
from rooflens.tools.list_workloads import list_workloads


def ingest(
    store: Store, name: str, counters: str = "CAST(i AS DOUBLE) AS SQ_WAVES", rows: int = 5, **facts
) -> Manifest:
    con = connect()
    with store.draft() as folder:
        write_table(con, f"SELECT i AS dispatch_id, {counters} FROM range({rows}) t(i)", folder / "counters.parquet")
        return store.publish(folder, Manifest(name=name, format="test", dispatches=rows, **facts))


def read(store: Store, manifest: Manifest, select: str = "count(*)") -> list[tuple]:
    return duckdb.sql(f"SELECT {select} FROM read_parquet({sql_path(store.file(manifest, 'counters'))})").fetchall()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


# -- many processes ------------------------------------------------------------------------


def test_drafts_of_the_living_stay_and_those_of_other_hosts_for_a_day(store):
    ingest(store, "first")
    alive = store.root / "tmp" / temporary_files.mark()
    young, old = (store.root / "tmp" / f"{'0' * 12}-1-1-{digit * 12}" for digit in "ab")
    fresh, unmarked = store.root / "tmp" / "fresh", store.root / "tmp" / "unmarked"
    for folder in (alive, young, old, fresh, unmarked):
        folder.mkdir()
    for folder in (alive, old, unmarked):
        os.utime(folder, (1, 1))
    ingest(store, "second")
    assert set((store.root / "tmp").iterdir()) == {alive, young, fresh}


def test_half_written_small_files_of_the_dead_are_swept_and_never_called_foreign(store):
    place, *_ = temporary_files.mark().split("-")
    dead = store.root / f".format.json.{place}-4194304-1-{'0' * 12}"
    mine = store.root / f".format.json.{temporary_files.mark()}"
    of_old = store.root / f".format.json.{'0' * 32}"
    ingest(store, "first")
    for file in (dead, mine, of_old):
        file.write_text("{")
    assert store.scan()[1] == []
    os.utime(of_old, (1, 1))
    ingest(store, "second")
    assert not dead.exists() and not of_old.exists() and mine.exists()


def test_a_failed_ingest_leaves_nothing(store):
    with pytest.raises(ZeroDivisionError), store.draft() as folder:
        (folder / "counters.parquet").write_bytes(b"half")
        raise ZeroDivisionError
    assert store.scan() == ([], []) and not list((store.root / "tmp").iterdir())


# -- damage --------------------------------------------------------------------------------


def test_damaged_and_foreign_entries_are_named_while_the_rest_works(store):
    good, *bad = [ingest(store, name) for name in ("good", "cut", "gone", "json", "other", "newer")]
    folders = [store.root / f"workload={m.id}" for m in bad]
    with (folders[0] / "counters.parquet").open("rb+") as file:
        file.truncate(40)
    (folders[1] / "counters.parquet").unlink()
    (folders[2] / "manifest.json").write_text('{"name": ')
    folders[3].rename(store.root / "workload=copied")
    text = json.loads((folders[4] / "manifest.json").read_text()) | {"layout": 99}
    (folders[4] / "manifest.json").write_text(json.dumps(text))
    (store.root / "notes.txt").write_text("mine")
    (store.root / "workload=file").write_text("")
    (store.root / "workload=empty").mkdir()
    found, broken = store.scan()
    assert [m.name for m in found] == ["good"] and read(store, good) == [(5,)]
    told = "\n".join(broken)
    for name, what in (
        (bad[0].id, "counters.parquet is truncated or changed"),
        (bad[1].id, "counters.parquet is missing"),
        (bad[2].id, "manifest.json cannot be read"),
        ("copied", "belongs to another workload"),
        (bad[4].id, "newer than this version of rooflens"),
        ("notes.txt", "not part of a store"),
        ("file", "cannot be read"),
        ("empty", "no manifest.json"),
    ):
        assert any(name in line and what in line for line in broken), (name, what, told)
    assert store.resolve("latest").id == good.id
    with pytest.raises(StoreProblem, match=f"{bad[0].id}.*truncated"):
        store.resolve(bad[0].id)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"layout": 99}', "has layout 99.*Update rooflens"),
        ('{"layout": "one"}', "format.json cannot be read"),
        ('{"layout": 0}', "format.json cannot be read"),
        ("", "format.json cannot be read"),
        ("[" * 3000, "format.json cannot be read"),
        (" " * 100_000, "format.json cannot be read.*[Ii]t has more than"),
    ],
)
def test_a_store_of_a_newer_or_unknown_layout_is_neither_read_nor_written(store, content, told):
    kept = ingest(store, "first")
    (store.root / "format.json").write_text(content)
    before = sorted(p for p in store.root.rglob("*"))
    uses = {
        "scan": store.scan,
        "resolve": lambda: store.resolve("latest"),
        "resolve an id": lambda: store.resolve(kept.id),
        "import": lambda: ingest(store, "second"),
        "runs": lambda: store.runs,
        "new run": lambda: store.new_run("run-0"),
        "ceilings": lambda: measured_ceilings.files(store),
        "log": lambda: experiment_log.entries(store),
        "record": lambda: experiment_log.record(
            store, experiment_log.ExperimentEntry(kind="profile", workload=kept.id)
        ),
    }
    for name, use in uses.items():
        with pytest.raises(StoreProblem) as caught:
            use()
        assert re.search(told, caught.value.text), (name, caught.value.text)
    assert sorted(p for p in store.root.rglob("*")) == before


def test_a_marker_of_the_layout_that_is_a_pipe_blocks_nobody(store):
    ingest(store, "first")
    (store.root / "format.json").unlink()
    os.mkfifo(store.root / "format.json")
    with pytest.raises(StoreProblem, match="not a regular file"):
        store.scan()


def manifest_with(store: Store, manifest: Manifest, **changes: object) -> None:
    path = store.root / f"workload={manifest.id}" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def swap_for_a_link(path: Path) -> None:
    outside = path.parents[2] / path.name
    shutil.move(path, outside)
    path.symlink_to(outside)


def swap_for_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swap_for_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = {
    "NaN": lambda s, m: manifest_with(s, m, facts={"hbm_bw": float("nan")}),
    "time": lambda s, m: manifest_with(s, m, created_ns=10**30),
    "list": lambda s, m: manifest_with(s, m, counters=[1] * 100_000),
    "deep": lambda s, m: manifest_file(s, m).write_text("[" * 100_000),
    "bytes": lambda s, m: manifest_file(s, m).write_bytes(b"\xff\xfe"),
    "huge": lambda s, m: os.truncate(manifest_file(s, m), 10 << 30),
    "manifest link": lambda s, m: swap_for_a_link(manifest_file(s, m)),
    "manifest pipe": lambda s, m: swap_for_a_pipe(manifest_file(s, m)),
    "table link": lambda s, m: swap_for_a_link(s.file(m, "counters")),
    "table folder": lambda s, m: swap_for_a_folder(s.file(m, "counters")),
}


def manifest_file(store: Store, manifest: Manifest) -> Path:
    return store.root / f"workload={manifest.id}" / "manifest.json"


@pytest.mark.parametrize("kind", DAMAGE)
def test_every_damage_to_a_workload_is_named_at_once_and_the_rest_is_listed(store, kind):
    good, bad = ingest(store, "good"), ingest(store, "bad")
    DAMAGE[kind](store, bad)
    with at_most(2):
        listed = list_workloads(store)
        assert [row[1] for row in listed.table.rows] == ["good"]
        assert len(listed.notes) == 1 and bad.id in listed.notes[0] and len(listed.notes[0]) < 400
        assert store.resolve("latest").id == good.id
        with pytest.raises(StoreProblem, match=bad.id):
            store.resolve(bad.id)


def test_a_workload_that_is_a_link_out_of_the_store_is_not_followed(store, tmp_path):
    good, bad = ingest(store, "good"), ingest(store, "bad")
    folder = store.root / f"workload={bad.id}"
    shutil.move(folder, tmp_path / "outside")
    folder.symlink_to(tmp_path / "outside")
    assert [m.id for m in store.scan()[0]] == [good.id] and "is a symbolic link" in store.scan()[1][0]


def test_pipes_and_huge_files_among_notes_and_ceilings_block_nobody(store):
    kept = ingest(store, "first")
    experiment_log.record(store, experiment_log.ExperimentEntry(kind="profile", workload=kept.id))
    os.mkfifo(store.root / "note" / "0123456789abcdef.json")
    (store.root / "note" / "0123456789abcdeg.json").touch()
    os.truncate(store.root / "note" / "0123456789abcdeg.json", 10 << 30)
    (store.root / "peak" / "gpu").mkdir(parents=True)
    os.mkfifo(store.root / "peak" / "gpu" / "a.parquet")
    assert len(experiment_log.entries(store)) == 1 and measured_ceilings.files(store) == []


def test_a_damaged_file_of_measured_ceilings_is_named(store):
    row = {"vendor": "amd", "device_uuid": "u", "ceiling": "hbm", "value": 1.0, "status": "ok"}
    path = measured_ceilings.save(store, [row])
    path.write_bytes(b"PAR1" + bytes(path.stat().st_size - 8) + b"PAR1")
    with pytest.raises(StoreProblem, match=f"{path.name} is damaged.*Delete it"):
        measured_ceilings.latest(connect(), store)


def test_a_store_that_is_a_file_or_forbidden_is_a_problem(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreProblem, match="cannot be read"):
        Store(tmp_path / "file").scan()
    with pytest.raises(StoreProblem, match="cannot be written"), Store(tmp_path / "file").draft():
        pass


# -- values --------------------------------------------------------------------------------


def test_a_moved_store_reads_as_before(store, tmp_path):
    manifest = ingest(store, "first")
    moved = Store(shutil.move(store.root, tmp_path / "elsewhere"))
    assert moved.resolve("first") == manifest and read(moved, manifest) == [(5,)]


def test_a_path_of_glob_characters_reads_as_it_is(tmp_path):
    store = Store(tmp_path / "a[1]*?")
    assert read(store, ingest(store, "first")) == [(5,)]


# -- finding -------------------------------------------------------------------------------


def test_a_workload_is_found_by_id_prefix_name_and_latest(store):
    first, second = ingest(store, "same"), ingest(store, "same")
    other = ingest(store, "other")
    assert store.resolve(first.id).id == first.id
    assert store.resolve(first.id[:14]).id == first.id
    assert store.resolve("same").id == second.id
    assert store.resolve("latest").id == other.id


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_name_means_no_workload(store, empty):
    ingest(store, "only")
    with pytest.raises(BadArgument, match="is empty"):
        store.resolve(empty)


def test_an_ambiguous_prefix_names_what_it_fits(store):
    first, second = ingest(store, "a"), ingest(store, "b")
    with pytest.raises(NotFound, match=f"not unique.*{first.id}.*{second.id}"):
        store.resolve(first.id[:3])


def test_an_unknown_workload_gets_near_names(store):
    ingest(store, "gemm_baseline")
    with pytest.raises(NotFound, match="no workload 'gem_baseline'.*Near names: gemm_baseline"):
        store.resolve("gem_baseline")


def test_an_empty_store_says_how_to_fill_it(store):
    with pytest.raises(NotFound, match="is empty.*import_profile"):
        store.resolve("latest")
    assert store.scan() == ([], [])


@pytest.mark.parametrize("reference", ["../store", "/", "\x00", "x" * 5000, "*"])
def test_strange_references_find_nothing(store, reference):
    ingest(store, "first")
    with pytest.raises(NotFound):
        store.resolve(reference)


def test_the_place_of_the_store(monkeypatch, tmp_path):
    monkeypatch.setenv("ROOFLENS_STORE", str(tmp_path / "env"))
    assert Store.locate(tmp_path / "given").root == tmp_path / "given"
    assert Store.locate().root == tmp_path / "env"
    monkeypatch.delenv("ROOFLENS_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Store.locate().root == tmp_path / "data" / "rooflens"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Store.locate().root == tmp_path / ".local" / "share" / "rooflens"


def test_a_store_for_reading_refuses_to_write(tmp_path: Path) -> None:
    reading = Store(tmp_path, read_only=True)
    with pytest.raises(NotAllowed, match="read-only"), reading.draft():
        pass
    with pytest.raises(NotAllowed):
        reading.new_run("run-0")
    assert list(tmp_path.iterdir()) == []


def test_folders_of_runs_belong_to_the_store_and_are_closed_to_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    folder = store.new_run("run-0")
    assert folder == store.run_folder("run-0") and folder.stat().st_mode & 0o777 == 0o700
    assert store.scan() == ([], []), "runs are no workloads and no foreign entries"
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreProblem):
        Store(tmp_path / "file").new_run("run-0")
