"""What an answer's text calls a kernel finds that kernel when it is asked for again."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import DATA
from rooflens.tests.support.recordings import KERNELS, stored
from rooflens.tools.import_profile import import_profile
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.rendering import render

NAMES = DATA / "h200_training_step_kernels.txt"
LAUNCH = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
          "Grid Size", "Device", "CC")  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with a page of ncu: one launch of each kernel of a training step."""
    folder = tmp_path_factory.mktemp("names")
    with (folder / "raw.csv").open("w", newline="") as file:
        page = csv.writer(file, quoting=csv.QUOTE_ALL)
        page.writerow([*LAUNCH, "gpu__time_duration.sum"])
        page.writerow(["" for _ in LAUNCH] + ["ns"])
        for i, name in enumerate(NAMES.read_text().splitlines()):
            page.writerow([i, 495, "python", "node", name, 1, 7, "(256, 1, 1)", "(8, 1, 1)", 0, "9.0", 9000 - 10 * i])
    store = Store(folder / "store")
    import_profile(store, str(folder / "raw.csv"))
    return store


def test_every_kernel_of_a_training_step_is_found_by_its_shown_name(store: Store) -> None:
    listed = list_workloads(store, "latest", limit=100)
    names = [row[1] for row in listed.table.rows]
    rows = render.text(listed).split("rank | kernel", 1)[1].split("\n\n")[0].splitlines()[2:]
    shown = [row.split(" | ")[1] for row in rows if " | " in row]
    assert len(shown) == len(set(shown)) == len(names) == 43
    assert max(map(len, shown)) <= 80 < max(map(len, names))
    with Workload.open(store, "latest") as opened:
        assert [opened.select(name).kernels for name in shown] == [[name] for name in names]


def test_a_shown_name_between_anchors_is_found(tmp_path: Path) -> None:
    with Workload(store := Store(tmp_path), stored(store, KERNELS)) as opened:
        (found,) = opened.select("^stream_triad$").kernels
        assert found.startswith("stream_triad(")
        with pytest.raises(NotFound):
            opened.select("^stream_tria$")
