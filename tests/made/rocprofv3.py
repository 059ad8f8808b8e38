"""Runs described once, and written as rocprofv3 writes them: CSV and JSON (as databases: rocpd.py)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

GPU = {
    "cpu_cores_count": 0, "simd_count": 1216, "max_waves_per_simd": 8, "lds_size_in_kb": 64, "wave_front_size": 64,
    "num_xcc": 8, "cu_count": 304, "array_count": 32, "num_shader_banks": 32, "simd_arrays_per_engine": 1,
    "cu_per_simd_array": 10, "simd_per_cu": 4, "gfx_target_version": 90402, "max_engine_clk_fcompute": 2100,
    "cu_per_engine": 9, "max_waves_per_cu": 32, "workgroup_max_size": 1024, "gpu_id": 4711, "name": "gfx942",
    "vendor_name": "AMD", "product_name": "AMD Instinct MI300X", "model_name": "ip discovery",
}  # fmt: skip
CPU = dict.fromkeys(GPU, 0) | {
    "num_xcc": 1,
    "name": "CPU",
    "vendor_name": "CPU",
    "product_name": "CPU",
    "model_name": "",
}
BANKS = [{"heap_type": 1, "width": 8192, "mem_clk_max": 1300, "size_in_bytes": 206141652992}]


@dataclass(frozen=True)
class Launch:
    """One dispatch; counters are per instance, so that every format can show its own sum of them."""

    kernel: str = "copy(double*, double*, int)"
    grid: tuple[int, int, int] = (1024, 1, 1)
    group: tuple[int, int, int] = (256, 1, 1)
    static_lds: int = 0
    dynamic_lds: int = 0
    scratch: int = 0
    registers: tuple[int, int, int] = (8, 4, 16)
    device: int = 1
    queue: int = 1
    duration: int = 1000
    counters: dict[str, Sequence[float]] = field(default_factory=dict)
    dispatch_id: int | None = None


@dataclass(frozen=True)
class Run:
    """One process of one run."""

    launches: tuple[Launch, ...]
    pid: int = 4711
    host: str = "node01"
    command: str = "./app -n 3"
    start: int = 9_007_199_254_740_993
    guid: int = 1
    environment: str = "{}"

    @property
    def timed(self) -> list[tuple[int, Launch, int, int]]:
        """Id, launch, start and end of every dispatch."""
        found, now = [], self.start
        for number, launch in enumerate(self.launches, 1):
            found.append((launch.dispatch_id or number, launch, now, now + launch.duration))
            now += launch.duration + 10
        return found


def run(*launches: Launch, **options: Any) -> Run:
    return Run(tuple(launches), **options)


def repeated(count: int, launch: Launch, **counters: Sequence[float]) -> list[Launch]:
    """``count`` launches; a counter's values go over them, one each."""
    return [replace(launch, counters={c: [v[i]] for c, v in counters.items()}) for i in range(count)]


