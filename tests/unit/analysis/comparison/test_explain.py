"""The change of time as a sum: it adds up exactly, missing counters leave terms out, bytes count where they bind."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflens.analysis.comparison.compare import ComparedPair, clocks, compare
from rooflens.analysis.comparison.explain import envelope
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import flop, launches, traffic, workload

OCCUPIED = {"GRBM_GUI_ACTIVE": 1.5e6, "SQ_LEVEL_WAVES_ACCUM": 1.5e6 * 1000}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("explained"))


def pair(store: Store, before: dict[str, float], after: dict[str, float], **stated: float) -> ComparedPair:
    """One kernel with six launches of 2 ms, then six of 1 ms unless stated."""
    times = [[stated.get(side, default)] * 6 for side, default in (("before_ns", 2e6), ("after_ns", 1e6))]
    made = [workload(store, launches("k", t, **c)) for t, c in zip(times, (before, after), strict=True)]
    return compare(*(Workload(store, m) for m in made)).pairs[0]


def added(found: ComparedPair) -> tuple[float, float]:
    """The sum of the terms and the change of the total time, in ns."""
    total = found.after.time_ns * found.after.rounds - found.before.time_ns * found.before.rounds
    return sum(t.delta_ns for t in found.terms), total


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=8).filter(
        lambda t: max(x[0] for x in t) > 1e-3 and max(x[1] for x in t) > 1e-3
    )
)
def test_the_shares_of_resources_add_up_to_the_change_of_the_greatest(times: list[tuple[float, float]]) -> None:
    shares = envelope(times)
    assert shares is not None
    whole = math.log(max(t[1] for t in times) / max(t[0] for t in times))
    assert sum(shares) == pytest.approx(whole, abs=1e-9, rel=1e-9)


def test_a_resource_that_never_binds_gets_nothing_and_a_switch_is_shared() -> None:
    assert envelope([(10.0, 5.0), (1.0, 4.9)]) == [pytest.approx(math.log(0.5)), 0.0]
    shares = envelope([(10.0, 0.0), (0.0, 10.0)])
    assert shares == [pytest.approx(-math.log(2)), pytest.approx(math.log(2))]
    assert envelope([(0.0, 0.0)]) is None


def test_terms_add_up_exactly_for_any_counters(store: Store) -> None:
    rng = random.Random(11)
    for _ in range(2):
        sides = [
            traffic(rng.uniform(0.1, 3)) | flop(rng.uniform(1e8, 1e11))
            | {"GRBM_GUI_ACTIVE": rng.uniform(1e6, 3e6), "SQ_LEVEL_WAVES_ACCUM": rng.uniform(1e8, 1e10)}
            for _ in range(2)
        ]  # fmt: skip
        found = pair(store, *sides, after_ns=rng.uniform(2e5, 9e6))
        total, change = added(found)
        assert total == pytest.approx(change, rel=1e-9)
        assert math.prod(t.factor for t in found.terms) == pytest.approx(found.after.time_ns / found.before.time_ns)


def test_half_the_bytes_at_one_rate_explain_half_the_time(store: Store) -> None:
    found = pair(store, traffic(2), traffic(1))
    assert {t.name: round(t.delta_ns) for t in found.terms} == {"hbm_bytes": -6_000_000, "achieved rate": 0}


def test_occupancy_and_clock_are_terms_of_their_own_where_counted(store: Store) -> None:
    faster = OCCUPIED | {"SQ_LEVEL_WAVES_ACCUM": 1.5e6 * 2000}
    found = pair(store, traffic(1) | OCCUPIED, traffic(1) | faster)
    terms = {t.name: t for t in found.terms}
    assert list(terms) == ["hbm_bytes", "occupancy", "clock", "achieved rate per wave"]
    assert (terms["occupancy"].before, terms["occupancy"].after) == (pytest.approx(1000), pytest.approx(2000))
    assert terms["occupancy"].factor == pytest.approx(0.5)
    assert terms["clock"].factor == pytest.approx(0.5), "as many cycles in half the time: twice the clock"
    assert [one[1:] for one in clocks(found.before, found.after)] == [(750, 1500, "MHz")]


def test_without_counters_everything_is_unexplained_but_the_launches(store: Store) -> None:
    before = workload(store, launches("k", [2e6] * 6))
    after = workload(store, launches("k", [1e6] * 3))
    found = compare(Workload(store, before), Workload(store, after)).pairs[0]
    assert [t.name for t in found.terms] == ["launches", "unexplained"]
    assert [t.factor for t in found.terms] == [pytest.approx(0.5), pytest.approx(0.5)]
    assert added(found)[0] == pytest.approx(added(found)[1], rel=1e-12)


def test_a_counter_that_one_side_lacks_is_no_term(store: Store) -> None:
    found = pair(store, traffic(1) | OCCUPIED, OCCUPIED)
    assert [t.name for t in found.terms] == ["unexplained"]


def test_without_a_device_bytes_are_still_a_term(store: Store) -> None:
    made = [workload(store, launches("k", [t] * 6, **traffic(g)), facts={}) for t, g in ((2e6, 2), (1e6, 1))]
    assert [t.name for t in compare(*(Workload(store, m) for m in made)).pairs[0].terms] == [
        "hbm_bytes",
        "achieved rate",
    ]
