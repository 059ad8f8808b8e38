"""Every recorded folder of rocprof-compute 3.4 to 3.8 is read whole: its launches, counters and passes are compared
with what its files hold."""

from __future__ import annotations

import csv
import re
import shutil
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.engine.compile import FormulaScope
from rooflens.analysis.workload import Workload
from rooflens.tests.support.bench import Bench
from rooflens.tests.support.figures import evaluate
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.import_profile import ImportResult
from rooflens.tools.profiles.rocprof_compute.read import read_options
from rooflens.tools.query_counters import query_counters

LONG = (  # folder, target, passes, launches, kernels
    ("torch_trace__MI300X_A1", "gfx942", 1, 20, 11),
    ("vcopy__MI100", "gfx908", 12, 3, 1),
)
FURTHER_LONG = (  # tests/oracle takes these
    ("ipblocks_CU__RDNA35_HALO", "gfx1151", 4, 3, 1),
    ("kernel__MI200", "gfx90a", 13, 3, 1),
    ("mem_levels_HBM__MI200", "gfx90a", 13, 3, 1),
    ("path__MI100", "gfx908", 12, 3, 1),
    ("vcopy__MI200", "gfx90a", 13, 3, 1),
    ("vcopy__RDNA35_HALO", "gfx1151", 10, 3, 1),
    ("vcopy_iteration_multiplexing__MI350", "gfx950", 1, 20, 1),
)
WIDE = (("vcopy__MI300A_A1", "gfx942", 7, 3),)
"""A row per launch, as earlier releases wrote it."""
FURTHER_WIDE = (
    ("join_type_kernel__MI300X_A1", "gfx942", 7, 3),
    ("vcopy__MI350", "gfx950", 6, 3),
)
LONG_FORM = ("Counter_Name", "Counter_Value")


def folder(shared: Path, name: str) -> Path:
    """A folder of the recordings."""
    if not (found := shared / "workloads38" / name).is_dir():
        pytest.skip(f"needs {found}")
    return found


class Recorded(Bench):
    """A bench that imports each recorded folder once."""

    def __init__(self, place: Path, shared: Path) -> None:
        super().__init__(place)
        self.shared = shared
        self.known: dict[str, ImportResult] = {}

    def load_once(self, name: str) -> ImportResult:
        """The recorded folder of this name, imported."""
        if name not in self.known:
            self.known[name] = self.load(folder(self.shared, name))
        return self.known[name]


