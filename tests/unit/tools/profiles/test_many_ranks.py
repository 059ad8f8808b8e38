"""Folders with a profile per rank become one workload: where rank and host come from, and what is told of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests.made.rocprofv3 import Launch, run
from rooflens.tests.made.rocprofv3_samples import LAUNCHES, SAMPLES, as_json
from rooflens.tests.support.bench import Bench
from rooflens.tools.profiles.merging.gather import units_of
from rooflens.tools.profiles.merging.ranks import ProcessPlace, in_sequence, place_of_name, settle_ranks


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


def test_processes_that_all_claim_rank_zero_or_contradict_their_name_have_no_rank() -> None:
    assert place_of_name(Path("out/node01_3_4711"), pid=12) == ProcessPlace()
    places, (warning,) = settle_ranks([ProcessPlace(0, "a", 1), ProcessPlace(0, "a", 2)])
    assert [p.rank for p in places] == [None, None] and "unknown" in warning.text
    assert settle_ranks([ProcessPlace(0, "a", 1), ProcessPlace(1, "a", 2)])[1] == []


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
