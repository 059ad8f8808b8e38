"""rocpd databases as untrusted files: the environment stays in them, and nothing in them can do harm."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, repeated, run
from rooflens.tools.profiles.parsing import sqlite_database as rocpd

RUN = run(*repeated(2, Launch("k(int)"), SQ_INSTS_VALU=[1.0, 2.0]))
CANARY = "TOKEN=canary-7f3a91c4"


@pytest.fixture
def database(writer):
    """A database, and a function that changes it by a statement; ``{suffix}`` stands for that of its tables."""
    file = write_rocpd(writer.place("4711_results.db"), replace(RUN, environment=f'{{"SECRET": "{CANARY}"}}'))

    def change(*statements: str):
        con = sqlite3.connect(file)
        (table,) = con.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_pmc_event_%'").fetchone()
        for statement in statements:
            con.execute(statement.replace("{suffix}", table.removeprefix("rocpd_pmc_event_")))
        con.commit()
        con.close()
        return file

    return change


def holds_canary(bench, done=None):
    files = [f for f in bench.store.root.rglob("*") if f.is_file()]
    assert files
    parts = [f.read_bytes() for f in files] + [done.model_dump_json().encode() if done else b""]
    return any(b"canary" in part for part in parts)


def test_the_environment_of_the_process_stays_in_the_database_and_no_trigger_fires(bench, database):
    file = database(
        "CREATE TABLE fired (x)",
        "CREATE TRIGGER t INSTEAD OF INSERT ON rocpd_string BEGIN INSERT INTO fired VALUES (1); END",
    )
    before = file.read_bytes()
    assert CANARY.encode() in before
    done = bench.load(file)
    assert done.dispatches == 2 and not holds_canary(bench, done)
    assert file.read_bytes() == before


@pytest.mark.parametrize("column", ["display_name", "kernel_name"])
def test_a_view_cannot_smuggle_the_environment_in_as_a_kernel_name(bench, database, column):
    other = "kernel_name" if column == "display_name" else "display_name"
    file = database(
        "DROP VIEW rocpd_info_kernel_symbol",
        f'CREATE VIEW rocpd_info_kernel_symbol AS SELECT s.id, s.guid, p.environment AS {column}, NULL AS {other}, '
        "arch_vgpr_count, accum_vgpr_count, sgpr_count FROM rocpd_info_kernel_symbol_{suffix} s, "
        "rocpd_info_process_{suffix} p",
    )  # fmt: skip
    done = bench.load(file)
    assert bench.column(done, "dispatches", "kernel") == ["(no name)"] * 2
    assert not holds_canary(bench, done)


def test_the_environment_is_private_under_any_part_of_a_query(writer, database):
    with rocpd.open_database(database()) as db:
        for sql in (
            "SELECT environment FROM rocpd_info_process",
            "SELECT extdata FROM rocpd_info_process",
            "SELECT (SELECT environment FROM rocpd_info_process)",
            "SELECT coalesce(x, '') FROM (SELECT ENVIRONMENT AS x FROM rocpd_info_process)",
        ):
            assert db.rows(sql)[0][0] in (None, "")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM rocpd_info_process_x",
        "CREATE TABLE t (x)",
        "ATTACH 'other.db' AS other",
        "PRAGMA writable_schema = ON",
        "SELECT load_extension('libm.so.6')",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    ],
)
def test_only_reading_is_possible(database, statement):
    file = database("CREATE TABLE rocpd_info_process_x (id INT)")
    before = file.read_bytes()
    with rocpd.open_database(file) as db, pytest.raises(BadInput):
        db.rows(statement)
    assert file.read_bytes() == before and sorted(p.name for p in file.parent.iterdir()) == [file.name]


def test_a_query_that_works_long_for_its_first_row_is_not_interrupted(database):
    joins = ", ".join(f"rocpd_info_agent_{{suffix}} a{i}" for i in range(21))
    file = database(f"CREATE VIEW slow AS SELECT count(*) FROM {joins}")
    with rocpd.open_database(file) as db:
        db._deadline = 0.0  # as after a long pause since the last query
        assert db.rows("SELECT * FROM slow") == [(2**21,)]


@pytest.mark.parametrize("name", ["4711_results.db", "before.db"])
def test_a_locked_database_is_refused(bench, database, name):
    file = database().rename(bench.folder / name)
    con = sqlite3.connect(file, isolation_level=None)
    con.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(BadInput, match=f"{name} is locked"):
            bench.load(file)
    finally:
        con.close()


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_database_that_is_still_written_is_refused(bench, database, suffix):
    file = database()
    file.with_name(file.name + suffix).write_bytes(b"\xd9\xd5\x05\xf9")
    with pytest.raises(BadInput, match="is incomplete"):
        bench.load(file)
