"""The experiment log: entries are only added, survive damage beside them, and an idea is found again in other words."""

from __future__ import annotations

import pytest
from rooflens.analysis.experiments import Entry, Outcome, already_tried, entries, record
from rooflens.analysis.store import Store
from rooflens.tests.comparisons import launches, workload

KERNEL = "transpose_lds(float const*, float*, int)"


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("log"))
    workload(made, launches("k", [1e6]))
    return made


def tried(store: Store, change: str, *, hypothesis: str = "", kernel: str = KERNEL, verdict: str = "improved") -> Entry:
    outcome = Outcome(kernel=kernel, kernels=[kernel], verdict=verdict, speedup=1.4)
    return record(
        store,
        Entry(kind="comparison", workload="b", baseline="a", hypothesis=hypothesis, change=change, outcomes=[outcome]),
    )


def test_entries_come_back_in_the_order_in_which_they_were_made(store: Store) -> None:
    made = [tried(store, f"change {i}") for i in range(5)]
    assert entries(store) == made
    assert len({e.id for e in made}) == 5 and all(e.created_ns for e in made)


def test_a_store_without_a_log_has_no_entries(store: Store) -> None:
    assert entries(store) == [] and already_tried(store, KERNEL, "pad the tile") == []


def test_files_that_are_no_entries_are_passed_over_and_the_store_stays_whole(store: Store) -> None:
    made = tried(store, "pad the tile")
    folder = store.root / "note"
    (folder / "0123456789abcdef.json").write_text("{broken")
    (folder / "0123456789abcdeg.json").write_bytes(b"\xff\xfe")
    (folder / "readme.json").write_text("{}")
    assert entries(store) == [made]
    assert store.scan()[1] == [], "the log is a part of a store"


@pytest.mark.parametrize(
    "idea",
    [
        "Pad the LDS tile by one column",
        "pad the shared memory tile by one column",
        "padding of the tile: one more column in LDS",
        "padded tile",
    ],
)
def test_the_same_idea_is_found_in_other_words(store: Store, idea: str) -> None:
    tried(store, "padded the tile in shared memory by one column (33 instead of 32)")
    assert [t.outcome.verdict for t in already_tried(store, KERNEL, idea)] == ["improved"]


@pytest.mark.parametrize("idea", ["unroll the inner loop four times", "use fewer registers", "", "tile"])
def test_another_idea_is_not_taken_for_it(store: Store, idea: str) -> None:
    tried(store, "vectorised the loads with float4")
    assert already_tried(store, KERNEL, idea) == []


def test_the_kernel_may_have_other_parameters_but_no_other_name(store: Store) -> None:
    tried(store, "pad the tile by one column")
    assert already_tried(store, "void transpose_lds<64>(double*, int)", "pad tile column")
    assert not already_tried(store, "transpose_naive(float*)", "pad tile column")


def test_the_newest_comes_first_and_the_hypothesis_counts_too(store: Store) -> None:
    tried(store, "v2", hypothesis="bank conflicts vanish when the tile is padded", verdict="inconclusive")
    tried(store, "pad the tile against bank conflicts", verdict="improved")
    found = already_tried(store, KERNEL, "pad the tile: bank conflicts")
    assert [t.outcome.verdict for t in found] == ["improved", "inconclusive"]
