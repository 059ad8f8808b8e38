"""Parts that do not add up to their whole make every figure of them suspect, and requests of RDNA 4 have 256 bytes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.support.figures import evaluate
from rooflens.tools.import_profile import import_profile

HEADER = """Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id Kernel_Name
Workgroup_Size
LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Counter_Name Counter_Value Start_Timestamp
End_Timestamp"""
READ, GRID = "read_f4(HIP_vector_type<float, 4u> const*, float*, unsigned long)", 16777216
"""A kernel that reads 16 bytes a thread, and its launch for 256 MiB on an RX 9070 XT (ROCm issue 6613)."""


def profile(folder: Path, counters: dict[str, float]) -> Path:
    """A file of rocprofv3 with one launch of the kernel."""
    file = folder / "r_counter_collection.csv"
    with file.open("w", newline="") as text:
        out = csv.writer(text)
        out.writerow(HEADER.split())
        for name, value in counters.items():
            launch = [1, 1, "Agent 1", 1, 18, 18, GRID, 19, READ, 256, 0, 0, 8, 0, 128]
            out.writerow([*launch, name, value, 311666222139371, 311666222747498])
    return file


def figures(folder: Path, gpu: str, counters: dict[str, float], names: list[str]) -> tuple[list[Any], list[str]]:
    """The figures of a profile, and the codes of its warnings."""
    store = Store(folder / "store")
    done = import_profile(store, str(profile(folder, counters)), name="w", gpu=gpu)
    return evaluate(store, "w", names), [text.split(":")[0] for text in done.warnings]


def reads(total: float, **sizes: float) -> dict[str, float]:
    """The requests of GL2 to memory, and how many of them are of the sizes that counters hold."""
    return {"GL2C_EA_RDREQ_sum": total} | {f"GL2C_EA_RDREQ_{n}B_sum": sizes.get(f"b{n}", 0) for n in (32, 64, 128)}


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        (reads(65538), 16 << 20), (reads(2099030, b64=6, b128=193), 512 << 20),
    ],
)  # fmt: skip
def test_reads_of_rdna_4_that_no_counter_of_a_size_holds_have_256_bytes(
    counters: dict[str, float], expected: int, tmp_path: Path
) -> None:
    """Published requests of kernels of known bytes; the second run saw foreign traffic too."""
    (read,), warnings = figures(tmp_path, "gfx1201", counters, ["hbm.read_bytes"])
    assert read.value == pytest.approx(expected, rel=0.002) and read.status == "ok" and warnings == []


def test_writes_of_rdna_4_are_what_reached_memory(tmp_path: Path) -> None:
    """Of 512 MiB, 6 MiB stayed in the cache."""
    counters = {"GL2C_EA_WRREQ_sum": 2072576, "GL2C_EA_WRREQ_64B_sum": 0}
    (written,), _ = figures(tmp_path, "gfx1201", counters, ["hbm.write_bytes"])
    assert written.value == (512 - 6) << 20 and written.status == "ok"


def test_zero_requests_of_rdna_4_are_doubted_as_its_counters_can_stand_still(tmp_path: Path) -> None:
    counters = reads(0) | {"GL2C_EA_WRREQ_sum": 0, "GL2C_EA_WRREQ_64B_sum": 0}
    found, warnings = figures(tmp_path, "gfx1201", counters, ["hbm.read_bytes", "hbm.write_bytes"])
    assert [(figure.value, figure.status) for figure in found] == [(0, "suspect")] * 2
    assert set(warnings) == {"not_counted"}


def test_fetch_size_of_rdna_4_is_no_figure_and_waves_that_compute_nothing_a_warning(tmp_path: Path) -> None:
    """The size is made of the counters of sizes, which are 0; and the waves are those of the grid, of 32 work-items."""
    counters = {"FETCH_SIZE": 0, "SQ_WAVES": GRID / 32, "SQ_INSTS_VALU": 0}
    (read,), warnings = figures(tmp_path, "gfx1201", counters, ["hbm.read_bytes"])
    assert read.value is None and read.status == "not_collected"
    assert warnings == ["no_vector_instructions"]


def test_parts_that_do_not_add_up_make_their_figures_suspect(tmp_path: Path) -> None:
    counters = {"TCC_EA0_RDREQ_sum": 1e6, "TCC_EA0_RDREQ_32B_sum": 0, "TCC_EA0_RDREQ_64B_sum": 0}
    (lost,), warnings = figures(tmp_path, "gfx950", counters | {"TCC_EA0_RDREQ_128B_sum": 0}, ["fabric.read_bw_gbs"])
    assert lost.value == 0 and lost.status == "suspect" and "identity" in warnings
    folder = tmp_path / "sound"
    folder.mkdir()
    (sound,), warnings = figures(folder, "gfx950", counters | {"TCC_EA0_RDREQ_128B_sum": 1e6}, ["fabric.read_bw_gbs"])
    assert sound.value == pytest.approx(128e6 / 608127) and sound.status == "ok"
    assert "identity" not in warnings
