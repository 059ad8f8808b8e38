"""Hot spots of a sample: a report joins the run for times by the mangled names that both state."""

from __future__ import annotations

import csv
import importlib.util
import shutil
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tools.import_profile import import_profile
from rooflens.tools.profiles.merging.matching import SAMPLE, CountingSample
from rooflens.tools.query_counters import query_counters

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="needs the package ncu-report (extra cuda)"
)
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC")
METRIC = "gpu__time_duration.sum"


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    """The folder of a run: times of every launch twice, under mangled names, and a report of the second ones."""
    folder = tmp_path / "run"
    for step in ("timing", "hotspots"):
        (folder / step).mkdir(parents=True)
    shutil.copy(recorded / "small.ncu-rep", folder / "hotspots" / "report.ncu-rep")
    (folder / "hotspots" / SAMPLE).write_text(CountingSample(1).text())
    import ncu_report  # type: ignore[import-not-found,unused-ignore]

    found = ncu_report.load_report(str(recorded / "small.ncu-rep"))[0]
    launches = [found.action_by_idx(i) for i in range(found.num_actions())]
    with (folder / "timing" / "raw.csv").open("w", newline="") as page:
        write = csv.writer(page, quoting=csv.QUOTE_ALL)
        write.writerow([*HEAD, METRIC])
        write.writerow([""] * len(HEAD) + ["ns"])
        for number, one in enumerate([*launches, *launches]):
            sizes = [
                "({}, {}, {})".format(*(one.metric_by_name(f"launch__{kind}_dim_{axis}").as_uint64() for axis in "xyz"))
                for kind in ("block", "grid")
            ]
            write.writerow([number, 1, "app", "node", one.name(one.NameBase_MANGLED), *sizes, 0, "9.0", 1000 + number])
    return folder


def test_launches_of_the_report_are_those_of_the_run_for_times(run: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    done = import_profile(store, str(run))
    assert (done.dispatches, done.kernels) == (10, 5), done.warnings
    passes = "SELECT name, dispatches, matched, unmatched FROM passes ORDER BY name"
    assert query_counters(store, passes, done.workload).table.rows == [["hotspots", 5, 5, 0], ["timing", 10, 10, 0]]
    columns = [c for c in store.resolve(done.workload).counters if c.startswith("sm__cycles_elapsed")]
    counted = f'SELECT dispatch_id, duration_ns FROM counters WHERE "{columns[0]}" IS NOT NULL ORDER BY 1'
    assert query_counters(store, counted, done.workload).table.rows == [[n, 1000 + n] for n in range(5, 10)]
