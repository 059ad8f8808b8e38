"""Stores as a user of Python has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rooflens
from rooflens.analysis.store.store import Store
from rooflens.tests.support.recordings import stored


@pytest.fixture(scope="session")
def store(samples: Store) -> rooflens.OpenStore:
    """The two versions of the shipped kernel; read it, do not write to it."""
    return rooflens.open(samples.root)


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> rooflens.OpenStore:
    """Further samples: one with launches of several kernels, one with samples of lines."""
    made = rooflens.open(tmp_path_factory.mktemp("shipped"))
    stored(Store(made.root), rooflens.samples()["matmul_fp64"], "matmul_fp64")
    stored(Store(made.root), rooflens.samples()["h200_lines"] / "lines.csv.gz", "h200_lines")
    return made


@pytest.fixture
def profile(tmp_path: Path) -> Callable[..., Path]:
    """Writes a small profile of one kernel, of any name."""

    def written(kernel: str = "k", folder: str = "made", launches: int = 3) -> Path:
        place = tmp_path / folder
        place.mkdir()
        quoted = kernel.replace('"', '""')
        rows = "".join(f'{i},"{quoted}",64,256,64,{1000 * i},{1000 * i + 500 + i},10\n' for i in range(launches))
        head = "Dispatch_ID,Kernel_Name,Workgroup_Size,Grid_Size,Wave_Size,Start_Timestamp,End_Timestamp,SQ_WAVES\n"
        (place / "pmc_perf.csv").write_text(head + rows)
        return place

    return written
