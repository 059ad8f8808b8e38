"""A ratio takes both counters from one pass where one pass has both."""

from __future__ import annotations

from pathlib import Path

from rooflens.analysis.store.store import Store
from rooflens.tests.support.figures import evaluate
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.import_profile import import_profile

HEADER = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID"
)
ROW = '1,1,1,1,1,64,64,0,0,4,4,16,64,"k()",1000,2000,1'


def _profile(folder: Path, passes: dict[str, dict[str, int]]) -> Store:
    for name, counters in passes.items():
        place = folder / "profile" / name
        place.mkdir(parents=True)
        text = f"{HEADER},{','.join(counters)}\n{ROW},{','.join(map(str, counters.values()))}\n"
        (place / "results_1.csv").write_text(text)
    store = Store(folder / "store")
    import_profile(store, str(folder / "profile"), name="x", gpu="gfx90a")
    return store


def test_a_share_of_reads_never_mixes_two_runs(tmp_path: Path) -> None:
    store = _profile(
        tmp_path,
        {
            "pmc_1": {"TCC_EA_RDREQ_sum": 100, "TCC_HIT_sum": 3, "TCC_MISS_sum": 1},
            "pmc_2": {"TCC_EA_RDREQ_sum": 200, "TCC_EA_RDREQ_DRAM_sum": 150},
        },
    )
    figures = {f.name: f.value for f in evaluate(store, "x", ["hbm.read_traffic_pct", "l2.hit_rate_pct"])}
    assert figures == {"hbm.read_traffic_pct": 75, "l2.hit_rate_pct": 75}


def test_counters_of_several_passes_are_taken_as_first_measured(tmp_path: Path) -> None:
    store = _profile(tmp_path, {"pmc_1": {"TCC_EA_RDREQ_sum": 100}, "pmc_2": {"TCC_EA_RDREQ_DRAM_sum": 50}})
    (figure,) = evaluate(store, "x", ["hbm.read_traffic_pct"])
    assert figure.value == 50


def test_figures_that_combine_passes_are_named(tmp_path: Path) -> None:
    store = _profile(tmp_path, {"pmc_1": {"TCC_HIT_sum": 3}, "pmc_2": {"TCC_MISS_sum": 1, "SQ_WAVES": 1}})
    named = compute_metrics(store, "x", ["l2.hit_rate_pct", "dispatch.waves"])
    (note,) = [n for n in named.notes if "passes whose runs may differ" in n]
    assert note.startswith("1 figure combines") and note.endswith("l2.hit_rate_pct.")
    assert not any("passes whose runs may differ" in n for n in compute_metrics(store, "x", ["dispatch.waves"]).notes)


def test_roofline_points_that_combine_passes_are_named(tmp_path: Path) -> None:
    flop, read, written = {"SQ_INSTS_VALU_ADD_F32": 1}, {"TCC_EA_RDREQ_sum": 2}, {"TCC_EA_WRREQ_sum": 1}
    apart = _profile(tmp_path / "apart", {"pmc_1": flop, "pmc_2": read | written})
    together = _profile(tmp_path / "together", {"pmc_1": flop | read | written, "pmc_2": {"SQ_WAVES": 1}})
    assert any("different passes" in n and "hbm" in n for n in compute_roofline(apart, "x").notes)
    assert not any("different passes" in n for n in compute_roofline(together, "x").notes)
