"""A functional model of CDNA: what each counter of a kernel is by its documented meaning, from addresses.

It shares no table with the check. Counters are described in AMD's documents (rocprofiler-sdk, counter definitions; ROCm
Compute Profiler, pipeline descriptions); time is made from the units' rates.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rooflens.analysis.counter_check.known_kernels import KnownLaunch

LANES = 64
ROUND = 128
"""Instructions of a round of an arithmetic kernel."""


@dataclass(frozen=True)
class Device:
    """One device as its data sheet has it."""

    arch: str
    model: str
    cus: int
    dies: int
    mhz: float
    vl1d_line: int
    matrix_f16: float
    """FLOP of FP16 products per clock and compute unit."""
    ea: str = "TCC_EA0"


DEVICES = {
    "gfx90a": Device("gfx90a", "MI200", 104, 1, 1700.0, 64, 1024.0, "TCC_EA"),
    "gfx942": Device("gfx942", "MI300X_A1", 304, 8, 2100.0, 128, 2048.0),
    "gfx950": Device("gfx950", "MI350", 256, 8, 2400.0, 128, 4096.0),
}
CHAINS = {
    "add_f16": "ADD_F16", "mul_f16": "MUL_F16", "fma_f16": "FMA_F16", "add_f32": "ADD_F32", "mul_f32": "MUL_F32",
    "fma_f32": "FMA_F32", "add_f64": "ADD_F64", "mul_f64": "MUL_F64", "fma_f64": "FMA_F64", "mad_i32": "INT32",
    "special_f16": "TRANS_F16", "special_f32": "TRANS_F32", "special_f64": "TRANS_F64", "half": "FMA_F32",
    "pairs_f16": "FMA_F16", "pairs_f32": "FMA_F32", "convert": "CVT",
}  # fmt: skip
PRODUCTS = {  # operations of one instruction, by the shape in its name
    "f16": 2 * 32 * 32 * 8, "bf16": 2 * 32 * 32 * 8, "f32": 2 * 32 * 32 * 2, "f64": 2 * 16 * 16 * 4,
    "i8": 2 * 32 * 32 * 8, "f8": 2 * 32 * 32 * 16, "mxf4": 2 * 32 * 32 * 64,
}  # fmt: skip
WIDER = {("gfx942", "i8"): 2, ("gfx950", "i8"): 4, ("gfx950", "f16"): 2, ("gfx950", "bf16"): 2}


class Counted:
    """The counters of one launch while they are counted."""

    def __init__(self, device: Device, launch: KnownLaunch) -> None:
        self.device, self.launch = device, launch
        self.waves = launch.groups * -(-launch.threads // LANES)
        self.c: Counter[str] = Counter()
        self.cycles = 0.0
        self.bytes = 0.0

    def valu(self, name: str, times: float, cycles: float = 4.0, lanes: int = LANES) -> None:
        """So many wave instructions; a SIMD takes each for 4 cycles or more."""
        if name:
            self.c[f"SQ_INSTS_VALU_{name}"] += times
        self.c["SQ_INSTS_VALU"] += times
        self.c["SQ_ACTIVE_INST_VALU"] += times * cycles / 4
        self.c["SQ_THREAD_CYCLES_VALU"] += times * cycles / 4 * lanes
        self.cycles += times * cycles / (4 * self.device.cus)

    def access(self, kind: str, times: int, size: int, apart: int, *, again: int = 0, past: bool = False) -> None:
        """``times`` wave instructions whose lanes are ``apart`` bytes from each other; ``again`` of them are hits.

        ``past``: they hit in L2 and not in the vector L1.
        """
        at = np.arange(LANES) * apart
        touched = (at[:, None] + np.arange(size)).ravel()
        lines = len(np.unique(touched // self.device.vl1d_line))
        small = len(np.unique(touched // 64))
        c, ea = self.c, self.device.ea
        c[f"TA_FLAT_{kind}_WAVEFRONTS_sum"] += times
        c["TA_FLAT_WAVEFRONTS_sum"] += times
        c["TA_TOTAL_WAVEFRONTS_sum"] += times
        c["SQ_INSTS_VMEM"] += times
        c["TD_LOAD_WAVEFRONT_sum"] += times
        if kind == "READ":
            missed = times - (0 if past else again)
            c["TCP_TOTAL_CACHE_ACCESSES_sum"] += times * lines
            c["TCP_TCC_READ_REQ_sum"] += missed * lines
            # Two requests of 64 bytes for one line of 128 are made one.
            whole_lines = len(np.unique(touched // 128))
            c["TCC_READ_sum"] += missed * whole_lines
            c["TCC_REQ_sum"] += missed * whole_lines
            c["TCC_MISS_sum"] += (times - again) * whole_lines
            c["TCC_HIT_sum"] += (missed - (times - again)) * whole_lines
            self._fabric_read((times - again) * small * 64, ea)
        elif kind == "WRITE":
            c["TD_STORE_WAVEFRONT_sum"] += times
            c["TCP_TOTAL_CACHE_ACCESSES_sum"] += times * lines
            c["TCP_TCC_WRITE_REQ_sum"] += times * small
            c["TCC_WRITE_sum"] += times * small
            c["TCC_REQ_sum"] += times * small
            c["TCC_HIT_sum"] += times * small / 2
            c["TCC_MISS_sum"] += times * small / 2
            whole = size == apart or apart <= size
            c[f"{ea}_WRREQ_sum"] += times * small
            c[f"{ea}_WRREQ_DRAM_sum"] += times * small
            c[f"{ea}_WRREQ_64B_sum"] += times * small if whole else 0
            c[f"{ea}_WRREQ_WRITE_DRAM_32B_sum"] += times * small * (2 if whole else 1)
        else:
            c["TD_ATOMIC_WAVEFRONT_sum"] += times
            c["TCC_ATOMIC_sum"] += times * small
            c["TCC_REQ_sum"] += times * small
        self.bytes += times * LANES * size

    def _fabric_read(self, amount: float, ea: str) -> None:
        c = self.c
        if self.device.arch == "gfx90a":
            requests = amount / 64
        else:
            requests = amount / 128
            c["TCC_BUBBLE_sum" if self.device.arch == "gfx942" else f"{ea}_RDREQ_128B_sum"] += requests
        c[f"{ea}_RDREQ_sum"] += requests
        c[f"{ea}_RDREQ_DRAM_sum"] += requests
        c[f"{ea}_RDREQ_DRAM_32B_sum"] += amount / 32

    def lds(self, times: int, apart: int) -> None:
        """Wave instructions on LDS whose lanes are ``apart`` words from each other: 32 banks of 4 bytes, half a wave
        at a time."""
        banks = Counter((np.arange(32) * apart % 32).tolist())
        each = 2 * max(banks.values())
        self.c["SQ_INSTS_LDS"] += times
        self.c["SQ_LDS_IDX_ACTIVE"] += times * each
        self.c["SQ_LDS_BANK_CONFLICT"] += times * (each - 2)
        self.cycles += times * each / self.device.cus


def counted(device: Device, launch: KnownLaunch) -> dict[str, float]:
    """Counters and ``ns`` of a launch."""
    one = Counted(device, launch)
    w, r, short = one.waves, launch.rounds, launch.name.removeprefix("known_")
    c = one.c
    c["SQ_WAVES"] = w
    c["SPI_CSN_WAVE"] = c["SPI_CS0_WAVE"] = w
    c["SPI_CSN_NUM_THREADGROUPS"] = c["SPI_CS0_NUM_THREADGROUPS"] = launch.groups
    c["SQ_INSTS_SALU"] = c["SQ_INSTS_BRANCH"] = r * w
    c["SQ_INSTS_SMEM"] = c["SQC_DCACHE_REQ"] = c["SQC_DCACHE_REQ_READ_4"] = w
    busy = device.cus
    spun = 0.0
    if short in CHAINS:
        size = 8 if short.endswith("f64") or short == "pairs_f32" else 4
        one.access("READ", 16 * w, size, size)
        one.access("WRITE", 16 * w, size, size)
        slow = 16.0 if "special" in short else 4.0
        one.valu(CHAINS[short], (2 if short == "convert" else 1) * ROUND * r * w, slow, 32 if short == "half" else 64)
    elif short == "diverge":
        one.access("READ", 16 * w, 4, 4)
        one.access("WRITE", 16 * w, 4, 4)
        one.valu("FMA_F32", 16 * r * w, lanes=32)
        one.valu("ADD_F32", 16 * r * w, lanes=32)
    elif short == "scalar":
        c["SQ_INSTS_SALU"] += ROUND * r * w
        one.cycles += ROUND * r * w / device.cus
        one.access("WRITE", w, 4, 4)
    elif short == "scalar_read":
        for dwords in (1, 2, 4, 8, 16):
            c[f"SQC_DCACHE_REQ_READ_{dwords}"] += r * w
        c["SQC_DCACHE_REQ"] += 5 * r * w
        c["SQ_INSTS_SMEM"] += 5 * r * w
        one.access("WRITE", w, 4, 4)
    elif short.startswith("mfma_"):
        kind = short.removeprefix("mfma_")
        number, each = 16 * r * w, PRODUCTS[kind] * WIDER.get((device.arch, kind), 1)
        called = {"mxf4": "F6F4"}.get(kind, kind.upper())
        c["SQ_INSTS_MFMA"] = c[f"SQ_INSTS_VALU_MFMA_{called}"] = number
        c[f"SQ_INSTS_VALU_MFMA_MOPS_{called}"] = number * each / 512
        c["SQ_INSTS_VALU"] += number
        rate = device.matrix_f16 * {"f32": 0.25, "f64": 0.25}.get(kind, 1.0)
        c["SQ_VALU_MFMA_BUSY_CYCLES"] = 4 * number * each / rate
        one.cycles += number * each / rate / device.cus
    elif short.startswith(("read_", "copy_", "reread_")):
        _reads(one, short)
    elif short.startswith("write_"):
        apart = {"4": 4, "16": 16}.get(short.removeprefix("write_"), int(short.rsplit("_", 1)[1]))
        one.access("WRITE", 4 * r * w, 16 if short == "write_16" else 4, apart)
    elif short.startswith("add"):
        one.access("ATOMIC", 4 * r * w, 4, 4)
        small = LANES * 4 // 64
        c["TCP_TCC_ATOMIC_WITH_RET_REQ_sum" if "fetch" in short else "TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum"] += (
            4 * r * w * small
        )
    elif short == "scratch":
        for kind in ("READ", "WRITE"):
            c[f"TA_BUFFER_{kind}_WAVEFRONTS_sum"] += 8 * r * w
            c["TA_BUFFER_WAVEFRONTS_sum"] += 8 * r * w
        one.access("WRITE", w, 4, 4)
        one.cycles += 100.0 * r
    elif short.startswith("lds_"):
        parts = short.split("_")
        one.lds(32 * w, 1)
        one.lds(w, 1)
        one.lds(8 * r * w, int(parts[2]) if len(parts) > 2 else 1)
        one.access("WRITE", w, 4, 4)
    elif short in ("spin", "spin_some", "barrier"):
        spun = float(launch.step * r)
        busy = min(device.cus, launch.groups)
    elif short == "chase":
        one.access("READ", 16 * r * w, 4, 0, again=16 * r * w)
        one.cycles += 500.0 * 16 * r
    else:
        one.cycles += 2000.0 * r
    cycles = spun or max(one.cycles, one.bytes / 2000.0) + 500.0
    ns = 1000 * cycles / device.mhz
    c["GRBM_GUI_ACTIVE"] = cycles * device.dies
    c["SQ_BUSY_CU_CYCLES"] = cycles * busy
    # Quad-cycles; every wave of these is resident as long as the kernel.
    c["SQ_WAVE_CYCLES"] = w * cycles / 4
    c["SQ_LEVEL_WAVES_ACCUM"] = w * cycles
    return {**c, "ns": ns}


def _reads(one: Counted, short: str) -> None:
    r, w = one.launch.rounds, one.waves
    if short == "reread_vl1d":
        one.access("READ", 8 * r * w, 4, 4, again=8 * (r - 1) * w)
    elif short == "reread_l2":
        one.access("READ", 4 * r * w, 16, 16, again=4 * r * w - 16 * w, past=True)
    else:
        apart = int(short.rsplit("_", 1)[1])
        one.access("READ", 4 * r * w, 4 if "every" in short else apart, apart)
    if short == "copy_16":
        one.access("WRITE", 4 * r * w, 16, 16)
    else:
        one.access("WRITE", w, 4, 4)


def written(folder: Path, device: Device, launches: list[KnownLaunch]) -> Path:
    """The profile of these launches as rocprof-compute leaves one: pmc_perf.csv beside sysinfo.csv."""
    folder.mkdir(parents=True)
    counts = [counted(device, launch) for launch in launches]
    names = sorted({name for one in counts for name in one} - {"ns"})
    names += [name for name in _ALL if name.replace("EA", device.ea[4:]) not in names and name not in names]
    now, rows = 1_000_000, []
    for number, (launch, one) in enumerate(zip(launches, counts, strict=True)):
        end = now + round(one["ns"])
        fixed = [number, f"{launch.name}.kd", 0, launch.groups * launch.threads, launch.threads,
                 32768 if "lds" in launch.name else 0, 0, 32, 0, 32, 64, 0, now, end]  # fmt: skip
        rows.append([*fixed, *(one.get(name, 0) for name in names)])
        now = end + 1000
    head = ["Dispatch_ID", "Kernel_Name", "GPU_ID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup",
            "Scratch_Per_Workitem", "Arch_VGPR", "Accum_VGPR", "SGPR", "wave_size", "obj", "Start_Timestamp",
            "End_Timestamp"]  # fmt: skip
    with (folder / "pmc_perf.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*head, *names], *rows])
    system = {"workload_name": "check", "rocm_version": "7.0.0", "gpu_model": device.model, "gpu_arch": device.arch,
              "cu_per_gpu": device.cus, "simd_per_cu": 4, "wave_size": 64, "max_waves_per_cu": 32,
              "max_sclk": device.mhz, "cur_sclk": device.mhz, "total_l2_chan": 16 * max(2, device.dies),
              "num_xcd": device.dies, "se_per_gpu": 8, "lds_banks_per_cu": 32}  # fmt: skip
    with (folder / "sysinfo.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(system), list(system.values())])
    return folder


_ALL = (
    "SQ_INSTS_FLAT_LDS_ONLY", "SQ_INSTS_VALU_INT64", "SQ_INSTS_VALU_INT32", "SQ_INSTS_VALU_MFMA_MOPS_F8",
    "SQ_INSTS_VALU_MFMA_F8", "SQ_INSTS_VALU_MFMA_MOPS_F6F4", "TCC_EA0_RDREQ_32B_sum", "TCC_EA_RDREQ_32B_sum",
    "TCC_EA0_RDREQ_64B_sum", "TCC_BUBBLE_sum", "SPI_CS1_WAVE", "SPI_CS2_WAVE", "SPI_CS3_WAVE",
    "SPI_CS1_NUM_THREADGROUPS", "SPI_CS2_NUM_THREADGROUPS", "SPI_CS3_NUM_THREADGROUPS",
)  # fmt: skip
