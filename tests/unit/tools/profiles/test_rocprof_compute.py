"""Workload folders of omniperf and rocprof-compute in every layout that occurs."""

from __future__ import annotations

import csv
import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rooflens.analysis.diagnosis.findings import diagnose
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.made.rocprofv3_samples import LAUNCHES, SAMPLES, as_json
from rooflens.tests.support.recordings import stored
from rooflens.tools.import_profile import import_profile
from rooflens.tools.list_workloads import list_workloads


def test_single_replays_without_a_joined_file_are_joined_by_key(bench, shared):
    folder = bench.folder / "vcopy" / "MI350"
    shutil.copytree(shared / "workloads" / "vcopy" / "MI350", folder, ignore=shutil.ignore_patterns("pmc_perf.csv"))
    whole, single = stored(bench.store, shared / "workloads" / "vcopy" / "MI350"), bench.load(folder)
    joined = single.model_copy(update={"workload": whole.id})
    assert single.passes == 13 and single.passes_unmatched == 0 and single.dispatches == 3
    plain = [c for c in whole.counters if "@" not in c]
    assert set(plain) <= set(bench.manifest(single).counters)
    columns = ", ".join(f'"{counter}"' for counter in plain)
    assert bench.rows(joined, "counters", columns) == bench.rows(single, "counters", columns)
    instances = "dispatch_id, counter, xcd, instance, value"
    assert bench.rows(joined, "counter_instances", instances) == bench.rows(single, "counter_instances", instances)


def test_own_files_of_a_folder_mean_the_workload_and_options_tell_its_name(bench):
    folder = bench.workload("root/MI200", SQ_WAVES=[16])
    bench.sysinfo("root/MI200", workload_name="path")
    done = bench.load(folder / "sysinfo.csv")
    assert (done.format, done.name, done.dispatches) == ("rocprof-compute", "root/MI200", 1)
    bench.sysinfo("root/MI200", version="", workload_name="")
    options = "format_rocprof_output: csv\nkernel: vecCopy\ndispatch: null\nname: mine\n"
    (folder / "profiling_config.yaml").write_text(options)
    assert bench.load(folder).name == "mine"


def test_samples_beside_counters_are_those_of_the_launches_that_their_run_repeats(bench):
    """Of three launches counted, the run for samples has the last two, by other numbers and in another order."""
    grids = [32, 128, 64]
    folder = bench.workload(SQ_WAVES=[16, 32, 64], Kernel_Name=["dots.kd"] * 3, Grid_Size=grids)
    as_json(folder / "ps_file_results.json", LAUNCHES, SAMPLES)
    done = bench.load(folder)
    assert (done.samples, done.counters, done.dispatches) == (1000, 1, 3)
    size = {i: (grid, launch) for i, grid, launch in bench.rows(done, "dispatches", "dispatch_id, grid, launch")}
    found = bench.rows(done, "samples", "dispatch_id, launch, CAST(sum(count) OVER (PARTITION BY dispatch_id) AS INT)")
    assert {(size[i][0], n) for i, _, n in found} == {(64, 700), (128, 300)}
    assert all(size[i][1] == launch for i, launch, _ in found)
    code = bench.rows(done, "instructions", "kernel, launch")
    assert set(code) == {("dots", launch) for grid, launch in size.values() if grid != 32}
    (folder / "ps_file_results.json").write_text('{"rocprofiler-sdk-tool": [{"buffer_records"')
    done = bench.load(folder)
    assert done.samples == 0 and any("Its samples were skipped" in warning for warning in done.warnings)


def test_samples_of_many_processes_are_one_profile(bench):
    """Since 3.9, each process has a file with its pid."""
    folder = bench.folder / "app" / "MI300X"
    folder.mkdir(parents=True)
    for pid in (31, 4711):
        as_json(folder / f"{pid}_ps_file_results.json", replace(LAUNCHES, pid=pid), SAMPLES)
    bench.sysinfo(folder.relative_to(bench.folder))
    done = bench.load(folder)
    assert done.samples == 2000 and done.warnings == []
    launches = dict(bench.rows(done, "dispatches", "dispatch_id, pid"))
    sums = {31: 0, 4711: 0}
    for number, count in bench.rows(done, "samples", "dispatch_id, count"):
        sums[launches[number]] += count
    assert sums == {31: 1000, 4711: 1000}


def test_samples_of_another_process_beside_csv_files_are_named(bench):
    folder = bench.workload(SQ_WAVES=[16, 32, 64], Kernel_Name=["dots.kd"] * 3, Grid_Size=[32, 128, 64])
    for pid in (31, 4711):
        as_json(folder / f"{pid}_ps_file_results.json", replace(LAUNCHES, pid=pid), SAMPLES)
    done = bench.load(folder)
    assert done.samples == 1000
    assert any("4711_ps_file_results.json holds samples of another process" in text for text in done.warnings)


@pytest.mark.parametrize(("other", "suspect"), [(25_000, False), (40_000, True)])
def test_times_are_suspect_where_passes_differ_more_than_threefold(bench, other, suspect):
    folder = bench.workload(SQ_WAVES=[16, 16], Start_Timestamp=[5, 5], End_Timestamp=[10_005, 10_005])
    bench.workload(file="timestamps.csv", Start_Timestamp=[5, 5], End_Timestamp=[other + 5, other + 5])
    done = bench.load(folder)
    assert any(w.startswith("pass_times: ") and "took up to 4 times as long" in w for w in done.warnings) == suspect
    (time,) = list_workloads(bench.store, done.workload).table.records()
    assert (time["status"], "4-fold" in (time["reason"] or "")) == (("suspect", True) if suspect else ("ok", False))


RECORDING = ROOT / "eval" / "interventions" / "h200_counters.csv.gz"
UNEVEN, EVEN = "s2k096", "s2k016"


def test_uneven_replays_are_named_and_make_the_verdict_of_their_launch_unsure(tmp_path: Path) -> None:
    """Two recorded launches of an H200."""
    with gzip.open(RECORDING, "rt", newline="") as text:
        head, units, *launches = csv.reader(text)
    name = head.index("Kernel Name")
    with (tmp_path / "page.csv").open("w", newline="") as text:
        kept = [row for row in launches if row[name] in (UNEVEN, EVEN)]
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([head, units, *kept])
    store = Store(tmp_path / "store")
    import_profile(store, str(tmp_path / "page.csv"), name="two")
    manifest = store.resolve("two")
    (told,) = [w.text for w in manifest.warnings if w.code == "uneven_replays"]
    assert UNEVEN in told and EVEN not in told and "48 %" in told
    verdicts = {one.kernel: one.verdict for one in diagnose(Workload(store, manifest))[0]}
    uneven, even = verdicts[UNEVEN], verdicts[EVEN]
    assert uneven.confidence < 0.7
    assert "replays of this launch differ in duration by 48 %" in str(uneven.doubt)
    assert even.doubt is None
