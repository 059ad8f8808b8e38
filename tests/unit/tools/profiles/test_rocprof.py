"""Plain CSV files of rocprof v1: their names, links beside them, and metrics of a device that the caller names."""

from __future__ import annotations

import pytest

HEADER = "Index,KernelName,gpu-id,queue-id,pid,tid,grd,wgr,SQ_WAVES,TCC_HIT_sum,TCC_MISS_sum,BeginNs,EndNs"
ROW = [0, "bodyForce(Body*, float, int) [clone .kd]", 0, 1, 9, 9, 65536, 256, 1024, 30, 10, 1000, 3000]


@pytest.mark.parametrize(
    ("file", "name"),
    [("copy/metrics_copy.csv", "metrics_copy"), ("run/pmc_1/results_9.csv", "run")],
)
def test_results_are_named_after_their_folder_or_by_a_name_of_their_own(bench, file, name):
    bench.csv(file, HEADER.split(","), [ROW])
    assert bench.load(bench.folder / ("run" if "pmc" in file else file)).name == name


def test_a_linked_sysinfo_outside_is_not_read(bench):
    file = bench.csv("run/results.csv", HEADER.split(","), [ROW])
    (bench.folder / "secret.txt").write_text("*******\nAgent 1\n*******\n  Name: gfx90a\n  Device Type: GPU\n")
    file.with_name("results.sysinfo.txt").symlink_to(bench.folder / "secret.txt")
    assert bench.load(file).arch is None
