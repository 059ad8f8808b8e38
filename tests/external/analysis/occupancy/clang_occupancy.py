"""Kernels that use a chosen number of registers, and clang's own count of their occupancy: the oracle of compiler mode.

As a program with the name of a file, it writes the table shipped as tests/data/occupancy_clang22.csv.
"""

from __future__ import annotations

import csv
import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path

CLANG = shutil.which("clang-22")
MISSING = "needs clang: apt-get install clang-22 lld-22 llvm-22"
RDNA = (
    "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151", "gfx1152", "gfx1200", "gfx1201",
)  # fmt: skip
TARGETS = ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", *RDNA)
DEVICE_ONLY = ("-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--no-gpu-bundle-output")
_REMARKS = {"vgpr": "VGPRs", "agpr": "AGPRs", "sgpr": "TotalSGPRs", "lds": r"LDS Size \[bytes/block\]",
            "occupancy": r"Occupancy \[waves/SIMD\]"}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One kernel as clang reports it: registers, static LDS in bytes, work-group size, waves per SIMD."""

    arch: str
    vgpr: int
    agpr: int
    sgpr: int
    lds: int
    wgsize: int
    occupancy: int


def random_kernels(target: str, count: int, seed: int) -> list[tuple[int, int, int, int, int]]:
    """``count`` choices of VGPRs, AGPRs, SGPRs, LDS bytes and work-group size, many of them near a threshold."""
    rng = random.Random(f"{target} {seed}")
    most = 163_840 if target == "gfx950" else 65_536
    chosen = []
    for _ in range(count):
        size = rng.choice([rng.randint(1, 1024), 64 * rng.randint(1, 16), 256])
        wide = size > 256 and target not in RDNA
        vgprs = rng.choice(
            [rng.randint(1, 120 if wide else 250), rng.choice([24, 64, 72, 80, 84, 96, 128]) + rng.randint(0, 1)]
        )
        agprs = rng.choice([0, rng.randint(1, 100)]) if target in ("gfx908", "gfx90a", "gfx942", "gfx950") else 0
        lds = rng.choice([0, rng.randint(1, most), most // rng.randint(1, 12) + rng.randint(-1, 1)])
        chosen.append((vgprs, agprs, rng.randint(1, 100), min(lds, most), size))
    return chosen


def compiled(target: str, kernels: list[tuple[int, int, int, int, int]], *options: str) -> list[Row]:
    """The remarks of clang for these kernels, in their order; a kernel that needed other registers reports those."""
    source = "".join(_kernel(i, *k) for i, k in enumerate(kernels))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.hip")
        path.write_text(source)
        command = [str(CLANG), *DEVICE_ONLY, f"--offload-arch={target}", "-O1", "-c", *options, str(path), "-o",
                   str(Path(folder, "out")), "-Rpass-analysis=kernel-resource-usage"]  # fmt: skip
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    blocks = re.split(r"Function Name: k(\d+)", done.stderr)[1:]
    found = {}
    for name, text in zip(blocks[::2], blocks[1::2], strict=True):
        values = {
            key: int(m[1]) if (m := re.search(rf"{words}: (\d+)", text)) else 0 for key, words in _REMARKS.items()
        }
        found[int(name)] = Row(arch=target, wgsize=kernels[int(name)][4], **values)
    return [found[i] for i in range(len(kernels))]


def _kernel(i: int, vgprs: int, agprs: int, sgprs: int, lds: int, size: int) -> str:
    used = [f'"v{vgprs - 1}"', f'"s{sgprs - 1}"', *([f'"a{agprs - 1}"'] if agprs else [])]
    shared = f"__attribute__((shared)) static volatile char s[{lds}]; s[0] = 0;" if lds else ""
    return (
        f'extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size({size}, {size}))) '
        f'void k{i}() {{ {shared} asm volatile("" ::: {", ".join(used)}); }}\n'
    )


if __name__ == "__main__":
    rows = [row for target in TARGETS for row in compiled(target, random_kernels(target, 6, 0))]
    with Path(sys.argv[1]).open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
