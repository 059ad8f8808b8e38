"""Derived tables: computed once a workload, by many processes, on full and read-only disks, and never stale."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.diagnosis.findings import Diagnosis
from rooflens.analysis.store import measured_ceilings
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.tables import columns, derived, derived_tables, schema
from rooflens.analysis.tables import findings as findings_table
from rooflens.analysis.tables.declaration import DerivedTable, Row
from rooflens.analysis.workload import Workload
from rooflens.tests.support.waiting import END_S
from rooflens.tools.isolation.channel import Channel
from rooflens.tools.isolation.child import Child
from rooflens.tools.isolation.limits import Limits
from rooflens.tools.query_counters import query_counters
from rooflens.tools.sql import references

ALL = "SELECT * FROM metrics ORDER BY ALL"
FINDINGS = "SELECT * FROM findings ORDER BY ALL"
DIAGNOSIS = ["accounts", "findings", "loads"]
"""Tables that are computed together."""


@pytest.fixture
def twins(samples: Store, tmp_path: Path) -> Store:
    """A store of its own with the two samples."""
    shutil.copytree(samples.root, tmp_path / "twins", ignore=shutil.ignore_patterns("derived", "tmp"))
    return Store(tmp_path / "twins")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose rows were computed, once for each computation."""
    calls: list[str] = []

    def counted(table: str, kind: DerivedTable) -> DerivedTable:
        def rows(source: Any) -> list[Row]:
            assert kind.rows
            calls.append(table)
            return kind.rows(source)

        return replace(kind, rows=rows)

    for table, kind in list(derived_tables().items()):
        monkeypatch.setitem(derived_tables(), table, counted(table, kind))
    return calls


def rows(store: Store, sql: str, **more: Any) -> list[list[Any]]:
    return query_counters(store, sql, limit=10_000, **more).table.rows


def ids(store: Store) -> list[str]:
    return [m.id for m in store.scan()[0]]


def kept(store: Store) -> list[str]:
    return sorted(p.name for p in store.root.glob("derived/*/*/*"))


@pytest.mark.parametrize("table", ["metrics", "findings"])
def test_rows_are_those_of_the_analysis_and_computed_once(twins: Store, computed: list[str], table: str) -> None:
    names, together = list(schema()[table].columns), DIAGNOSIS if table == "findings" else [table]
    first = rows(twins, f"SELECT * FROM {table} ORDER BY ALL")
    assert first and sorted(computed) == sorted(together * 2), "once for each of both workloads"
    assert rows(twins, f"SELECT * FROM {table} ORDER BY ALL") == first
    assert len(computed) == len(kept(twins)) == 2 * len(together) and twins.scan()[1] == []
    for manifest in twins.scan()[0]:
        with Workload(twins, manifest) as workload:
            declared = derived_tables()[table]
            assert declared.rows
            made = declared.rows(declared.source(workload) if declared.source else workload)
            fresh = [[{"workload": workload.id, **row}.get(name) for name in names] for row in made]
        assert rows(twins, f"SELECT * FROM {table}", workload=manifest.id) == fresh


