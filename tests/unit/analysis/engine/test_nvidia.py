"""Metrics of NVIDIA GPUs against the profiler's own figures and against kernels whose work is known, on a real H200."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue.work_formulas import formulas
from rooflens.analysis.engine.evaluation import Figure
from rooflens.analysis.store.store import Store
from rooflens.tests import DATA
from rooflens.tests.support.figures import evaluate
from rooflens.tests.support.recordings import stored

THREADS = 2112 * 256
BEYOND = ("divergence", "l2.hit_rate_pct")
"""More hits than lookups, which were counted in another replay: a handful of sectors of a kernel without memory."""
CHIPS = {"sm_90": "gh100", "sm_80": "ga100"}

# Ours -> the profiler's, relative and absolute tolerance. What both read from the same counters agrees to the digits
# printed; the others are counted in different replays of the kernel.
OWN_FIGURES = {
    "dispatch.sol_sm_throughput_pct": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 1e-9, 0),
    "dispatch.sol_memory_throughput_pct": ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", 1e-9, 0),
    "occupancy.achieved_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active", 1e-6, 0),
    "dispatch.ipc": ("sm__inst_executed.avg.per_cycle_active", 5e-3, 1e-6),
    "latency.cycles_per_instruction": ("smsp__average_warp_latency_per_inst_issued.ratio", 1e-2, 0),
    "latency.stall_long_scoreboard_cycles": (
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", 1e-9, 0,
    ),
    "latency.eligible_warps": ("smsp__warps_eligible.avg.per_cycle_active", 1e-6, 1e-6),
    "latency.issue_active_pct": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 2e-3, 1e-3),
    "divergence.active_threads": ("smsp__thread_inst_executed_per_inst_executed.ratio", 1e-9, 0),
    "divergence.active_threads_on": ("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", 1e-9, 0),
    "vl1d.hit_rate_pct": ("l1tex__t_sector_hit_rate.pct", 0, 0.02),
    "vl1d.data_stage_pct": ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", 1e-9, 0),
    "vl1d.utilization_pct": ("l1tex__throughput.avg.pct_of_peak_sustained_elapsed", 1e-9, 0),
    "l2.hit_rate_pct": ("lts__t_sector_hit_rate.pct", 0, 1e-5),
    "l2.utilization_pct": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 1e-9, 0),
    "hbm.utilization_pct": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 1e-9, 0),
    "valu.fma_utilization_pct": ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", 1e-9, 0),
    "matrix.utilization_pct": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 1e-9, 0),
}  # fmt: skip
# Shares of our peaks at nominal clocks: within the drift of the clocks (below 1 %) of the profiler's shares.
OWN_PEAKS = {
    "hbm.bw_gbs": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy.chart_waves_per_active_cu": "sm__warps_active.avg.pct_of_peak_sustained_active",
}

Figures = dict[tuple[str, str], Figure]


def figures(store: Store, workload: str) -> Figures:
    """Every metric per kernel, by the kernel's name without its parameters."""
    found = evaluate(store, workload, ["*"], by_kernel=True, quartiles=False)
    return {((f.kernel or "").split("(")[0].removeprefix("void "), f.name): f for f in found}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The two recordings of h200_kernels.cu: the counters that our own profiles ask for, and ncu's full set."""
    folder = tmp_path_factory.mktemp("h200")
    made = Store(folder / "store")
    for name in ("h200_own_counters", "h200_full_set"):
        stored(made, DATA / f"{name}.csv.gz", name)
    return made


@pytest.fixture(scope="module")
def own(store: Store) -> Figures:
    return figures(store, "h200_own_counters")


