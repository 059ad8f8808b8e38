"""Folders with a profile per rank become one workload: where rank and host come from, and what is told of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.chrome import step, trace, write
from rooflens.tests.made.nsys import export
from rooflens.tests.made.rocprofv3 import Launch, Writer, repeated, run
from rooflens.tests.made.rocprofv3_samples import LAUNCHES, SAMPLES, as_json
from rooflens.tests.support.bench import Bench
from rooflens.tools.compute_timeline import compute_timeline
from rooflens.tools.profiles.merging.gather import units_of
from rooflens.tools.profiles.merging.ranks import (
    ProcessPlace,
    distinct_pid,
    in_sequence,
    place_of_name,
    places_of_pids,
    rank_notes,
    settle_ranks,
)
from rooflens.tools.query_counters import query_counters

A = Launch("first(float*)")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("out/node01_3_4711_rank", ProcessPlace(3, "node01", 4711)),
        ("out/node01_4711_4711_rank3", ProcessPlace(3, "node01", 4711)),
        ("out/node01_0_900", ProcessPlace(0, None, 900)),
        ("out/node01_10616", ProcessPlace()),
        ("rank_3/prof", ProcessPlace(3)),
        ("tb/node7_812.1790857026123456789.pt.trace.json.gz", ProcessPlace(None, "node7", 812)),
        ("node01.2293213.1/node01/5_results", ProcessPlace(1, "node01", 2293213)),
        ("frank3/x", ProcessPlace()),
        ("out/4711_4711", ProcessPlace(None, None, 4711)),
    ],
)
def test_a_name_tells_rank_and_host_or_nothing(name: str, place: ProcessPlace) -> None:
    assert place_of_name(Path(name)) == place


def test_a_name_that_contradicts_the_process_tells_no_rank() -> None:
    assert place_of_name(Path("out/node01_3_4711"), pid=12) == ProcessPlace()


def test_numbers_are_ranks_only_from_zero_and_without_repeats() -> None:
    def found(*names: str) -> list[int] | None:
        return in_sequence([Path(name) for name in names])

    assert found("app/0", "app/1", "app/2") == [0, 1, 2]
    assert found("r_0.ncu-rep", "r_7.ncu-rep") == [0, 7]
    assert found("pass_0", "pass_1") is None and found("pmc_perf_0.csv", "pmc_perf_1.csv") is None
    assert found("r_10616", "r_10617") is None and found("r_0", "s_0") is None and found("r_0", "log") is None


def test_sizes_in_names_are_no_ranks_and_those_from_zero_are(tmp_path: Path) -> None:
    for name in ("gemm_512_1024.ncu-rep", "gemm_1024_512.ncu-rep"):
        (tmp_path / name).touch()
    assert units_of(tmp_path) == []
    (tmp_path / "gemm_0_512.ncu-rep").touch()
    assert [u.place.rank for u in units_of(tmp_path)] == [0, 512, 1024]


def test_several_processes_that_all_claim_rank_zero_have_none() -> None:
    places, (warning,) = settle_ranks([ProcessPlace(0, "a", 1), ProcessPlace(0, "a", 2)])
    assert [p.rank for p in places] == [None, None] and "unknown" in warning.text
    assert settle_ranks([ProcessPlace(0, "a", 1), ProcessPlace(1, "a", 2)])[1] == []


def test_missing_and_repeated_ranks_are_named_neighbours_together() -> None:
    there = [ProcessPlace(r, f"node{r // 8}", r) for r in range(32) if r not in (3, 8, 9, 10)]
    notes, warnings = rank_notes([*there, ProcessPlace(5, "node9", 5)])
    assert notes[0].text == "One workload of 28 ranks on 5 hosts."
    assert [w.code for w in warnings] == ["ranks_missing", "ranks_repeated"]
    assert warnings[0].text.startswith("Ranks 3, 8-10 are missing") and warnings[1].text.startswith("Rank 5 is there")
    assert rank_notes([ProcessPlace(0), ProcessPlace(1)], size=4)[1][0].text.startswith("Ranks 2-3 are missing")


def test_equal_process_ids_of_two_hosts_are_told_apart_and_back() -> None:
    assert places_of_pids(
        [ProcessPlace(0, "a", 7), ProcessPlace(1, "b", 7), ProcessPlace(2, "b", 8), ProcessPlace(0, "a", 7)]
    ) == [0, 1, 0, 0]
    assert distinct_pid("pid", 0) == "(pid)::BIGINT"


@pytest.fixture
def four(bench):
    """Four ranks of rocprof-compute in folders that are called by their numbers; rank 2 launches twice as often."""
    for rank in range(4):
        bench.sysinfo(f"app/{rank}", hostname=f"node{rank // 2}")
        bench.workload(f"app/{rank}", SQ_WAVES=[16.0 + rank] * (4 if rank == 2 else 2))
    return bench


def test_folders_called_by_ranks_are_one_workload_with_host_and_rank_everywhere(four):
    done = four.load(four.folder / "app")
    assert (done.name, done.format, done.arch, done.dispatches) == ("app", "rocprof-compute", "gfx90a", 10)
    assert "One workload of 4 ranks on 2 hosts." in done.notes
    assert four.rows(done, "ranks", "rank, host, dispatches") == [
        (0, "node0", 2), (1, "node0", 2), (2, "node1", 4), (3, "node1", 2)
    ]  # fmt: skip
    found = four.rows(done, "counters", "rank, host, SQ_WAVES")
    assert len(found) == 10 and {(r, h, w) for r, h, w in found} == {(r, f"node{r // 2}", 16.0 + r) for r in range(4)}
    assert sorted(four.column(done, "dispatches", "dispatch_id")) == list(range(10))
    sql = "SELECT rank, sum(SQ_WAVES) FROM counters GROUP BY 1 ORDER BY 1"
    assert query_counters(four.store, sql, done.workload).table.rows == [[0, 32.0], [1, 34.0], [2, 72.0], [3, 38.0]]


def test_a_damaged_rank_is_named_and_left_out_and_is_missing(four):
    (four.folder / "app/1/pmc_perf.csv").write_bytes(b"\x00\x01")
    done = four.load(four.folder / "app")
    assert done.dispatches == 8 and {r for (r,) in four.rows(done, "dispatches", "rank")} == {0, 2, 3}
    assert any(w.startswith("rank 1 (1): ") and w.endswith("It was skipped.") for w in done.warnings)
    assert any(w.startswith("Rank 1 is missing") for w in done.warnings)


def test_a_rank_on_another_target_is_named_and_left_out(four):
    four.sysinfo("app/3", gpu_arch="gfx942", gpu_model="MI300X", hostname="node1")
    done = four.load(four.folder / "app")
    assert done.dispatches == 8 and any(
        "rank 3 on node1 ran on gfx942, the others on gfx90a" in w for w in done.warnings
    )


def test_launches_of_a_rank_that_is_there_twice_count_once(bench):
    for number, name in enumerate(("0_900", "0_901", "1_902")):
        bench.sysinfo(f"app/{name}", hostname="node0")
        bench.workload(f"app/{name}", SQ_WAVES=[16.0] * (number + 1))
    done = bench.load(bench.folder / "app")
    assert bench.rows(done, "ranks", "rank, pid, dispatches") == [(0, 900, 1), (0, 901, 2), (1, 902, 3)]


def test_most_of_all_ranks_decide_on_the_target_not_the_first(bench):
    for rank in range(6):
        bench.sysinfo(f"app/{rank}", **({} if rank < 2 else {"gpu_arch": "gfx942", "gpu_model": "MI300X"}))
        bench.workload(f"app/{rank}", SQ_WAVES=[16.0])
    done = bench.load(bench.folder / "app")
    assert done.arch == "gfx942" and done.dispatches == 4
    (said,) = (w for w in done.warnings if "ran on" in w)
    assert said == "Ranks 0-1 ran on gfx90a, the others on gfx942: they were skipped. Import them separately."


def test_where_no_rank_can_be_read_nothing_is_left_behind(four):
    for rank in range(4):
        (four.folder / f"app/{rank}/pmc_perf.csv").write_bytes(b"\x00")
    with pytest.raises(BadInput, match="No rank of app could be read"):
        four.load(four.folder / "app")
    assert four.is_clean()


def test_ranks_below_folders_of_hosts_have_those_hosts(bench):
    for rank in range(4):
        bench.sysinfo(f"job/nid{rank // 2:03}/rank{rank}", hostname="")
        bench.workload(f"job/nid{rank // 2:03}/rank{rank}", SQ_WAVES=[1.0, 2.0])
    done = bench.load(bench.folder / "job")
    assert bench.rows(done, "ranks", "rank, host") == [(0, "nid000"), (1, "nid000"), (2, "nid001"), (3, "nid001")]


def test_exports_of_nsight_systems_per_rank_are_one_timeline(bench):
    for rank in range(3):
        export(bench.folder / "run" / f"report_{rank}.sqlite")
    done = bench.load(bench.folder / "run")
    assert (done.format, done.dispatches) == ("nsys", 3)
    assert {(r, h) for r, h in bench.rows(done, "events", "rank, host")} == {(r, "node01") for r in range(3)}
    ids = bench.column(done, "events", "event_id")
    assert len(set(ids)) == len(ids) == done.events
    linked = "SELECT count(*), count(DISTINCT e.range_id), bool_and(e.rank = r.rank) FROM events e JOIN ranges r USING "
    rows = query_counters(bench.store, f"{linked}(workload, range_id)", done.workload).table.rows
    assert rows[0][0] > 3 and rows[0][1] >= 3 and rows[0][2] is True


def test_reports_of_ncu_per_rank_are_one_workload(bench, shared):
    report = shared / "ncu" / "small_raw.csv"
    if not report.is_file():
        pytest.skip("needs ../shared/ncu/small_raw.csv")
    (bench.folder / "run").mkdir()
    for rank in range(2):
        shutil.copy(report, bench.folder / "run" / f"rank_{rank}.csv")
    done = bench.load(bench.folder / "run")
    assert done.format == "ncu" and done.passes_unmatched == 0
    assert [r for (r, _) in bench.rows(done, "ranks", "rank, dispatches")] == [0, 1]
    assert len({n for _, n in bench.rows(done, "ranks", "rank, dispatches")}) == 1


def test_a_damaged_trace_of_pytorch_costs_its_rank_alone(bench):
    for rank in range(3):
        text = {"distributedInfo": {"rank": rank, "world_size": 3}, "baseTimeNanoseconds": 0}
        made = write(bench.folder / "run" / f"trace_{rank}.json", trace(step(0, 1000.0), **text))
    made.write_text(made.read_text()[:900])
    done = bench.load(bench.folder / "run")
    assert {r for (r,) in bench.rows(done, "dispatches", "rank")} == {0, 1} == {
        r for (r,) in bench.rows(done, "events", "rank")
    }  # fmt: skip
    assert any("trace_2.json is damaged" in w for w in done.warnings)
    assert any(w.startswith("Rank 2 is missing") for w in done.warnings)


@pytest.mark.parametrize("naming", ["node{host}_{rank}_{pid}_rank", "{rank}/{pid}", "rank_{rank}/node{host}/{pid}"])
def test_rocprofv3_of_ranks_with_passes_matches_within_a_rank(bench, naming):
    """Each rank launches as often as its number says, so that a launch matched to another rank would show."""
    writer = Writer(bench.folder)
    for rank in range(3):
        for number, step_of in enumerate(("timing", "pass_1")):
            stem = naming.format(host=rank // 2, rank=rank, pid=700 + number)
            inside = f"out/{stem.rpartition('/')[0]}/{step_of}/{stem.rpartition('/')[2]}".replace("//", "/")
            values = [10.0 * rank + n for n in range(rank + 1)]
            if number:
                writer.counters(inside, run(*repeated(rank + 1, A, X_A=values), pid=701, start=10**15))
            else:
                writer.trace(inside, run(*repeated(rank + 1, A), pid=700))
    done = bench.load(bench.folder / "out")
    assert bench.rows(done, "counters", "rank, X_A") == [
        (rank, 10.0 * rank + n) for rank in range(3) for n in range(rank + 1)
    ]
    assert done.passes_unmatched == 0 and not done.warnings


def test_recorded_files_of_rocprofv3_on_two_hosts_keep_rank_host_and_process_apart(bench, shared):
    """Two ranks on hosts whose clocks are far apart, whose processes have the same id."""
    recorded = shared / "rocprofv3" / "sys_trace"
    if not recorded.is_dir():
        pytest.skip("needs ../shared/rocprofv3")
    (bench.folder / "run").mkdir()
    for rank in range(2):
        for file in recorded.glob("*.csv"):
            name = file.name.replace("node01_10585", f"nid{rank}_{rank}_10585_rank")
            (bench.folder / "run" / name).write_text(re.sub(r"\b(\d{13})\b", rf"{rank}\1", file.read_text()))
    done = bench.load(bench.folder / "run")
    assert done.dispatches == 18 and not done.warnings
    assert bench.rows(done, "ranks", "rank, host, pid, dispatches") == [(0, "nid0", 10585, 9), (1, "nid1", 10585, 9)]
    assert {(r, h) for r, h in bench.rows(done, "dispatches", "rank, host")} == {(0, "nid0"), (1, "nid1")}
    assert {(r, h, p) for r, h, p in bench.rows(done, "events", "rank, host, pid")} == {
        (0, "nid0", 10585), (1, "nid1", 10585)
    }  # fmt: skip
    counts = {rank: bench.rows(done, "events", "count(*)", f"rank = {rank}")[0][0] for rank in range(2)}
    assert counts[0] == counts[1] > 18
    found = compute_timeline(bench.store, done.workload)
    assert found.ranks.total_rows == 2 and found.wall_ms is not None and found.wall_ms < 60_000


def test_samples_of_one_rank_name_the_launches_that_the_ranks_have_together(bench: Bench) -> None:
    """The first rank has none, and other launches: those of the second get other numbers, and so do its sizes."""
    other = [Launch("dots", grid=(grid, 1, 1)) for grid in (128, 32, 64)]
    for rank, (made, samples) in enumerate([(run(*other), ()), (LAUNCHES, SAMPLES)]):
        bench.sysinfo(f"app/{rank}", hostname=f"node{rank}", gpu_arch="gfx942")
        as_json(bench.folder / "app" / str(rank) / "ps_file_results.json", made, samples)
    done = bench.load(bench.folder / "app")
    assert done.dispatches == 5 and done.samples == 1000
    sizes = dict(bench.rows(done, "dispatches", "dispatch_id, (rank, grid, launch)"))
    of_launch = {launch: grid for _, grid, launch in sizes.values()}
    found = bench.rows(done, "samples", "dispatch_id, launch, sum(count) OVER (PARTITION BY dispatch_id)")
    assert {(sizes[i][:2], of_launch[launch], n) for i, launch, n in found} == {
        ((1, 64), 64, 700),
        ((1, 128), 128, 300),
    }
    code = bench.rows(done, "instructions", "launch, count(*) OVER (PARTITION BY launch)")
    assert {(of_launch[launch], n) for launch, n in code} == {(64, 1), (128, 3)}