def test_all_tables_of_a_workload_share_one_diagnosis(twins: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosed: list[str] = []
    diagnose = findings_table.diagnose

    def counted(workload: Workload) -> tuple[list[Diagnosis], int]:
        diagnosed.append(workload.id)
        return diagnose(workload)

    monkeypatch.setattr(findings_table, "diagnose", counted)
    for table in ("findings", "loads", "accounts"):  # each of both workloads, as an export does it
        assert rows(twins, f"SELECT * FROM {table}")
    assert sorted(diagnosed) == ids(twins)


def test_another_catalogue_or_code_computes_anew(
    twins: Store, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rows(twins, ALL)
    monkeypatch.setattr(derived, "digest", lambda: "0123456789abcdef")
    assert rows(twins, ALL) == first and len(computed) == 4
    assert {p.name for p in twins.root.glob("derived/*")} > {"0123456789abcdef"}


def test_the_digest_follows_code_data_and_the_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("analysis/metrics/a.toml", "analysis/engine/b.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1")
    monkeypatch.setattr(derived, "__file__", str(tmp_path / "analysis" / "tables" / "derived.py"))
    seen = {derived.digest.__wrapped__()}
    for name in ("analysis/metrics/a.toml", "analysis/engine/b.py"):
        (tmp_path / name).write_text("x = 2")
        seen.add(derived.digest.__wrapped__())
    monkeypatch.setattr("duckdb.__version__", "9.9")
    seen.add(derived.digest.__wrapped__())
    assert len(seen) == 4


def test_ceilings_measured_later_count_in_findings_and_not_in_metrics(twins: Store, computed: list[str]) -> None:
    rows(twins, FINDINGS + " LIMIT 1")
    rows(twins, ALL)
    row = {"vendor": "amd", "device_uuid": "u", "device": "d", "ceiling": "hbm", "value": 1.0, "unit": "GB/s"}
    measured_ceilings.save(twins, [row | {"status": "ok", "measured_at": "2026-01-01T00:00:00Z"}])
    computed.clear()
    rows(twins, FINDINGS)
    rows(twins, ALL)
    assert Counter(computed) == dict.fromkeys(DIAGNOSIS, 2), "of both workloads"
    assert len(kept(twins)) == 8, "four tables of each workload: findings by older ceilings are gone"


def test_only_the_workloads_that_a_query_names_are_computed(twins: Store, computed: list[str]) -> None:
    one, other = ids(twins)
    assert {row[0] for row in rows(twins, f"SELECT workload FROM metrics WHERE workload = '{one}'")} == {one}
    assert computed == ["metrics"]
    assert rows(twins, "SELECT count(*) FROM findings", workload=other) != [[0]]
    assert sorted(computed[1:]) == DIAGNOSIS


def test_deleted_workloads_and_unused_digests_are_swept(twins: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rows(twins, ALL)
    gone, left = ids(twins)
    old, recent = twins.derived_folder("old") / left, twins.derived_folder("recent") / left
    for folder in (old, recent):
        folder.mkdir(parents=True)
    os.utime(old.parent, (1, 1))
    shutil.rmtree(twins.root / f"workload={gone}")
    assert {row[0] for row in rows(twins, ALL)} == {left}
    rows(twins, FINDINGS)
    assert recent.is_dir() and not old.exists() and not list(twins.root.glob(f"derived/*/{gone}"))
    assert list(twins.root.glob(f"derived/*/{left}"))


def test_a_digest_in_use_stays_young(twins: Store) -> None:
    rows(twins, ALL)
    home = twins.derived_folder(derived.digest())
    os.utime(home, (1, 1))
    rows(twins, ALL)
    assert time.time() - home.stat().st_mtime < 600


# -- disks ---------------------------------------------------------------------------------------


def test_a_server_that_only_reads_computes_without_keeping(twins: Store, computed: list[str]) -> None:
    reading = Store(twins.root, read_only=True)
    first = rows(reading, ALL)
    assert first == rows(reading, ALL) and len(computed) == 4
    assert not (twins.root / "derived").exists()
    assert rows(twins, ALL) == first
    computed.clear()
    assert rows(reading, ALL) == first and computed == [], "what others kept is read"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    mount, folder = shutil.which("mount"), tmp_path / "disk"
    if os.geteuid() != 0 or mount is None:
        pytest.skip("needs root to mount a file system")
    folder.mkdir()
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("this system does not let root mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_computes_without_keeping(twins: Store, small_disk: Path) -> None:
    full = Store(shutil.copytree(twins.root, small_disk, dirs_exist_ok=True))
    block = small_disk / "tmp"
    block.mkdir(exist_ok=True)
    with (block / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(b"x" * 4096)
    assert rows(full, ALL) == rows(twins, ALL)
    assert not kept(full) and not list(full.root.rglob("*.jsonl"))


# -- processes -----------------------------------------------------------------------------------


def read_twice(channel: Channel, arguments: dict[str, Any]) -> None:
    """What each process does once it is told to."""
    channel.send({"pid": os.getpid()})
    channel.receive()
    channel.send({"rows": [rows(Store(Path(arguments["store"])), ALL) for _ in range(2)]})


def test_two_processes_that_compute_at_once_get_the_same_rows(twins: Store) -> None:
    asked = {"store": str(twins.root)}, Limits(memory_bytes=16_000_000_000, cpu_s=600), time.monotonic() + END_S
    with Child(read_twice, *asked) as one, Child(read_twice, *asked) as other:
        assert one.receive()["pid"] != other.receive()["pid"]
        for process in (one, other):
            process.send({})
        answers = [told for process in (one, other) for told in process.receive()["rows"]]
    assert answers[0] and answers == [answers[0]] * 4
    assert kept(twins) == ["metrics.parquet"] * 2 and not list((twins.root / "tmp").iterdir())


# -- what WHERE says about workloads -----------------------------------------------------------------

RESTRICTED = {
    "SELECT * FROM metrics WHERE workload = 'a'": {"a"},
    "SELECT * FROM metrics WHERE 'a' = metrics.Workload AND value > 1 AND (n = 1 OR n = 2)": {"a"},
    "SELECT * FROM metrics WHERE workload IN ('a', 'b') AND workload = 'b'": {"b"},
    "SELECT * FROM metrics m JOIN facts f USING (workload) WHERE workload = 'a'": {"a"},
    "SELECT * FROM metrics m LEFT JOIN facts f ON true WHERE m.workload = 'a'": {"a"},
    "SELECT * FROM metrics m, facts f WHERE m.workload = 'a'": {"a"},
    "WITH m AS (SELECT * FROM metrics WHERE workload = 'a') SELECT * FROM m": {"a"},
    "SELECT 1 FROM metrics WHERE workload = 'a' UNION ALL SELECT 1 FROM metrics WHERE workload = 'b'": {"a", "b"},
    "SELECT (SELECT max(value) FROM metrics WHERE workload = 'a')": {"a"},
}
OPEN = [
    "SELECT * FROM metrics",
    "SELECT * FROM metrics WHERE workload = 'a' OR n = 1",
    "SELECT * FROM metrics WHERE NOT workload = 'a'",
    "SELECT * FROM metrics WHERE workload NOT IN ('a')",
    "SELECT * FROM metrics WHERE workload = kernel",
    "SELECT * FROM metrics WHERE workload = 'a' || 'b'",
    "SELECT * FROM metrics m JOIN facts f ON true WHERE f.workload = 'a'",
    "SELECT * FROM facts ANTI JOIN metrics ON facts.value = metrics.value WHERE workload = 'a'",
    "SELECT * FROM facts f ASOF JOIN metrics m ON f.value >= m.value WHERE m.workload = 'a'",
    "SELECT * FROM metrics m(kernel, workload) WHERE workload = 'a'",
    "SELECT * FROM metrics TABLESAMPLE 10% WHERE workload = 'a'",
    "SELECT 1 FROM metrics WHERE workload = 'a' UNION ALL SELECT 1 FROM metrics",
    "SELECT * FROM (SELECT * FROM metrics) m WHERE workload = 'a'",
    "SELECT * FROM facts WHERE workload = 'a' AND value IN (SELECT value FROM metrics)",
]


def restricted_to(sql: str) -> set[str] | None:
    options = "skip_null := true, skip_empty := true, skip_default := true"
    answer = duckdb.execute(f"SELECT json_serialize_sql($1, {options})", [sql]).fetchall()[0][0]
    known = {name: columns(name) for name in schema()}
    return references.references(json.loads(answer)["statements"][0]["node"], known).workloads["metrics"]


@pytest.mark.parametrize("sql", RESTRICTED)
def test_a_condition_on_workload_restricts_what_is_read(sql: str) -> None:
    assert restricted_to(sql) == RESTRICTED[sql]


@pytest.mark.parametrize("sql", OPEN)
def test_a_condition_that_does_not_bind_every_row_restricts_nothing(sql: str) -> None:
    assert restricted_to(sql) is None


def test_a_restricted_query_keeps_columns_and_rows(store: Store, workload: Manifest, make_workload: Any) -> None:
    other = make_workload("second", {"OTHER": "i", "duration_ns@P2": "i"}, dispatches=7)
    alone = query_counters(store, f"SELECT * FROM counters WHERE workload = '{other.id}' ORDER BY dispatch_id").table
    filtered = query_counters(
        store, f"SELECT * FROM (SELECT * FROM counters) WHERE workload = '{other.id}' ORDER BY dispatch_id"
    ).table
    assert alone == filtered and len(alone.rows) == 7 and {"SQ_WAVES", "duration_ns@P2"} <= set(alone.columns)
    nobody = query_counters(store, "SELECT * FROM counters WHERE workload = 'nobody'")
    assert nobody.table.rows == [] and nobody.notes == [] and nobody.table.columns == alone.columns