@pytest.fixture(scope="module")
def labelled(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Figures, dict[str, dict[str, str]]]:
    """The figures of the labelled recording, and the profiler's columns by kernel."""
    file = shared / "ncu" / "h200_labelled_raw.csv"
    made = Store(tmp_path_factory.mktemp("labelled"))
    stored(made, file, "labelled")
    rows = list(csv.DictReader(file.open(encoding="utf-8")))[1:]
    columns = {r["Kernel Name"].split("(")[0].removeprefix("void "): r for r in rows}
    return figures(made, "labelled"), columns


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize("target", CHIPS)
def test_every_counter_to_collect_is_one_that_ncu_lists_for_the_chip(target: str) -> None:
    listed = set(gzip.decompress((DATA / f"ncu_metrics_{CHIPS[target]}.txt.gz").read_bytes()).decode().split())
    asked = {c for m in catalog.metrics(target) for c in catalog.counters(target, m)}
    asked |= set(catalog.counters_of(target, formulas(target).values()))
    by_launch = {c for c in asked if c.startswith("launch__")}
    assert {c for c in asked - by_launch if c.split(".")[0] not in listed} == set()
    assert len(asked) > 130


def test_what_machines_may_lack_is_read_but_never_asked_for() -> None:
    nvlink = catalog.by_name("sm_90")["fabric.nvlink_read_bw_gbs"]
    assert catalog.counters("sm_90", nvlink) == []
    assert catalog.counters_of("sm_90", [nvlink.num]) == ["nvlrx__bytes.sum"]


def test_rates_restored_from_the_full_set_equal_those_of_our_own_counters(store: Store, own: Figures) -> None:
    """Within 2 %: two runs of the program. Figures of a few thousand events, which chance decides, are left out."""
    full = figures(store, "h200_full_set")
    steady = {
        "dispatch.flop", "dispatch.flop_f16", "dispatch.flop_f32", "dispatch.flop_f64", "dispatch.instructions",
        "valu.instructions", "dispatch.ipc", "occupancy.achieved_pct", "occupancy.theoretical_pct",
        "lds.bank_conflicts_per_access", "lds.utilization_pct", "latency.stall_selected_pct",
        "latency.cycles_per_instruction", "divergence.active_threads", "divergence.uniform_branches_pct",
        "vl1d.coalescing_pct", "vl1d.sectors_per_load", "vl1d.sectors_per_store", "vl1d.instructions",
        "atomics.instructions_global", "hbm.write_bytes", "l2.client_hit_rate_pct", "matrix.flops_f16",
        "valu.flops_f32", "valu.flops_f16", "lds.bw_gbs",
    }  # fmt: skip
    compared = 0
    for (kernel, name), figure in own.items():
        other = full[kernel, name]
        if name in steady and figure.value is not None and other.value is not None:
            assert other.value == pytest.approx(figure.value, rel=0.02, abs=1e-3), (kernel, name)
            compared += 1
    assert compared > 150


@pytest.mark.parametrize(
    ("kernel", "metric", "value"),
    [
        ("fma32", "dispatch.flop_f32", THREADS * (4096 * 8 * 2 + 8 * 2 + 8)),
        ("half2fma", "dispatch.flop_f16", THREADS * (4096 * 8 * 4 + 4 * 2 + 3 * 4)),
        ("addd", "dispatch.flop_f64", 2**24),
        ("wm", "dispatch.flop_f16", 2112 * 8 * 2048 * 16 * 8 * 16 * 2),
        ("copy4", "vl1d.sectors_per_load", 16),
        ("copy4", "vl1d.coalescing_pct", 100),
        ("atom", "atomics.instructions_global", 528 * 8 * 16),
        ("fma32", "occupancy.theoretical_pct", 100),
    ],
)
def test_counts_are_the_work_of_the_kernel_exactly(own: Figures, kernel: str, metric: str, value: float) -> None:
    assert own[kernel, metric].value == pytest.approx(value, rel=1e-12)


def test_traffic_and_conflicts_are_those_of_the_kernel(own: Figures) -> None:
    assert own["copy4", "hbm.read_bytes"].value == pytest.approx(2**30, rel=1e-3)
    assert own["copy4", "hbm.write_bytes"].value == pytest.approx(2**30, rel=0.05), "the last lines stay in L2"
    assert own["conflict", "lds.bank_conflicts_per_access"].value == pytest.approx(31, rel=0.02), "stores have none"
    assert own["conflict", "lds.utilization_pct"].value == pytest.approx(100, abs=1.5)
    assert (
        own["diverge", "divergence.active_threads"].value < 16 and own["fma32", "divergence.active_threads"].value == 32
    )


