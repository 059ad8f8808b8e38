"""The experiment log: entries are only added, survive damage beside them, and tell what was tried on a kernel."""

from __future__ import annotations

import pytest

from rooflens.analysis.comparison.experiment_log import (
    ExperimentEntry,
    ExperimentOutcome,
    earlier_experiments,
    entries,
    record,
)
from rooflens.analysis.store.store import Store
from rooflens.tests.support.comparisons import launches, workload

KERNEL = "transpose_lds(float const*, float*, int)"


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("log"))
    workload(made, launches("k", [1e6]))
    return made


def noted(
    store: Store, change: str, *, hypothesis: str = "", kernel: str = KERNEL, verdict: str = "improved"
) -> ExperimentEntry:
    outcome = ExperimentOutcome(kernel=kernel, kernels=[kernel], verdict=verdict, speedup=1.4)
    return record(
        store,
        ExperimentEntry(
            kind="comparison", workload="b", baseline="a", hypothesis=hypothesis, change=change, outcomes=[outcome]
        ),
    )


def test_entries_come_back_in_the_order_in_which_they_were_made(store: Store) -> None:
    made = [noted(store, f"change {i}") for i in range(5)]
    assert entries(store) == made
    assert len({e.id for e in made}) == 5 and all(e.created_ns for e in made)


def test_files_that_are_no_entries_are_passed_over_and_the_store_stays_whole(store: Store) -> None:
    made = noted(store, "pad the tile")
    folder = store.root / "note"
    (folder / "0123456789abcdef.json").write_text("{broken")
    (folder / "0123456789abcdeg.json").write_bytes(b"\xff\xfe")
    (folder / "readme.json").write_text("{}")
    assert entries(store) == [made]
    assert store.scan()[1] == [], "the log is a part of a store"


def test_the_kernel_may_have_other_parameters_but_no_other_name(store: Store) -> None:
    noted(store, "pad the tile by one column")
    log = entries(store)
    assert [t.outcome.verdict for t in earlier_experiments(log, "void transpose_lds<64>(double*, int)")] == ["improved"]
    assert not earlier_experiments(log, "transpose_naive(float*)") and not earlier_experiments(
        log, "transpose_lds_padded(float*)"
    )


def test_a_kernel_renamed_by_a_change_is_found_by_both_names(store: Store) -> None:
    outcome = ExperimentOutcome(kernel="a -> b", kernels=["a_naive(int)", "b_tiled(int)"], verdict="improved")
    record(store, ExperimentEntry(kind="comparison", workload="b", baseline="a", change="tiles", outcomes=[outcome]))
    for name in ("a_naive(float)", "b_tiled<4>(int)"):
        assert [t.entry.change for t in earlier_experiments(entries(store), name)] == ["tiles"]


def test_the_newest_comes_first_whatever_its_words_are(store: Store) -> None:
    noted(store, "v2", hypothesis="bank conflicts vanish when the tile is padded", verdict="inconclusive")
    noted(store, "unroll the loop", verdict="improved")
    assert [t.outcome.verdict for t in earlier_experiments(entries(store), KERNEL)] == ["improved", "inconclusive"]
