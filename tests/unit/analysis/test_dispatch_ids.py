"""Dispatch ids of callers: many cost no more than a few, and what is none is refused."""

from __future__ import annotations

import resource
from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.base.problems import BadArgument, LimitExceeded
from rooflens.analysis.store.dispatch_ids import MOST_RANGES, condition, ranges
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.analysis.workload import Workload
from rooflens.tests.support.waiting import at_most


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        (None, None),
        ([2, 0, 2, 1], [(0, 2)]),
        ("5, 7-9 ,6,1", [(1, 1), (5, 9)]),
        (f"0-{2**63 - 1}", [(0, 2**63 - 1)]),
        ("3 - 3", [(3, 3)]),
    ],
)
def test_ids_are_sorted_and_merged(given, merged):
    assert ranges(given) == merged


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "is empty"),
        ("", "cannot be read"),
        ([-1, 5], "below 0"),
        ("-1", "cannot be read"),
        ("5-2", "5-2 is a descending range"),
        ([2**63], f"above {2**63 - 1}"),
        ("9" * 5000, "cannot be read"),
        ([10**5000], "above"),
        ("\u0661", "cannot be read"),
        ("x" * 10_000_000, "cannot be read"),
    ],
)
def test_what_is_no_id_is_refused_in_few_words(given, told):
    with pytest.raises(BadArgument, match=told) as caught:
        ranges(given)
    assert len(caught.value.text) < 500


@pytest.mark.parametrize("given", [[1, 3, 4], "0-2,9", ",".join(f"{7 * i}-{7 * i + 2}" for i in range(90))])
def test_the_condition_is_true_for_exactly_these_ids(given):
    chosen = ranges(given)
    found = duckdb.sql(f"SELECT i FROM range(1000) t(i) WHERE {condition(chosen, 't.i')} ORDER BY i").fetchall()
    assert [i for (i,) in found] == [i for i in range(1000) if any(a <= i <= b for a, b in chosen)]


def test_wide_ranges_among_many_narrow_ones_reach_to_the_last_id():
    chosen = ranges(",".join(f"{3 * i}" for i in range(5000)) + f",20000-{2**63 - 1}")
    count = duckdb.execute(f"SELECT count(*) FROM range(30000) t(i) WHERE {condition(chosen, 'i')}").fetchall()
    assert count == [(5000 + 10_000,)]


def test_too_many_separate_ids_are_refused():
    with pytest.raises(LimitExceeded, match=f"{MOST_RANGES + 1} separate ranges"):
        ranges(range(0, 2 * MOST_RANGES + 2, 2))
    with pytest.raises(LimitExceeded, match="contain .* ids"):
        ranges(",".join(f"{100 * i}-{100 * i + 90}" for i in range(20_000)))
    assert ranges(range(3 * MOST_RANGES)) == [(0, 3 * MOST_RANGES - 1)]


@pytest.mark.parametrize("text", [False, True])
def test_many_ids_take_little_time_and_memory(text):
    given = list(range(100_000, 0, -1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most(2):
        assert ranges(",".join(map(str, given)) if text else given) == [(1, 100_000)]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_every_second_dispatch_of_many_is_selected_within_a_second(tmp_path: Path):
    store = Store(tmp_path)
    with store.draft() as folder:
        rows = "SELECT i AS dispatch_id, 'k' || i % 9 AS kernel, 1.0 AS duration_ns FROM range(300_000) t(i)"
        write_table(connect(), rows, folder / "dispatches.parquet")
        manifest = store.publish(folder, Manifest(name="many", format="test", dispatches=300_000))
    with Workload(store, manifest) as workload:
        with at_most(1.5):
            chosen = workload.select(None, list(range(0, 2 * MOST_RANGES, 2)))
            assert len(chosen.kernels) == 9
        count = workload.rows(
            f"SELECT count(*) FROM {workload.relation('dispatches')} d WHERE {chosen.condition('d')} "
        )
        assert count == [(MOST_RANGES,)]
