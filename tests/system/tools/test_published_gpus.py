"""Published pages of GPUs: times, occupancy and loads equal the page's own, and each kernel has a diagnosis."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from rooflens.analysis.diagnosis.findings import Diagnosis
from rooflens.analysis.store.store import Store
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_occupancy import compute_occupancy
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile
from rooflens.tools.plan_profile import plan_profile
from rooflens.tools.query_counters import query_counters


def published(shared: Path, *place: str) -> Path:
    path = shared.joinpath("public", *place)
    if not path.exists():
        pytest.skip("needs ../shared/public, which the project does not ship")
    return path


def test_a_page_of_a_b200_has_its_own_times_occupancy_and_loads(shared: Path, tmp_path: Path) -> None:
    (only,) = check_page("torch_sdpa_flash__gqa_bf16_b64_ctx4k_p64", shared, tmp_path)
    assert only.verdict.subsystem == "matrix" and "tensor cores 61.4 %" in only.loads


def check_page(name: str, shared: Path, tmp_path: Path) -> list[Diagnosis]:
    """The diagnoses of a page's kernels, whose times, occupancy and loads are the page's own."""
    path, store = published(shared, "decodebench", f"{name}.ncu.csv.gz"), Store(tmp_path / "store")
    text = "".join(line for line in io.StringIO(gzip.decompress(path.read_bytes()).decode()) if line[0] == '"')
    units, *launches = csv.DictReader(io.StringIO(text))
    scale = {"ns": 1.0, "us": 1e3, "ms": 1e6}[units["gpu__time_duration.sum"]]
    import_profile(store, str(path), name="w")

    rows = query_counters(store, "SELECT duration_ns, kernel FROM dispatches ORDER BY dispatch_id").table.rows
    assert [r[0] for r in rows] == pytest.approx([float(x["gpu__time_duration.sum"]) * scale for x in launches])
    kernels = {x["Kernel Name"] for x in launches}
    diagnosed = diagnose_bottleneck(store, "w", top_n=20).kernels
    assert len(diagnosed) == len(kernels)
    for number, one in enumerate(diagnosed, 1):
        mine = [x for x, row in zip(launches, rows, strict=True) if row[1] == one.kernel]
        theory = compute_occupancy(store, workload="w", kernel=f"#{number}")
        assert theory.occupancy_pct == pytest.approx(float(mine[0]["sm__maximum_warps_per_active_cycle_pct"]), abs=0.01)
        assert one.verdict.confidence < 0.5, "a page without memory counters cannot be certain"
        assert "matrix unit ?" not in one.loads and "issue ?" not in one.loads and "device memory ?" in one.loads
        tensor = [float(x["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"]) for x in mine]
        table = compute_metrics(store, "w", metrics=["matrix.utilization_pct"], kernel=f"#{number}").table
        found = dict(zip(table.columns, table.rows[0], strict=True))
        assert (found["avg"], found["status"]) == (pytest.approx(sum(tensor) / len(tensor), rel=1e-4, abs=1e-6), "ok")
    return diagnosed


def test_a_report_of_an_rtx_3070_has_its_bytes_a_roofline_and_a_diagnosis(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("ncu_report", reason="needs the package ncu-report (extra cuda)")
    store = Store(tmp_path / "store")
    import_profile(store, str(published(shared, "ncu_rtx", "rtx3070_2020.3.ncu-rep")), name="w")
    query = 'SELECT sum("dram__bytes_read.sum" + "dram__bytes_write.sum") FROM counters'
    ((counted,),) = query_counters(store, query).table.rows
    found = compute_roofline(store, "w")
    hbm = next(dict(zip(found.points.columns, row, strict=True)) for row in found.points.rows if row[2] == "hbm")
    assert hbm["bytes"] == counted == 78334208 and found.arch == "sm_86"
    (one,) = diagnose_bottleneck(store, "w").kernels
    assert one.verdict.subsystem == "hbm" and one.findings[0].evidence[0].metric == "hbm.utilization_pct"


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_100", "sm_120"])
def test_a_plan_names_counters_of_the_generation(target: str, tmp_path: Path) -> None:
    plan = plan_profile(
        Store(tmp_path / "store"), gpu=target, metrics=["diagnosis", "roofline"], profiler="ncu", command=["./a"]
    )
    named = " ".join(str(row) for row in plan.passes.rows) + str(plan.commands if hasattr(plan, "commands") else "")
    blackwell, hopper = target in ("sm_100", "sm_103", "sm_120"), target == "sm_90"
    assert ("stalled_gmma" in named) == hopper
    assert ("stalled_imc_miss" in named) == (not blackwell)
    assert ("dram__bytes_op_read" in named) == (target == "sm_120")
    assert ("tensor_src_bf16" in named) == (target != "sm_75")
