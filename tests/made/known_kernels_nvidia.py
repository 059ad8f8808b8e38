"""A functional model of an H200: what each metric of Nsight Compute is for a kernel, from addresses and instructions.

It shares no table with the check. Metrics are described in Nsight Compute's documentation (profiling guide, metrics
reference); time is made from the units' rates.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np

from rooflens.analysis.counter_check.known_kernels import KnownLaunch

SMS, GHZ, LANES = 132, 1.755, 32
CHAINS = {  # counter of lanes, unit, warp instructions that an SM carries out in a cycle
    "add_f32": ("fadd", "fma", 4), "mul_f32": ("fmul", "fma", 4), "fma_f32": ("ffma", "fma", 4),
    "add_f64": ("dadd", "fp64", 2), "mul_f64": ("dmul", "fp64", 2), "fma_f64": ("dfma", "fp64", 2),
    "fma_f16": ("hfma", "fma", 4), "mad_i32": ("integer", "fma", 2), "bits": ("integer", "alu", 2),
    "special_f32": ("", "xu", 0.5), "half": ("ffma", "fma", 4), "predicated": ("ffma", "fma", 4),
}  # fmt: skip
SHAPES = {"f16": (16, 4096), "bf16": (16, 4096), "tf32": (8, 2048), "f8": (32, 8192), "i8": (32, 8192)}
"""K of a product of 64 x 256, and operations of an SM in a cycle."""
SOURCES = {
    "f16": "fp16", "bf16": "bf16_dst_fp32", "tf32": "tf32_dst_fp32", "f8": "fp8", "i8": "int8", "f64": "fp64",
}  # fmt: skip


class Counted:
    """The metrics of one launch while they are counted."""

    def __init__(self, launch: KnownLaunch) -> None:
        self.launch = launch
        self.warps = launch.groups * -(-launch.threads // LANES)
        self.c: Counter[str] = Counter()
        self.cycles = 0.0
        self.bytes = 0.0

    def executed(self, times: float, lanes: float = LANES, on: float | None = None) -> None:
        """Warp instructions of any kind."""
        self.c["smsp__inst_executed.sum"] += times
        self.c["smsp__thread_inst_executed.sum"] += times * lanes
        self.c["smsp__thread_inst_executed_pred_on.sum"] += times * (lanes if on is None else on)

    def arithmetic(self, counter: str, unit: str, rate: float, times: float, lanes: float, on: float) -> None:
        self.executed(times, lanes, on)
        if counter:
            self.c[f"smsp__sass_thread_inst_executed_op_{counter}_pred_on.sum"] += times * on
        self.c[f"sm__inst_executed_pipe_{unit}.sum"] += times
        self.cycles += times / rate / SMS

    def access(self, kind: str, times: int, size: int, apart: int, *, hits: int = 0, level: str = "") -> None:
        """``times`` warp instructions; ``hits`` of them find their data in ``level``."""
        at = (np.arange(LANES) * apart)[:, None] + np.arange(size)
        sectors, lines = len(np.unique(at // 32)), len(np.unique(at // 128))
        c = self.c
        op = {"ld": "ld", "st": "st"}[kind]
        c[f"smsp__inst_executed_op_global_{op}.sum"] += times
        self.executed(times)
        c[f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"] += times
        c[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] += times * sectors
        c["l1tex__t_sectors.sum"] += times * sectors
        c["smsp__sass_data_bytes_mem_global.sum"] += times * LANES * size
        found = hits if level == "l1" else 0
        c["l1tex__t_sectors_lookup_hit.sum"] += found * sectors
        passed = (times - found) * sectors
        called = "read" if kind == "ld" else "write"
        if kind == "ld":
            c["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] += found * sectors
            c["l1tex__m_xbar2l1tex_read_bytes.sum"] += 32 * passed
            missed = (times - hits) * sectors
            c["dram__bytes_read.sum"] += 32 * missed
        else:
            c["l1tex__m_l1tex2xbar_write_bytes.sum"] += 32 * passed
            missed = 0
            c["dram__bytes_write.sum"] += times * LANES * size if times * LANES * size > 60e6 else 0
        c[f"lts__t_sectors_srcunit_tex_op_{called}.sum"] += passed
        c[f"lts__t_requests_srcunit_tex_op_{called}.sum"] += (times - found) * lines
        c["lts__t_sectors_srcunit_tex.sum"] += passed
        c["lts__t_sectors.sum"] += passed
        c["lts__t_requests_srcunit_tex.sum"] += (times - found) * lines
        c["lts__t_sectors_srcunit_tex_lookup_miss.sum"] += missed
        c["lts__t_sectors_srcunit_tex_lookup_hit.sum"] += passed - missed
        c["lts__t_sectors_lookup_hit.sum"] += passed - missed
        self.bytes += times * LANES * size

    def shared(self, kind: str, times: int, apart: int = 1) -> None:
        """Accesses to shared memory by lanes that are ``apart`` words from each other."""
        banks = Counter((np.arange(LANES) * apart % 32).tolist())
        each = max(banks.values())
        self.executed(times)
        self.c[f"smsp__inst_executed_op_shared_{kind}.sum"] += times
        self.c[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum"] += times * each
        self.c[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{kind}.sum"] += times * (each - 1)
        self.cycles += times * each / SMS


def counted(launch: KnownLaunch) -> dict[str, float]:
    """Metrics of a launch, and its nanoseconds under gpu__time_duration.sum."""
    one = Counted(launch)
    w, r, short, c = one.warps, launch.rounds, launch.name.removeprefix("known_"), one.c
    busy = min(SMS, launch.groups)
    resident = min(64, 8 * -(-launch.groups // SMS))
    spun = 0.0
    states: dict[str, float] = {}
    if short in CHAINS or short in ("add_f16", "mul_f16", "convert", "diverge"):
        size = 8 if short.endswith("f64") else 4
        one.access("ld", 16 * w, size, size)
        one.access("st", 16 * w, size, size)
        if short in CHAINS:
            counter, unit, rate = CHAINS[short]
            lanes, on = (16, 16) if short == "half" else (32, 16) if short == "predicated" else (32, 32)
            one.arithmetic(counter, unit, rate, 128 * r * w, lanes, on)
        elif short == "convert":
            one.arithmetic("conversion", "xu", 0.5, 256 * r * w, 32, 32)
        elif short == "diverge":
            one.arithmetic("ffma", "fma", 4, 16 * r * w, 16, 16)
            one.arithmetic("fadd", "fma", 4, 16 * r * w, 16, 16)
            c["smsp__sass_branch_targets_threads_divergent.sum"] = w * r
        else:
            one.arithmetic("h" + short[:3], "fma", 4, 64 * r * w, 32, 32)
            one.arithmetic("hfma", "fma", 4, 64 * r * w, 32, 32)
    elif "mma_" in short:
        kind = short.rsplit("_", 1)[1]
        if short.startswith("wgmma"):
            depth, rate = SHAPES[kind]
            products, each = launch.groups * 2 * r * 8, 2 * 64 * 256 * depth
            c["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"] = products * (64 + 256) * 32 / 128
            instructions = 4 * products
        else:
            products = instructions = w * r * 32
            each, rate = 2 * 16 * 8 * 16, {"f16": 4096, "f64": 256}[kind]
        c[f"sm__ops_path_tensor_src_{SOURCES[kind]}.sum"] = products * each
        c["sm__inst_executed_pipe_tensor.sum"] = instructions
        one.executed(instructions)
        one.cycles += products * each / rate / SMS
        c["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"] = 100.0
    elif short.startswith(("read_", "copy_", "reread_", "write_")):
        _streams(one, short)
    elif short.startswith("add"):
        times = 4 * r * w
        c[
            "smsp__inst_executed_op_generic_atom.sum" if "fetch" in short else "smsp__inst_executed_op_global_red.sum"
        ] = times
        one.executed(times)
        op = "atom" if "fetch" in short else "red"
        c[f"lts__t_sectors_srcunit_tex_op_{op}.sum"] = 4 * times
        c["lts__t_requests_srcunit_tex_op_" + ("atom_dot_alu" if op == "atom" else op) + ".sum"] = times
        c["lts__t_sectors_srcunit_tex.sum"] = c["lts__t_sectors.sum"] = 4 * times
        c["lts__t_requests_srcunit_tex.sum"] = times
    elif short == "scratch":
        for op in ("ld", "st"):
            c[f"smsp__inst_executed_op_local_{op}.sum"] = 8 * r * w
            c[f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum"] = 8 * r * w
            c[f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum"] = 32 * r * w
            c[f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}_lookup_hit.sum"] = 32 * r * w
            c["l1tex__t_sectors.sum"] += 32 * r * w
            c["l1tex__t_sectors_lookup_hit.sum"] += 32 * r * w
        one.executed(16 * r * w)
        one.access("st", w, 4, 4)
    elif short.startswith("lds_"):
        kind = {"read": "ld", "write": "st", "add": "atom"}[short.split("_")[1]]
        one.shared("st", 32 * w)
        one.shared("ld", w)
        one.shared(kind, 8 * r * w, launch.step)
        one.access("st", w, 4, 4)
    elif short.startswith("async"):
        c["smsp__inst_executed_op_ldgsts.sum"] = 4 * r * w
        way = "bypass" if "past" in short else "access"
        c[f"smsp__sass_data_bytes_mem_global_op_ldgsts_cache_{way}.sum"] = 4 * r * w * LANES * 16
        one.bytes += 4 * r * w * LANES * 16
        one.access("st", w, 16, 16)
        one.executed(4 * r * w)
    elif short == "bulk":
        moved = launch.groups * r * 8192
        c["smsp__inst_executed_op_tma_ld.sum"] = c["smsp__inst_executed_op_tma_st.sum"] = launch.groups * r
        c["l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"] = c["l1tex__m_xbar2l1tex_read_bytes.sum"] = moved
        c["l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"] = moved
        c["l1tex__m_l1tex2xbar_write_bytes.sum"] = moved
        one.bytes += 2 * moved
        one.executed(2 * r * launch.groups)
    elif short == "cluster":
        c["l1tex__t_sectors_pipe_lsu_mem_dshared.sum"] = c["l1tex__t_sectors.sum"] = 8 * r * w * 4
        one.executed(8 * r * w)
        one.cycles += 8.0 * r * w / SMS
    elif short in ("spin", "spin_some", "barrier"):
        spun = float(launch.step * r)
        one.executed(10 * w)
        states = {"barrier": 0.75} if short == "barrier" else {}
    elif short == "sleep":
        spun, states = 2000.0 * r, {"sleeping": 1.0}
        one.executed(4 * r * w)
    elif short == "chase":
        one.access("ld", 16 * r * w, 4, 0, hits=16 * r * w, level="l2")
        spun, states = 16 * r * 270.0, {"long_scoreboard": 0.97}
        resident = 2
    cycles = spun or max(one.cycles, one.bytes / 2400.0) + 300.0
    return {**c, **_whole(one, cycles, busy, resident, states), "gpu__time_duration.sum": cycles / GHZ}


def _streams(one: Counted, short: str) -> None:
    r, w = one.launch.rounds, one.warps
    apart = int(short.rsplit("_", 1)[1]) if short[-1].isdigit() and not short.startswith("reread") else 4
    size = 4 if "every" in short else apart
    if short == "reread_vl1d":
        one.access("ld", 8 * r * w, 4, 4, hits=8 * (r - 1) * w, level="l1")
    elif short == "reread_l2":
        one.access("ld", 4 * r * w, 16, 16, hits=4 * r * w - 16 * w, level="l2")
    elif short.startswith("write_"):
        one.access("st", 4 * r * w, size, apart)
        return
    else:
        one.access("ld", 4 * r * w, size, apart)
    one.access(
        "st",
        4 * r * w if short == "copy_16" else w,
        size if short == "copy_16" else 4,
        apart if short == "copy_16" else 4,
    )


def _whole(one: Counted, cycles: float, busy: int, resident: int, states: dict[str, float]) -> dict[str, float]:
    """What follows from the cycles and the warps that were resident in them."""
    instructions = one.c["smsp__inst_executed.sum"]
    active = cycles * busy
    if one.launch.name == "known_spin_some":
        resident = 8
    resident_cycles = active * resident
    pipes = {
        f"sm__pipe_{unit}_cycles_active.avg.pct_of_peak_sustained_active":
        100 * one.c[f"sm__inst_executed_pipe_{unit}.sum"] / (rate * cycles * SMS)
        for unit, rate in (("fma", 4), ("alu", 2), ("fp64", 2))
    }  # fmt: skip
    warps = -(-one.launch.threads // LANES)
    return {
        **pipes,
        **{f"smsp__warps_issue_stalled_{name}.sum": share * resident_cycles for name, share in states.items()},
        "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active":
        100 * one.c["sm__inst_executed_pipe_xu.sum"] / (0.5 * cycles * SMS),
        "smsp__issue_active.sum": instructions, "smsp__warps_issue_stalled_selected.sum": instructions,
        "smsp__inst_executed_op_branch.sum": one.launch.rounds * one.warps,
        "smsp__sass_branch_targets_threads_uniform.sum": one.launch.rounds * one.warps,
        "gpc__cycles_elapsed.max": cycles, "sm__cycles_elapsed.avg": cycles, "sm__cycles_elapsed.sum": cycles * SMS,
        "smsp__cycles_elapsed.sum": 4 * cycles * SMS, "sm__cycles_active.sum": active,
        "sm__cycles_active.avg": active / SMS, "sm__cycles_active.max": cycles, "smsp__cycles_active.sum": 4 * active,
        "l1tex__cycles_elapsed.sum": cycles * SMS, "sm__warps_active.sum": resident_cycles,
        "smsp__warps_active.sum": resident_cycles, "launch__occupancy_limit_warps": 64 // warps,
        "launch__occupancy_limit_blocks": 32, "launch__occupancy_limit_barriers": 32,
        "launch__occupancy_limit_registers": 8,
        "launch__occupancy_limit_shared_mem": 228 // 33 if "lds" in one.launch.name else 32,
        "launch__waves_per_multiprocessor": one.launch.groups / (SMS * 8),
        "launch__registers_per_thread": 32,
    }  # fmt: skip


def written(path: Path, launches: list[KnownLaunch]) -> Path:
    """The page that ``ncu --csv --page raw --print-units base`` prints."""
    path.parent.mkdir(parents=True, exist_ok=True)
    counts = [counted(launch) for launch in launches]
    names = sorted({name for one in counts for name in one} | set(_ALL))
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size"]
    head += ["Grid Size", "Device", "CC"]
    with path.open("w", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL)
        out.writerow([*head, *names])
        out.writerow([""] * len(head) + ["ns" if "duration" in n else "%" if "pct" in n else "" for n in names])
        for number, (launch, one) in enumerate(zip(launches, counts, strict=True)):
            fixed = [number, 4711, "check", "node", launch.name, 1, 7, f"({launch.threads}, 1, 1)",
                     f"({launch.groups}, 1, 1)", 0, "9.0"]  # fmt: skip
            out.writerow([*fixed, *(repr(float(one.get(name, 0))) for name in names)])
    return path


_ALL = (
    "device__attribute_multiprocessor_count",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    "l1tex__m_l1tex2xbar_write_bytes_mem_dshared.sum", "l1tex__m_xbar2l1tex_read_bytes_mem_dshared.sum",
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red.sum", "l1tex__t_sectors_pipe_lsu_mem_dshared_op_atom.sum",
    "lts__t_requests_srcunit_tex_op_atom_dot_cas.sum", "smsp__inst_executed_op_ldsm.sum",
    "smsp__inst_executed_op_shared_stsm.sum", "smsp__sass_data_bytes_mem_global_op_atom.sum",
    "smsp__sass_data_bytes_mem_global_op_red.sum", "smsp__warps_issue_stalled_membar.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum",
)  # fmt: skip
