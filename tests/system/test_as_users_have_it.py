"""The product once without what tests change: fresh interpreters, DuckDB with its threads, SQL with its clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.base import database
from rooflens.analysis.base.problems import LimitExceeded
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support import nursery
from rooflens.tests.support.amd_node import Node
from rooflens.tests.support.recordings import stored
from rooflens.tools import query_counters as query
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.isolation import child, fork_server
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running import start

pytestmark = pytest.mark.usefixtures("as_users_have_it")
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000) b"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    stored(made, ROOT / "server" / "samples" / "yax_before", "yax")
    return made


def test_nothing_that_tests_change_is_changed(usual_threads: int, clock_of_sql: object) -> None:
    assert child.start_fresh is fork_server.start_fresh is nursery.start_fresh
    assert start.start_fresh is nursery.start_fresh_supervisor
    assert usual_threads == database._THREADS and query.sandbox is clock_of_sql


def test_a_query_is_answered_by_a_child_and_ends_in_its_time(store: Store) -> None:
    assert query_counters(store, "SELECT count(*) AS n FROM dispatches").table.rows[0][0] > 0
    with pytest.raises(LimitExceeded, match="1 s"):
        query_counters(store, ENDLESS, timeout_s=1)


def test_figures_are_computed_with_all_threads(store: Store) -> None:
    assert compute_metrics(store, "yax", ["dispatch.duration_ns", "l2.hit_rate_pct"]).table.rows


def test_a_run_has_a_supervisor_of_its_own_and_ends_in_a_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Node(tmp_path, monkeypatch).has().profile()
    assert run.state == "done" and run.workload
    start.stop_all()