class Writer:
    """Writes runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, name: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _csv(self, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
        file = self.place(name)
        with file.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            writer.writerow(header)
            writer.writerows(rows)
        return file

    def agents(self, stem: str, gpu: dict[str, Any] = GPU) -> Path:
        columns = list(GPU)
        header = ["Node_Id", "Logical_Node_Id", "Agent_Type", *(c.title() for c in columns)]
        rows = [[0, 0, "CPU", *(CPU[c] for c in columns)], [1, 1, "GPU", *(gpu[c] for c in columns)]]
        return self._csv(f"{stem}_agent_info.csv", header, rows)

    def trace(self, stem: str, made: Run) -> Path:
        """kernel_trace.csv as rocprofv3 1.0 writes it, in the order of arrival, and the agents beside it."""
        sizes = [f"{size}_Size_{axis}" for size in ("Workgroup", "Grid") for axis in "XYZ"]
        header = ["Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name",
                  "Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size", "Scratch_Size", "VGPR_Count",
                  "Accum_VGPR_Count", "SGPR_Count", *sizes]  # fmt: skip
        rows = [
            ["KERNEL_DISPATCH", f"Agent {d.device}", d.queue, 0, made.pid, i, 1, d.kernel, i, start, end,
             d.static_lds, d.scratch, *d.registers, *d.group, *d.grid]
            for i, d, start, end in sorted(made.timed, key=lambda timed: -timed[0] % 3)
        ]  # fmt: skip
        self.agents(stem)
        return self._csv(f"{stem}_kernel_trace.csv", header, rows)

    def counters(self, stem: str, made: Run, agents: bool = True) -> Path:
        """counter_collection.csv as rocprofv3 1.0 writes it; values are sums over instances."""
        header = ["Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size",
                  "Kernel_Id", "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count",
                  "Accum_VGPR_Count", "SGPR_Count", "Counter_Name", "Counter_Value", "Start_Timestamp",
                  "End_Timestamp"]  # fmt: skip
        rows = [
            [i, i, f"Agent {d.device}", d.queue, made.pid, made.pid, _product(d.grid), 1, d.kernel, _product(d.group),
             d.static_lds, d.scratch, *d.registers, name, Raw(f"{sum(values):.6f}"), start, end]
            for i, d, start, end in made.timed
            for name, values in d.counters.items()
        ]  # fmt: skip
        if agents:
            self.agents(stem)
        return self._csv(f"{stem}_counter_collection.csv", header, rows)

    def json(self, name: str, *runs: Run) -> Path:
        """results.json: launches with counters among the callback records, all launches among the buffer records."""
        file = self.place(name)
        file.write_text(json.dumps({"rocprofiler-sdk-tool": [_as_json(r) for r in runs]}))
        return file


class Raw(float):
    """A number that the CSV writer writes as the text it was made from."""

    def __new__(cls, text: str) -> Raw:
        found = super().__new__(cls, text)
        found.text = text  # type: ignore[attr-defined]
        return found

    def __repr__(self) -> str:
        return self.text  # type: ignore[attr-defined,no-any-return]

    __str__ = __repr__


def _product(sides: Sequence[int]) -> int:
    return sides[0] * sides[1] * sides[2]


def _as_json(made: Run) -> dict[str, Any]:
    kernels = sorted({d.kernel for d in made.launches})
    counters = sorted({c for d in made.launches for c in d.counters})
    handles = {c: 2**63 + 17 + n for n, c in enumerate(counters)}  # instance bits fill the upper half
    traced, counted = [], []
    for i, d, start, end in made.timed:
        info = {
            "size": 72, "agent_id": {"handle": 54000 + d.device}, "queue_id": {"handle": d.queue},
            "kernel_id": kernels.index(d.kernel) + 1, "dispatch_id": i, "private_segment_size": d.scratch,
            "group_segment_size": d.static_lds + d.dynamic_lds,
            "workgroup_size": dict(zip("xyz", d.group, strict=True)),
            "grid_size": dict(zip("xyz", d.grid, strict=True)),
        }  # fmt: skip
        timing = {"start_timestamp": start, "end_timestamp": end, "dispatch_info": info}
        traced.append({"size": 184, "kind": 11, "operation": 2, "thread_id": made.pid, **timing})
        if d.counters:
            records = [{"counter_id": {"handle": handles[c]}, "value": v} for c, vs in d.counters.items() for v in vs]
            vgpr, _, sgpr = d.registers
            counted.append({"thread_id": made.pid, "dispatch_data": {"size": 1, **timing}, "records": records,
                            "arch_vgpr_count": vgpr, "sgpr_count": sgpr, "lds_block_size_v": d.static_lds})  # fmt: skip
    of_kernel = {d.kernel: d for d in made.launches}
    return {
        "metadata": {"pid": made.pid, "init_time": made.start - 100, "fini_time": made.timed[-1][3] + 100,
                     "command": made.command.split(), "node": {"hostname": made.host}},
        "agents": [
            {"id": {"handle": 54000}, "type": 1, **CPU, "node_id": 0, "logical_node_id": 0, "mem_banks": []},
            {"id": {"handle": 54001}, "type": 2, **GPU, "node_id": 1, "logical_node_id": 1, "mem_banks": BANKS},
        ],
        "counters": [{"id": {"handle": handles[c]}, "name": c, "is_derived": 0} for c in counters],
        "strings": {"callback_records": [], "counters": {"dimension_ids": []}},
        "kernel_symbols": [{"kernel_id": 0, "kernel_name": "", "formatted_kernel_name": ""}] + [
            {"kernel_id": n, "kernel_name": f"_Z{n}.kd", "formatted_kernel_name": name,
             **dict(zip(("arch_vgpr_count", "accum_vgpr_count", "sgpr_count"), of_kernel[name].registers, strict=True))}
            for n, name in enumerate(kernels, 1)
        ],
        "callback_records": {"counter_collection": counted, "spm_counter_collection": []},
        "buffer_records": {"kernel_dispatch": traced, "hip_api": [], "memory_copy": []},
    }  # fmt: skip
