"""The store among processes: many at once, sudden deaths, a full disk."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base.problems import StoreProblem
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT

INGEST = """
import sys
import duckdb
from rooflens.analysis.store.store import Manifest, Store, write_table

def ingest(store, name, rows):
    con = duckdb.connect()
    with store.draft() as folder:
        for table in ("dispatches", "counters"):
            rows_of = f"SELECT i AS dispatch_id, hash(i) % 7 AS c FROM range({rows}) t(i)"
            write_table(con, rows_of, folder / f"{table}.parquet")
        return store.publish(folder, Manifest(name=name, format="test", dispatches=rows))

store = Store(sys.argv[1])
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", INGEST + code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_four_processes_ingest_and_read_at_once_without_an_error(store):
    code = """
for n in range(4):
    ingest(store, f"{sys.argv[2]}-{n}", 500)
    found, broken = store.scan()
    assert not broken, broken
    for m in found:
        rows = len(duckdb.sql(f"FROM '{store.file(m, 'counters')}'").fetchall())
        assert rows == m.dispatches == 500
    store.resolve("latest")
"""
    workers = [start(code, str(store.root), f"w{i}") for i in range(4)]
    assert [w.communicate(timeout=120)[1] for w in workers] == [""] * 4
    found, broken = store.scan()
    assert len(found) == 16 and not broken and len({m.id for m in found}) == 16
    assert not list((store.root / "tmp").iterdir())


def test_a_kill_while_a_real_profile_is_imported_leaves_all_of_it_or_nothing(store):
    code = """
from rooflens.tools.import_profile import import_profile
print("ready", flush=True)
while True:
    print(import_profile(store, sys.argv[2]).workload, flush=True)
"""
    sample = ROOT / "server" / "samples" / "yax_before"
    chance, acknowledged = random.Random(8), set[str]()
    for _ in range(2):
        worker = start(code, str(store.root), str(sample))
        worker.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.8))
        worker.send_signal(signal.SIGKILL)
        acknowledged.update(worker.communicate(timeout=120)[0].split())
    with store.draft():
        assert len(list((store.root / "tmp").iterdir())) == 1, "what the killed left is gone"
    found, broken = store.scan()
    assert (
        not broken
        and acknowledged <= {m.id for m in found}
        and len({(m.dispatches, m.kernels, len(m.counters)) for m in found}) <= 1
    )
    assert not [p for p in store.root.iterdir() if p.name.startswith(".")]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("needs root to mount a small file system")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("this system does not let root mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_an_import_that_fills_the_disk_is_a_problem(small_disk, tmp_path):
    from rooflens.tools.import_profile import import_profile

    folder = tmp_path / "made"
    folder.mkdir()
    counters = ", ".join(f'hash(i + {n}) % 100000000 AS "SQ_C_{n}"' for n in range(60))
    duckdb.execute(
        f"""COPY (SELECT i AS "Dispatch_ID", 'k' AS "Kernel_Name", {counters} FROM range(30000) t(i))
        TO '{folder}/pmc_perf.csv' (HEADER)"""
    )
    with pytest.raises(StoreProblem, match="is full"):
        import_profile(Store(small_disk), str(folder))
    assert not list((small_disk / "tmp").iterdir()) and not Store(small_disk).scan()[0]


def test_drafts_of_a_killed_process_can_be_removed_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.draft() as mine:
        child = os.fork()
        if child == 0:
            kept = store.draft()
            kept.__enter__()
            os._exit(0)
        os.waitpid(child, 0)
        assert len(list((tmp_path / "tmp").iterdir())) == 2
        store.discard_drafts(child)
        assert list((tmp_path / "tmp").iterdir()) == [mine]