@pytest.fixture(scope="module")
def recorded(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The bench of a module's tests that only read what is imported."""
    return Recorded(tmp_path_factory.mktemp("recorded"), shared)


def values(path: Path) -> dict[str, dict[tuple[str, int], float]]:
    """Counter -> (kernel, ordinal of the launch in its process) -> value, as the files of a folder state them."""
    files = sorted(path.glob("results_pmc_perf_*.csv")) or [path / "pmc_perf.csv"]
    found: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    for file in files:
        with file.open() as handle:
            rows = list(csv.DictReader(handle))
        launches: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            if int(row["Dispatch_ID"]) not in (known := launches[row["Kernel_Name"]]):
                known.append(int(row["Dispatch_ID"]))
        for row in rows:
            ordinal = sorted(launches[row["Kernel_Name"]]).index(int(row["Dispatch_ID"]))
            found[row["Counter_Name"]][row["Kernel_Name"], ordinal] = float(row["Counter_Value"])
    return found


@pytest.mark.parametrize("long", LONG, ids=lambda row: row[0])
def test_a_folder_just_profiled_holds_every_value_of_its_files(recorded, long):
    check_values(recorded, *long)


def check_values(recorded, name, arch, passes, launches, kernels):
    """Fail if a counter of a folder is not in the store with the values of its files."""
    done = recorded.load_once(name)
    assert (done.format, done.arch) == ("rocprof-compute", arch)
    assert (done.passes, done.passes_unmatched, done.dispatches, done.kernels) == (passes, 0, launches, kernels)
    stated = values(folder(recorded.shared, name))
    counters = [c for c in stated if "[" not in c]
    assert sorted(recorded.manifest(done).counters) == sorted(counters)
    place = recorded.rows(done, "dispatches", "dispatch_id, kernel_raw, ordinal")
    columns = ", ".join(f'"{counter}"' for counter in counters)
    ours = {number: held for number, *held in recorded.rows(done, "counters", f"dispatch_id, {columns}")}
    for number, kernel, ordinal in place:
        theirs = [stated[counter].get((kernel, ordinal - 1)) for counter in counters]
        assert dict(zip(counters, ours[number], strict=True)) == dict(zip(counters, theirs, strict=True)), number
    listed = sum(len(stated[c]) for c in stated if "[" in c)
    held = recorded.rows(done, "counter_instances", "count(*)")[0][0] if listed else 0
    assert held == listed


@pytest.mark.parametrize("wide", WIDE, ids=lambda row: row[0])
def test_a_folder_with_a_row_per_launch_is_read_as_before(recorded, shared, wide):
    check_passes(recorded, *wide)


def check_passes(recorded, name, arch, passes, launches):
    """Fail if a folder with a row per launch has other passes and launches."""
    done = recorded.load_once(name)
    assert (done.arch, done.passes, done.passes_unmatched, done.dispatches) == (arch, passes, 0, launches)


def test_a_new_sysinfo_states_the_series_and_the_channels_of_memory(recorded):
    manifest = recorded.manifest(recorded.load_once("vcopy__MI200"))
    assert manifest.device == "MI210" and manifest.facts["num_hbm_channels"] == 32
    assert manifest.command == "./tests/vcopy -n 1048576 -b 256 -i 3" and manifest.tool_version == "7.3.0"
    assert manifest.name.partition(" (")[0] == "vcopy"


def test_the_times_are_those_of_the_pass_with_which_the_joined_file_starts(recorded):
    for name, first in (("vcopy__MI100", "SQC_DCACHE_INFLIGHT_LEVEL"), ("vcopy__MI200", "pmc_perf_0")):
        done = recorded.load_once(name)
        assert recorded.column(done, "passes", "name")[0] == first
    assert recorded.column(done, "dispatches", "duration_ns") == [19200, 16320, 16320]


def test_a_row_per_counter_keeps_when_each_launch_began(recorded):
    done = recorded.load_once("torch_trace__MI300X_A1")
    with (folder(recorded.shared, "torch_trace__MI300X_A1") / "pmc_perf.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    times = {int(line["Dispatch_ID"]): (int(line["Start_Timestamp"]), int(line["End_Timestamp"])) for line in lines}
    began, ended = (recorded.column(done, "dispatches", name) for name in ("start_ns", "end_ns"))
    assert list(zip(began, ended, strict=True)) == [times[number] for number in sorted(times)]


def test_without_a_joined_file_the_pass_of_the_busy_cycles_gives_the_times(recorded):
    done = recorded.load_once("kernel__MI200")
    assert recorded.column(done, "passes", "name")[0] == "SQC_DCACHE_INFLIGHT_LEVEL"
    assert any("filtered by kernel (vecCopy)" in note for note in done.notes)


def test_a_joined_file_alone_is_taken_apart_into_its_runs(recorded):
    whole = recorded.load_once("vcopy__MI100")
    alone = recorded.folder / "alone" / "MI100"
    alone.mkdir(parents=True)
    for file in ("pmc_perf.csv", "sysinfo.csv"):
        shutil.copy(folder(recorded.shared, "vcopy__MI100") / file, alone)
    done = recorded.load(alone)
    assert (done.passes, done.passes_unmatched, done.counters) == (12, 0, whole.counters)
    columns = "GRBM_GUI_ACTIVE, SQ_LEVEL_WAVES_ACCUM, TCC_EA0_WRREQ_sum, duration_ns"
    assert recorded.rows(done, "counters", columns) == recorded.rows(whole, "counters", columns)


def test_old_and_new_names_of_a_counter_answer_alike_in_metrics_and_sql(recorded):
    done = recorded.load_once("vcopy__MI100")
    assert {"TCC_EA0_RDREQ_sum", "SQ_LEVEL_WAVES_ACCUM"} <= set(recorded.manifest(done).counters)
    manifest = recorded.manifest(done)
    with Workload(recorded.store, manifest) as opened:
        scope = FormulaScope(opened, has_instances=False)
        assert scope.column("TCC_EA_RDREQ_sum") == 'w."TCC_EA0_RDREQ_sum"'
    both = 'tcc_ea_rdreq_sum, TCC_EA0_RDREQ_sum, "SQ_ACCUM_PREV_HIRES@SQ_LEVEL_WAVES", SQ_LEVEL_WAVES_ACCUM'
    found = query_counters(recorded.store, f"SELECT {both} FROM counters ORDER BY dispatch_id", manifest.id).table.rows
    assert len(found) == 3 and all(a == b and c == d and None not in (a, c) for a, b, c, d in found)
    listed = query_counters(recorded.store, "SELECT * FROM counters LIMIT 1", manifest.id).table.columns
    assert "TCC_EA_RDREQ_sum" not in listed and "TCC_EA0_RDREQ_sum" in listed


def test_sql_over_workloads_of_different_spelling_fills_either_column(bench):
    older = bench.workload("old/MI100", TCC_EA_RDREQ_sum=[7, 7])
    newer = bench.workload("new/MI100", TCC_EA0_RDREQ_sum=[9, None])
    for name in ("old", "new"):
        bench.sysinfo(f"{name}/MI100", gpu_arch="gfx908", gpu_model="MI100")
    bench.load(older, name="old"), bench.load(newer, name="new")
    sql = "SELECT TCC_EA_RDREQ_sum, TCC_EA0_RDREQ_sum FROM counters ORDER BY 1 NULLS LAST"
    assert query_counters(bench.store, sql).table.rows == [[7, 7], [7, 7], [9, 9], [None, None]]


def test_processes_of_one_pass_stay_apart(bench):
    rows = [
        (run, d, counter, value + d)
        for run, value in (("b-1", 10), ("a-2", 20))
        for d in (0, 1)
        for counter in ("SQ_WAVES", "SQ_BUSY_CYCLES")
    ]
    header = ["GUID", "Dispatch_ID", "Kernel_Name", "GPU_ID", "Grid_Size", "Workgroup_Size", *LONG_FORM]
    lines: list[list[Any]] = [[run, d, "k", 2, 64, 64, counter, value] for run, d, counter, value in rows]
    bench.csv("two/MI200/results_pmc_perf_0.csv", header, lines)
    bench.csv("two/MI200/results_pmc_perf_1.csv", header, [[*r[:6], "TCC_HIT_sum", r[7] * 2] for r in lines[::2]])
    bench.sysinfo("two/MI200")
    done = bench.load(bench.folder / "two")
    assert (done.dispatches, done.passes, done.passes_unmatched) == (4, 2, 0)
    assert sorted(bench.rows(done, "counters", "SQ_WAVES, TCC_HIT_sum")) == [(10, 20), (11, 22), (20, 40), (21, 42)]


def test_databases_that_were_kept_are_read_with_what_sysinfo_states(bench, shared):
    database = next(iter(sorted((shared / "rocprofv3").rglob("*_results.db"))), None)
    if database is None:
        pytest.skip("needs a rocpd database")
    kept = bench.folder / "kept" / "MI200"
    kept.mkdir(parents=True)
    shutil.copy(database, kept / "pmc_perf_0_results.db")
    bench.sysinfo("kept/MI200")
    done, plain = bench.load(bench.folder / "kept"), bench.load(database)
    assert (done.format, done.arch, done.dispatches) == ("rocprof-compute", "gfx90a", plain.dispatches)
    assert bench.manifest(done).facts["max_sclk"] == 1700


def test_a_folder_of_pc_samples_alone_gives_its_launches_and_the_sample_shown(recorded):
    done = recorded.load_once("vcopy_pc_sampling_only__MI300A_A1")
    assert (done.format, done.arch, done.dispatches, done.counters) == ("rocprof-compute", "gfx942", 3, 0)
    columns = 'dispatch_id, kernel, "offset", instruction, source_line, stall_reason, stall_raw, issued, count'
    kernel = "vecCopy(double*, double*, double*, int, int)"
    wait = "s_waitcnt vmcnt(0)"
    assert recorded.rows(done, "samples", columns) == [
        (3, kernel, 0x1F68, wait, None, "memory", "WAITCNT", False, 1)
    ]  # fmt: skip
    assert recorded.rows(done, "instructions", 'kernel, "offset", instruction, class') == [
        (kernel, 0x1F68, wait, "wait")
    ]
    manifest = recorded.manifest(done)
    assert manifest.samples == 1
    # The folder's options: stochastic sampling, whose intervals are cycles.
    assert manifest.facts["pc_sampling_interval_cycles"] == 1_048_576
    sql = "SELECT value FROM facts WHERE fact = 'pc_sampling_interval_cycles'"
    assert query_counters(recorded.store, sql, str(done.workload)).table.rows == [[1_048_576]]
    (few, *_) = find_hotspots(recorded.store, str(done.workload)).notes
    assert "1 sample is not enough" in few and "a shorter interval than 1,048,576 cycles" in few
    assert "pc_sampling_interval_us" not in manifest.facts and manifest.facts["num_xcd"] > 1


def test_the_result_of_an_analysis_is_named_with_what_to_import_instead(bench):
    file = bench.folder / "rocprof_compute_8d1c.db"
    with sqlite3.connect(file) as con:
        con.execute("CREATE TABLE compute_workload (workload_id INTEGER, name TEXT)")
        con.execute("CREATE TABLE compute_metric_definition (metric_id TEXT)")
    with pytest.raises(BadInput, match=r"rocprof-compute analyze.*import the folder that was analysed"):
        bench.load(file)


def test_options_are_read_as_the_profiler_writes_them(tmp_path):
    (tmp_path / "profiling_config.yaml").write_text(
        "device: 0\ndispatch: null\nfilter_blocks:\n- '7'\n- 11.2\nkernel: []\nname: 'a b'\n"
        "remaining: ./long program\n  with a second line\nquiet: false\n"
    )
    assert read_options(tmp_path) == {
        "device": "0", "filter_blocks": "7, 11.2", "name": "a b", "remaining": "./long program with a second line",
    }  # fmt: skip


def test_launches_that_took_turns_keep_their_counters_and_give_figures_together(recorded):
    done = recorded.load_once("vcopy_iteration_multiplexing__MI350")
    manifest = recorded.manifest(done)
    assert manifest.multiplexed == "kernel"
    assert any("each launch collected some of the 313 counters in turn, 5 % of all" in note for note in done.notes)
    waves = recorded.column(done, "counters", "SQ_WAVES")
    assert [i for i, value in enumerate(waves) if value is not None] == [13] and waves[13] == 16384
    figures = {f.name: f for f in evaluate(recorded.store, done.workload, ["l2.hit_rate_pct", "dispatch.duration_ns"])}
    hits, misses = (
        next(v for v in recorded.column(done, "counters", name) if v is not None)
        for name in ("TCC_HIT_sum", "TCC_MISS_sum")
    )
    rate = figures["l2.hit_rate_pct"]
    assert rate.value == pytest.approx(100 * hits / (hits + misses)) and rate.over.combined
    assert figures["dispatch.duration_ns"].n == 20 and figures["dispatch.duration_ns"].value == 4858
    noted = compute_metrics(recorded.store, done.workload).notes
    assert any("combine counters of different launches" in note for note in noted)


def test_a_kernel_with_too_few_launches_for_its_turns_is_named(bench):
    header = ["Dispatch_ID", "Kernel_Name", "GPU_ID", "Grid_Size", "Workgroup_Size", *LONG_FORM]
    turns = [("long", "SQ_WAVES"), ("long", "TCC_HIT_sum"), ("short", "SQ_WAVES"), ("long", "SQ_WAVES")]
    rows = [[i, kernel, 2, 64, 64, counter, i + 1] for i, (kernel, counter) in enumerate(turns)]
    file = bench.csv("turns/MI200/pmc_perf.csv", header, rows)
    bench.sysinfo("turns/MI200")
    (file.parent / "profiling_config.yaml").write_text("iteration_multiplexing: kernel\n")
    done = bench.load(bench.folder / "turns")
    (told,) = [w for w in done.warnings if "too few launches" in w]
    assert "short (1 launch, 1 of 2 counters never)" in told and "long" not in told


def test_added_cycles_are_found_and_percentages_given_by_time(recorded):
    done = recorded.load_once("torch_trace__MI300X_A1")
    (told,) = [w for w in done.warnings if w.startswith("clock")]
    assert "a fit over 20 launches" in told and "do not trust" not in told
    assert 15_000 < int(re.search(r"adds about (\d+) cycles", told)[1]) < 25_000
    metrics = ["salu.utilization_pct", "dispatch.duration_ns", "dispatch.gpu_cycles"]
    answer = compute_metrics(recorded.store, done.workload, metrics)
    share, time, cycles = (row[answer.table.columns.index("avg")] for row in answer.table.rows)
    (note,) = [n for n in answer.notes if "percentages of it are too low" in n]
    by_time = share * cycles / (time * 2.1)
    assert f"salu.utilization_pct {share:.3g} -> {by_time:.3g} %" in note
    assert not any(
        "too low" in n for n in compute_metrics(recorded.store, done.workload, ["dispatch.duration_ns"]).notes
    )
