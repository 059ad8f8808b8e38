"""Dispatch ids that a caller names: those that are not there, and those of other kernels, are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.tools.conftest import add_workload
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
        (None, "0-19", []),
        (None, [2], ["Dispatch ids start at 0: dispatch 2 is launch 3 of 20."]),
        (
            None,
            [2, 20],
            ["No dispatch 20: ids go from 0 to 19.", "Dispatch ids start at 0: dispatch 2 is launch 3 of 20."],
        ),
        (None, "0-9,18-25,30,40,50", ["No dispatch 20-25, 30, 40 and 1 more: ids go from 0 to 19."]),
        (
            "kernel_2",
            [2, 3],
            [
                "Skipped 1 of the dispatches named, which belong to other kernels.",
                "Dispatch ids start at 0: dispatch 2 is launch 3 and dispatch 3 is launch 4 of 20.",
            ],
        ),
        (None, f"1-{2**63 - 1}", [f"No dispatch 20-{2**63 - 1}: ids go from 0 to 19."]),
    ],
)
def test_ids_that_are_not_there_and_the_launches_that_a_few_are_get_a_note(opened, kernel, dispatches, told):
    assert [note.text for note in named_dispatch_notes(opened, opened.select(kernel, dispatches))] == told
