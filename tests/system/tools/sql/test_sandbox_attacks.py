"""Hostile SQL: refused or harmless, nothing leaks, nothing changes, nothing outlives its limits."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import Problem
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.tests import DATA
from rooflens.tests.support import nursery
from rooflens.tests.support.waiting import at_most, slowness
from rooflens.tools import query_counters as query
from rooflens.tools.isolation import child
from rooflens.tools.query_counters import QueryResult, query_counters
from rooflens.tools.sql import sandbox

CANARY = "canary-7f3a9c"
VARIABLE = "ROOFLENS_TEST_CANARY"


class Field:
    """A store beside a file and an environment variable that must not be seen, and what the disk held before."""

    def __init__(self, root: Path) -> None:
        import duckdb

        self.root, self.store, self.home = root, Store(root / "store"), root / "home"
        self.home.mkdir()
        self.secret = root / "secret.csv"
        self.secret.write_text(f"column\n{CANARY}\n")
        con = duckdb.connect()
        con.execute(f"COPY (SELECT '{CANARY}' AS c) TO '{root}/secret.parquet'")
        con.execute(f"ATTACH '{root}/secret.duckdb' AS s; CREATE TABLE s.t AS SELECT '{CANARY}' AS c; DETACH s")
        select = "SELECT i AS dispatch_id, 'k' || i AS kernel, CAST(i AS DOUBLE) AS duration_ns FROM range(10) t(i)"
        with self.store.draft() as folder:
            write_table(con, select, folder / "dispatches.parquet")
            write_table(con, f"SELECT *, 1.0::DOUBLE AS SQ_WAVES FROM ({select})", folder / "counters.parquet")
            made = Manifest(name="w", format="test", counters=["SQ_WAVES"], dispatches=10, command=f"run {CANARY[:6]}")
            self.workload = self.store.publish(folder, made)
        con.close()
        self.before = self.state()

    def state(self) -> dict[str, str]:
        """Every file below the root, by its content."""
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def check_unseen(self, answer: str) -> None:
        """Nothing of this machine shows in the answer, and nothing changed."""
        shown = answer.replace("\\\\", "\\")
        hidden = [CANARY, str(self.root), str(self.store.root), str(Path.home()), sys.prefix, sandbox.__file__]
        hidden += [f"rooflens-{os.geteuid()}", "site-packages", "sql/worker"]
        assert not [text for text in hidden if len(text) > 1 and text in shown], shown[:2000]
        assert self.state() == self.before

    def check(self, answer: str) -> None:
        """Nothing of this machine shows in the answer, nothing changed, and the next query works."""
        self.check_unseen(answer)
        rows = query_counters(self.store, "SELECT count(*), avg(duration_ns), max(kernel) FROM dispatches").table.rows
        assert rows == [[10, 4.5, "k9"]]

    def attack(self, sql: str, **more: Any) -> QueryResult | Problem:
        """The answer or the Problem; any other exception fails the test."""
        try:
            return query_counters(self.store, self.fill(sql), **more)
        except Problem as problem:
            return problem

    def fill(self, sql: str) -> str:
        known = {"SECRET": self.secret, "ROOT": self.root, "STORE": self.store.root, "ID": self.workload.id}
        for name, value in (known | {"VARIABLE": VARIABLE}).items():
            sql = sql.replace(f"<{name}>", str(value))
        return sql


def told(answer: QueryResult | Problem) -> str:
    return answer.text if isinstance(answer, Problem) else answer.model_dump_json()


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("field")
        patch.setenv(VARIABLE, CANARY)
        patch.setenv("HOME", str(root / "home"))
        patch.chdir(root)
        field = Field(root)
        yield field
        field.check("after all attacks")


ATTACKS = tomllib.loads((DATA / "sql_attacks.toml").read_text(encoding="utf-8"))
REFUSED = ATTACKS["refused"]


@pytest.mark.parametrize("name", REFUSED)
def test_an_attack_is_refused(field: Field, name: str) -> None:
    answer = field.attack(REFUSED[name])
    assert isinstance(answer, Problem), told(answer)[:500]
    # A path that the attacker wrote himself may be repeated to him.
    field.check_unseen(told(answer).replace(str(field.root), "") if "<" in REFUSED[name] else told(answer))


def test_looking_around_shows_nothing_of_the_machine(field: Field) -> None:
    field.check("\n".join(told(field.attack(sql, limit=1000)) for sql in ATTACKS["harmless"].values()))


BOMBS = {
    "list_lambda": "SELECT list_sum(list_transform(range(200000000), lambda x: x * 2))",
    "aggregate_text": "SELECT length(string_agg(repeat('x', 10000), '')) FROM range(10000000)",
    "edit_distance": "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
    "format": "SELECT length(printf('%2000000000d', 1))",
    "cross_join": "SELECT count(*) FROM dispatches a, dispatches b, range(100000000000) c",
    "sort": "SELECT r FROM (SELECT random() AS r FROM range(1000000000)) ORDER BY r DESC LIMIT 3 OFFSET 100000000",
    "exponential_cte": "WITH t0 AS (SELECT 1), "
    + ", ".join(f"t{i} AS (SELECT * FROM t{i - 1} a, t{i - 1} b)" for i in range(1, 60))
    + " SELECT count(*) FROM t59",
    "many_stars": "SELECT " + ", ".join(["*"] * 5000) + " FROM counters, dispatches",
    "deep_subqueries": "SELECT " + "(SELECT " * 6000 + "1" + ")" * 6000,
    "deep_nested_with": "WITH a AS (" * 3000 + "SELECT 1" + ") FROM a a1, a a2" * 3000,
    "huge_rows": "SELECT range(100000) AS a, repeat('y', 100000) AS b FROM range(100000000)",
    "many_columns": "SELECT " + ",".join(["1"] * 30000),
    "text_over_the_cap": "SELECT '" + "x" * 70_000 + "'",
}
TIMEOUT_S = 0.2


@dataclass
class Seen:
    """What asking one query took: of this process and of its worker, which is gone."""

    answer: QueryResult | Problem
    work_s: float
    worker: nursery.Used


def observed(field: Field, monkeypatch: pytest.MonkeyPatch, sql: str, **more: Any) -> Seen:
    """Processor time, as waiting on a busy machine costs nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(nursery, "used", worker := nursery.Used())
        patch.setattr(child, "may_fork", lambda: False)  # as where a test process has threads
        before = time.process_time()
        answer = field.attack(sql, **more)
        return Seen(answer, time.process_time() - before + worker.cpu_s, worker)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_time_within_bounds(field: Field, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = observed(field, monkeypatch, BOMBS[name], timeout_s=TIMEOUT_S, limit=1000)
    most = (TIMEOUT_S + 2) * (os.cpu_count() or 1)
    assert seen.work_s < most or seen.work_s < most * slowness()
    assert len(told(seen.answer)) < 300_000
    if name == "edit_distance":
        assert f"more than {TIMEOUT_S} s" in told(seen.answer), "it ignores interrupts, so it is killed"
    assert seen.worker.most_bytes < 4e9
    field.check(told(seen.answer))


def test_what_a_worker_takes_is_seen(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the bounds of bombs would hold whatever they did."""
    little = observed(field, monkeypatch, "SELECT 1", timeout_s=60).worker
    much = observed(field, monkeypatch, "SELECT len(list(range)) FROM range(20000000)", timeout_s=60)
    assert isinstance(much.answer, QueryResult), told(much.answer)
    assert much.worker.most_bytes > little.most_bytes + 120e6
    assert much.worker.cpu_s > little.cpu_s > 0 and much.work_s > much.worker.cpu_s


def test_a_hostile_tree_costs_the_server_little(field: Field) -> None:
    """Names that refer to each other must not make the parent, which looks at the tree, work exponentially."""
    nested = "SELECT 1 AS x"
    for _ in range(14):
        nested = f"WITH a AS ({nested}) SELECT * FROM a a1, a a2, a a3, a a4"
    with at_most(1):
        field.attack(nested, timeout_s=TIMEOUT_S)


# -- each layer holds alone -----------------------------------------------------------------------------


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize("name", ["read_text", "serialized_sql", "cte_delete"])
def test_the_worker_holds_even_if_the_parent_refuses_no_function(
    field: Field, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(query, "_refuse", lambda _: None)
    field.check(told(field.attack(REFUSED[name])))


@pytest.mark.usefixtures("as_users_have_it")
def test_the_system_forbids_files_even_if_duckdb_would_allow_them(field: Field, tmp_path: Path) -> None:
    """With DuckDB's own lock taken out of the worker, its limits on files are still there."""
    source = Path(sandbox.__file__).with_name("worker.py").read_text()
    source = source.replace("from ...", "from rooflens.").replace("from ..", "from rooflens.tools.")
    source = source.replace("from .statement", "from rooflens.tools.sql.statement")
    unlocked = source.replace('con.execute("SET enable_external_access = false")', "pass")
    assert unlocked != source
    (tmp_path / "weak_worker.py").write_text(unlocked)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.setattr(sandbox, "answer_query", importlib.import_module("weak_worker").answer_query)
        patch.setattr(query, "_refuse", lambda _: None)
        for sql in (REFUSED["read_text"], "SELECT * FROM read_csv('<SECRET>')", REFUSED["glob"]):
            answer = told(field.attack(sql))
            assert CANARY not in answer and "secret.parquet" not in answer


@pytest.mark.usefixtures("as_users_have_it")
def test_the_worker_sees_nothing_of_the_environment(field: Field) -> None:
    with sandbox.sandbox("SELECT 1", 5) as box:
        seen = Path(f"/proc/{box.child.pid}/environ").read_bytes() if sys.platform == "linux" else b""
        assert CANARY.encode() not in seen and str(field.home).encode() not in seen
        assert box.folder.is_dir() and box.child.receive()["tree"]
    assert not box.folder.exists()


def test_names_in_a_workload_are_data_and_no_sql(tmp_path: Path) -> None:
    import duckdb

    store, evil = Store(tmp_path / "store"), "x\" DOUBLE); DROP TABLE dispatches; --'"
    con = duckdb.connect()
    with store.draft() as folder:
        quoted = '"' + evil.replace('"', '""') + '"'
        select = f"SELECT range AS dispatch_id, 'k' AS kernel, 1.5 AS duration_ns, 5.0 AS {quoted} FROM range(3)"
        write_table(con, select, folder / "counters.parquet")
        made = Manifest(name=evil, format="test", counters=[evil], dispatches=3, tags=[evil], facts={evil: 1.0})
        store.publish(folder, made)
    found = query_counters(store, "SELECT * FROM counters").table
    assert found.columns[-1] == evil and [row[-1] for row in found.rows] == [5.0] * 3
    assert query_counters(store, "SELECT name, tags FROM workloads").table.rows == [[evil, evil]]
    assert query_counters(store, "SELECT fact FROM facts").table.rows == [[evil]]


def test_no_setting_of_the_database_tells_the_home_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    from rooflens.tools.sql import worker

    monkeypatch.setenv("HOME", f"/home/{CANARY}")
    con = worker._open_database(duckdb)
    rows = con.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    assert len(rows) > 50 and not [row for row in rows if CANARY in str(row)]
