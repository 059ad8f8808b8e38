"""How long a profile per rank takes to import, with how much memory and how many open files.

`python benchmarks/ranks_import.py [--ranks 1024] [--launches 1000] [--format rocprofv3|rocprof-compute]` writes made
profiles of ranks, eight on a host, every launch of one of five kernels, imports the folder, and prints what it took.
Memory and open files are the most that the process had at a time.
"""

from __future__ import annotations

import argparse
import csv
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

_KERNELS = [f"void made::kernel_{n}<float, {n}>(float*, int)" for n in range(5)]
_AGENT = (
    '"Node_Id","Logical_Node_Id","Agent_Type","Cpu_Cores_Count","Simd_Count","Simd_Per_Cu","Name","Product_Name",'
    '"Gfx_Target_Version","Num_Xcc","Num_Shader_Banks","Wave_Front_Size"\n'
    '1,1,"GPU",0,416,4,"gfx90a","AMD Instinct MI210",90010,1,8,64\n'
)
_SYSINFO = {
    "workload_name": "made", "version": "3", "gpu_model": "MI210", "gpu_arch": "gfx90a", "cu_per_gpu": 104,
    "simd_per_cu": 4, "se_per_gpu": 8, "wave_size": 64, "max_waves_per_cu": 32, "max_sclk": 1700, "num_xcd": 1,
    "total_l2_chan": 32,
}  # fmt: skip


def _rows(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _trace(folder: Path, rank: int, launches: int) -> None:
    """Kernel trace of rocprofv3."""
    stem = folder / f"node{rank // 8:03d}_{rank}_{5000 + rank % 8}_rank"
    Path(f"{stem}_agent_info.csv").write_text(_AGENT)
    header = ["Kind", "Agent_Id", "Queue_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name", "Correlation_Id"]
    header += ["Start_Timestamp", "End_Timestamp", "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z"]
    header += ["Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z"]
    clock = 10**12 + rank // 8 * 10**15
    rows: list[list[object]] = [
        ["KERNEL_DISPATCH", "Agent 1", 1, n + 1, n % 5, _KERNELS[n % 5], n + 1, clock + 5000 * n,
         clock + 5000 * n + 2000 + n * 37 % 500, 256, 1, 1, 10240, 1, 1]
        for n in range(launches)
    ]  # fmt: skip
    _rows(Path(f"{stem}_kernel_trace.csv"), header, rows)


def _counters(folder: Path, rank: int, launches: int) -> None:
    """Folder of rocprof-compute with six counters."""
    own = folder / str(rank)
    own.mkdir()
    _rows(own / "sysinfo.csv", [*_SYSINFO, "hostname"], [[*_SYSINFO.values(), f"node{rank // 8:03d}"]])
    names = ["SQ_WAVES", "SQ_INSTS_VALU", "GRBM_GUI_ACTIVE", "TCC_HIT_sum", "TCC_MISS_sum", "SQ_INSTS_LDS"]
    header = ["Dispatch_ID", "Kernel_Name", "GPU_ID", "Grid_Size", "Workgroup_Size", "Start_Timestamp", "End_Timestamp"]
    rows: list[list[object]] = [
        [n, _KERNELS[n % 5], 1, 10240, 256, 10**12 + 5000 * n, 10**12 + 5000 * n + 2000, *(160 + n % 7 for _ in names)]
        for n in range(launches)
    ]
    _rows(own / "pmc_perf.csv", [*header, *names], rows)


WRITERS: dict[str, Callable[[Path, int, int], None]] = {"rocprofv3": _trace, "rocprof-compute": _counters}


def main() -> None:
    """Measure one import."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--format", choices=WRITERS, default="rocprofv3")
    asked = parser.parse_args()
    from rooflens.analysis.store.store import Store
    from rooflens.tools.import_profile import import_profile

    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "job"
        profile.mkdir()
        for rank in range(asked.ranks):
            WRITERS[asked.format](profile, rank, asked.launches)
        most, ended = [0], threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                most[0] = max(most[0], sum(1 for _ in Path("/proc/self/fd").iterdir()))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        wall, used = time.monotonic(), time.process_time()
        done = import_profile(Store(Path(folder) / "store"), str(profile))
        wall, used = time.monotonic() - wall, time.process_time() - used
        ended.set()
        watcher.join()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{asked.format}: {done.notes[0]} {done.dispatches:,} launches in {wall:.1f} s ({used:.1f} s of CPU)")
        print(f"at most {memory:,.0f} MiB of memory and {most[0]} open files")


if __name__ == "__main__":
    main()
