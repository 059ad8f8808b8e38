"""Profiles written by the tests themselves, and a bench to import them on and look at what was stored."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.store.store import Manifest, Store
from rooflens.tools.import_profile import ImportResult, import_profile

SYSINFO = {
    "workload_name": "made",
    "command": "./made -n 3",
    "version": "2",
    "hostname": "node01",
    "rocm_version": "6.0.2-115",
    "gpu_model": "MI200",
    "gpu_arch": "gfx90a",
    "cu_per_gpu": "104",
    "simd_per_cu": "4",
    "se_per_gpu": "8",
    "wave_size": "64",
    "max_waves_per_cu": "32",
    "max_sclk": "1700",
    "max_mclk": "1600",
    "total_l2_chan": "32",
    "num_xcd": "1",
    "num_hbm_channels": "32",
}


class Bench:
    """A store and a folder to put profiles in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / "store")

    def csv(self, path: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
        """A CSV file below the bench's folder."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
        return file

    def sysinfo(self, folder: str, **changes: str) -> None:
        """sysinfo.csv of a workload folder; an empty text removes a column."""
        info = {k: v for k, v in (SYSINFO | changes).items() if v}
        self.csv(f"{folder}/sysinfo.csv", list(info), [list(info.values())])

    def workload(self, folder: str = "made/MI200", file: str = "pmc_perf.csv", **columns: Sequence[object]) -> Path:
        """A rocprof-compute folder with one file of dispatches; ``columns`` are counters or replace launch data."""
        count = max((len(v) for v in columns.values()), default=2)
        table: dict[str, Sequence[object]] = {
            "Dispatch_ID": range(count),
            "Kernel_Name": ["vecCopy(double*, double*, int) [clone .kd]"] * count,
            "GPU_ID": [2] * count,
            "Grid_Size": [1024] * count,
            "Workgroup_Size": [256] * count,
            "Arch_VGPR": [8] * count,
            "Accum_VGPR": [0] * count,
            "SGPR": [16] * count,
            "Start_Timestamp": [1411551767635712 + 30_000 * i for i in range(count)],
            "End_Timestamp": [1411551767635712 + 30_000 * i + 10_000 + i for i in range(count)],
        }
        for name, values in columns.items():
            table[name] = values
        self.csv(f"{folder}/{file}", list(table), zip(*table.values(), strict=True))
        if not (self.folder / folder / "sysinfo.csv").exists():
            self.sysinfo(folder)
        return self.folder / folder

    def load(self, path: Path | str, **options: Any) -> ImportResult:
        """The profile at ``path``, imported."""
        return import_profile(self.store, str(path), **options)

    def manifest(self, done: ImportResult) -> Manifest:
        """What the store says of an import."""
        return self.store.resolve(done.workload)

    def rows(self, done: ImportResult, table: str, columns: str = "*", where: str = "true") -> list[tuple[Any, ...]]:
        """Rows of one stored table, in their order."""
        file = self.store.file(self.manifest(done), table)
        if file is None:
            return []
        with connect() as con:
            return con.execute(
                f"SELECT {columns} FROM read_parquet('{file}', hive_partitioning = false) WHERE {where}"
            ).fetchall()

    def column(self, done: ImportResult, table: str, column: str, where: str = "true") -> list[Any]:
        """One column of a stored table."""
        return [row[0] for row in self.rows(done, table, column, where)]

    def is_clean(self) -> bool:
        """Whether nothing was published and no draft is left."""
        left = list((self.store.root / "tmp").iterdir()) if (self.store.root / "tmp").is_dir() else []
        return not left and not self.store.scan()[0]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """An empty bench."""
    return Bench(tmp_path)
