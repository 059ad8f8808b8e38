"""A recorded run of five kernels on an H200 in the three forms of ncu, and pages written by the tests themselves."""

from __future__ import annotations

import csv
import gzip
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rooflens.tests import DATA

PAGES = DATA / "ncu"
LAUNCH = {
    "ID": "0",
    "Process ID": "495",
    "Process Name": "app",
    "Host Name": "node01",
    "Kernel Name": "void axpy<float, 4>(int, const float *)",
    "Context": "1",
    "Stream": "7",
    "Block Size": "(256, 1, 1)",
    "Grid Size": "(8, 2, 1)",
    "Device": "0",
    "CC": "9.0",
}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small.ncu-rep, small_raw.csv and small_details.csv of one run (ncu --set detailed)."""
    folder = tmp_path_factory.mktemp("ncu")
    (folder / "small.ncu-rep").write_bytes(lzma.decompress((PAGES / "small.ncu-rep.xz").read_bytes()))
    for name in ("small_raw.csv", "small_details.csv"):
        (folder / name).write_bytes(gzip.decompress((PAGES / f"{name}.gz").read_bytes()))
    return folder


@pytest.fixture
def raw_page(tmp_path: Path) -> Callable[..., Path]:
    """``raw_page({"metric": ("unit", [values])}, name=..., **launch columns)`` writes a raw page."""

    def write(
        metrics: dict[str, tuple[str, Sequence[object]]], name: str = "page.csv", **launch: Sequence[str]
    ) -> Path:
        rows = max((len(values) for _, values in metrics.values()), default=1)
        fixed = {k: [v] * rows for k, v in LAUNCH.items()} | {"ID": [str(i) for i in range(rows)]}
        fixed |= {key.replace("_", " "): list(values) for key, values in launch.items()}
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="") as handle:
            out = csv.writer(handle, quoting=csv.QUOTE_ALL, lineterminator="\n")
            out.writerow([*fixed, *metrics])
            out.writerow([*[""] * len(fixed), *(unit for unit, _ in metrics.values())])
            for i in range(rows):
                out.writerow([*(v[i] for v in fixed.values()), *(v[i] for _, v in metrics.values())])
        return file

    return write
