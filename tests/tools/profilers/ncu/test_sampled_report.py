"""Hot spots of a sample: a report joins the run for times by the mangled names that both state."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import shutil
from pathlib import Path

import pytest
from rooflens.analysis.store import Store
from rooflens.tools.import_profile import import_profile
from rooflens.tools.profilers.tables.sample import SAMPLE, Sampled
from rooflens.tools.query_counters import query_counters

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="needs the package ncu-report (extra cuda)"
)
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC")
METRIC = "gpu__time_duration.sum"


@pytest.fixture
def run(shared: Path, tmp_path: Path) -> Path:
    """The folder of a run: times of four launches each, as ncu pages state them, and a report of the last two."""
    recorded = shared / "source_lines" / "labelled.ncu-rep.gz"
    if not recorded.is_file():
        pytest.skip("needs ../shared/source_lines")
    folder = tmp_path / "run"
    for step in ("timing", "hotspots"):
        (folder / step).mkdir(parents=True)
    with gzip.open(recorded) as packed, (folder / "hotspots" / "report.ncu-rep").open("wb") as report:
        shutil.copyfileobj(packed, report)
    (folder / "hotspots" / SAMPLE).write_text(Sampled(2).text())
    import ncu_report  # type: ignore[import-not-found,unused-ignore]

    found = ncu_report.load_report(str(folder / "hotspots" / "report.ncu-rep"))[0]
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
            name = one.name(one.NameBase_MANGLED)
            write.writerow([number, 1, "app", "node", name, *sizes, 0, "9.0", 1000 + number])
    return folder


def test_launches_and_samples_of_the_report_are_those_of_the_run_for_times(run: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    done = import_profile(store, str(run))
    assert (done.dispatches, done.kernels) == (16, 4), done.warnings
    passes = "SELECT name, dispatches, matched, unmatched FROM passes ORDER BY name"
    assert query_counters(store, passes, done.workload).table.rows == [["hotspots", 8, 8, 0], ["timing", 16, 16, 0]]
    sql = (
        "SELECT count(DISTINCT d.dispatch_id), count(DISTINCT d.kernel), min(d.duration_ns) FROM samples s "
        "JOIN dispatches d USING (workload, dispatch_id) WHERE s.kernel = d.kernel AND s.launch = d.launch"
    )
    ((launches, kernels, least),) = query_counters(store, sql, done.workload).table.rows
    assert kernels == 4 and launches >= 4 and least >= 1000
    (lined,) = query_counters(store, "SELECT min(source_line) > 0 FROM samples", done.workload).table.rows[0]
    assert lined
