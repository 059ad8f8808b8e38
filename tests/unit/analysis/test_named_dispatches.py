"""Dispatch ids that a caller names: the launches that they are, and those that are not there, are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.small_store import add_workload
from rooflens.tools.answers.launch_notes import named_dispatch_notes


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory):
    """Twenty launches, ids from 0, of four kernels in turn."""
    folder: Path = tmp_path_factory.mktemp("named")
    store = Store(folder / "store")
    with Workload(store, add_workload(store, "w")) as workload:
        yield workload


@pytest.mark.parametrize(
    ("kernel", "dispatches", "told"),
    [
        (None, None, []),
        (None, "0-19", ["Launches used, counted from 1: 1-20 (ids 0-19)."]),
        (None, [2], ["Launches used, counted from 1: 3 (id 2); left out: 1-2 (ids 0-1), 4-20 (ids 3-19)."]),
        (None, "skip 1", ["Launches used, counted from 1: 5-20 (ids 4-19); left out: 1-4 (ids 0-3)."]),
        ("kernel_2", "skip 1", ["Launches used, counted from 1: 2-5 (ids 6-18); left out: 1 (id 2)."]),
        (
            None,
            "0-9,18-25,30,40,50",
            [
                "No dispatch 20-25, 30, 40 and 1 more: ids go from 0 to 19.",
                "Launches used, counted from 1: 1-10 (ids 0-9), 19-20 (ids 18-19); left out: 11-18 (ids 10-17).",
            ],
        ),
        (
            None,
            f"1-{2**63 - 1}",
            [
                f"No dispatch 20-{2**63 - 1}: ids go from 0 to 19.",
                "Launches used, counted from 1: 2-20 (ids 1-19); left out: 1 (id 0).",
            ],
        ),
    ],
)
def test_a_selection_states_its_launches_in_both_numberings_and_ids_that_are_not_there(
    opened, kernel, dispatches, told
):
    assert [note.text for note in named_dispatch_notes(opened, opened.select(kernel, dispatches))] == told


def test_skipping_leaves_out_the_first_launches_of_each_kernel(opened):
    assert opened.select(None, "skip 2").ranges == [(8, 19)]
    assert len(opened.select(None, "skip 2").kernels) == 4
    with pytest.raises(NotFound, match="'skip 5' leaves no launch of 'w'"):
        opened.select(None, "skip 5")