def test_figures_agree_with_those_that_the_profiler_computes(
    labelled: tuple[Figures, dict[str, dict[str, str]]],
) -> None:
    ours, theirs = labelled
    for metric, (column, rel, near) in OWN_FIGURES.items():
        for kernel, row in theirs.items():
            value = ours[kernel, metric].value
            if value is not None and (kernel, metric) != BEYOND:
                assert value == pytest.approx(number(row[column]), rel=rel, abs=near), (kernel, metric)
        assert sum(ours[kernel, metric].value is not None for kernel in theirs) >= 12, metric


@pytest.mark.parametrize("metric", OWN_PEAKS)
def test_shares_of_peaks_agree_with_the_profilers(
    labelled: tuple[Figures, dict[str, dict[str, str]]], metric: str
) -> None:
    ours, theirs = labelled
    for kernel, row in theirs.items():
        share = number(row[OWN_PEAKS[metric]])
        assert ours[kernel, metric].pct_of_peak == pytest.approx(share, rel=0.01, abs=0.01), kernel


def test_the_shares_of_warp_states_are_the_whole_life_of_warps(
    labelled: tuple[Figures, dict[str, dict[str, str]]], own: Figures
) -> None:
    """Within 1 %: states are counted in different replays."""
    for found in (labelled[0], own):
        for kernel in {kernel for kernel, _ in found}:
            shares = [f.value for (k, n), f in found.items() if k == kernel and f.metric.table == "7.3"]
            assert len(shares) == 19 and sum(s for s in shares if s is not None) == pytest.approx(100, abs=1), kernel
            cycles = [
                found[kernel, f"latency.{n}"].value
                for n in ("dependency_wait_cycles", "issue_wait_cycles", "active_cycles")
            ]
            assert sum(c for c in cycles if c) == pytest.approx(found[kernel, "latency.wave_cycles"].value, rel=0.01)


def test_an_impossible_hit_rate_names_the_one_of_hits_and_misses(
    labelled: tuple[Figures, dict[str, dict[str, str]]],
) -> None:
    ours, theirs = labelled
    wrong = {key for key, f in ours.items() if f.status == "impossible"}
    assert wrong == {BEYOND, ("divergence", "l2.sol_hit_rate_pct")}
    assert "l2.outcome_hit_rate_pct" in str(ours[BEYOND].reason)
    row = theirs["divergence"]
    assert number(row["lts__t_sector_hit_rate.pct"]) > 140
    hits, misses = (number(row[f"lts__t_sectors_lookup_{what}.sum"]) for what in ("hit", "miss"))
    consistent = ours["divergence", "l2.outcome_hit_rate_pct"]
    assert consistent.value == pytest.approx(100 * hits / (hits + misses)) and 90 < consistent.value < 95


def test_ratios_over_several_kernels_are_sums_over_sums(store: Store) -> None:
    """Also where the profile holds a rate for each kernel alone."""
    for workload in ("h200_own_counters", "h200_full_set"):
        (whole,) = evaluate(store, workload, ["occupancy.achieved_pct"], quartiles=False)
        each = evaluate(store, workload, ["occupancy.achieved_pct"], by_kernel=True, quartiles=False)
        weights = {f.kernel: f.value for f in evaluate(store, workload, ["occupancy.sol_active_cus"], by_kernel=True)}
        cycles = {f.kernel: f.value for f in evaluate(store, workload, ["dispatch.gpu_cycles"], by_kernel=True)}
        total = sum(weights[f.kernel] * cycles[f.kernel] for f in each)
        expected = sum(f.value * weights[f.kernel] * cycles[f.kernel] for f in each) / total
        assert whole.value == pytest.approx(expected, rel=0.01)
        assert whole.n == 9
