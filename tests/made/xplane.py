"""Profiles of XLA as its profiler writes them: messages of xplane.proto, encoded here field by field."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, field
from pathlib import Path

START_NS = 1_000_000
PID = 4711


def varint(value: int) -> bytes:
    """A whole number; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(at: int, value: int) -> bytes:
    """A field with a whole number."""
    return varint(at << 3) + varint(value)


def part(at: int, value: bytes | str) -> bytes:
    """A field with a text or a message."""
    content = value.encode() if isinstance(value, str) else value
    return varint(at << 3 | 2) + varint(len(content)) + content


@dataclass
class Plane:
    """An XPlane: lines and events are added, names get numbers."""

    name: str
    lines: list[bytes] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)
    own: list[bytes] = field(default_factory=list)

    def stat(self, name: str, value: int | float | str, *, referred: bool = False) -> bytes:
        """An XStat: double_value 2, int64_value 4, str_value 5, or ref_value 7 to another name."""
        known = number(1, self.stats.setdefault(name, len(self.stats) + 1))
        if isinstance(value, float):
            return known + varint(2 << 3 | 1) + struct.pack("<d", value)
        if isinstance(value, int):
            return known + number(4, value)
        return known + (number(7, self.stats.setdefault(value, len(self.stats) + 1)) if referred else part(5, value))

    def event(self, name: str, start_us: float, length_us: float, **stats: int | str) -> bytes:
        """An XEvent; its text properties are references, as XLA writes details."""
        key = self.events.setdefault(name, len(self.events) + 1)
        times = number(2, round(start_us * 1e6)) + number(3, round(length_us * 1e6))
        listed = b"".join(part(4, self.stat(n, v, referred=isinstance(v, str))) for n, v in stats.items())
        return number(1, key) + times + listed

    def line(self, key: int, name: str, *events: bytes) -> None:
        """An XLine that starts at START_NS."""
        content = b"".join(part(4, event) for event in events)
        self.lines.append(number(1, key) + part(2, name) + number(3, START_NS) + content)

    def message(self) -> bytes:
        """The XPlane: lines come before the names that they refer to."""

        def named(at: int, names: dict[str, int]) -> bytes:
            return b"".join(part(at, number(1, n) + part(2, number(1, n) + part(2, text))) for text, n in names.items())

        lines = b"".join(part(3, line) for line in self.lines)
        own = b"".join(part(6, stat) for stat in self.own)
        return number(1, 1) + part(2, self.name) + lines + named(4, self.events) + named(5, self.stats) + own


def device() -> Plane:
    """A GPU with two kernels, a copy and a fill on two streams, and what XLA derives from them."""
    gpu = Plane("/device:GPU:1")
    facts = {"device_vendor": "Nvidia", "gpu_device_name": "NVIDIA H100 80GB HBM3", "core_count": 132,
             "memory_size": 85_000_000_000, "compute_cap_major": 9, "compute_cap_minor": 0}  # fmt: skip
    gpu.own = [gpu.stat(name, value) for name, value in facts.items()]
    sizes = "regs:40 static_shared:512 dynamic_shared:1024 grid:4,2,1 block:128,1,1 occ_pct:75"
    gpu.line(
        7, "Stream #7(Kernel,Memset)",
        gpu.event("gemm_fusion", 30, 40.25, correlation_id=11, kernel_details=sizes, hlo_op="dot.1"),
        gpu.event("Memset", 80, 2, correlation_id=13, Memset_details="kind:device num_bytes:64 async:1"),
        gpu.event("loop_add_fusion", 90, 5, correlation_id=14),
    )  # fmt: skip
    copied = "kind_src:pinned kind_dst:device size:4096 dest:1 async:1"
    gpu.line(13, "Stream #13(MemcpyH2D)", gpu.event("MemcpyH2D", 71, 8, correlation_id=12, memcpy_details=copied))
    gpu.line(20, "Steps", gpu.event("0", 30, 65))
    gpu.line(21, "XLA Ops", gpu.event("dot.1", 30, 40.25), gpu.event("add.2", 90, 5))
    gpu.line(22, "_counters_", gpu.event("power_mw", 30, 0))
    return gpu


def space() -> bytes:
    """A program with one step on one GPU, with the calls and the threads of the host."""
    host = Plane("/host:CPU")
    host.own = [host.stat("process_id", PID)]
    host.line(
        100, "python", host.event("train", 1, 99, step_num=0), host.event("$loop.py:5 body", 2, 97),
        host.event("inner", 3, 50), host.event("PjitFunction(f)", 4, 40), host.event("mark", 5, 0),
    )  # fmt: skip
    calls = Plane("/host:CUPTI")
    calls.line(
        100, "Host Threads/100", calls.event("cuLaunchKernel", 10, 5, correlation_id=11),
        calls.event("cuMemcpyHtoDAsync_v2", 16, 2, correlation_id=12),
        calls.event("cuGraphLaunch (CudaGraph:3)", 60, 4, correlation_id=14),
        calls.event("cuStreamSynchronize", 65, 30, correlation_id=15),
    )  # fmt: skip
    nvtx = Plane("/host:NVTX-CUPTI")
    nvtx.line(100, "Host Threads/100/NVTX", nvtx.event("NVTX:TSL:dot.1", 9, 8))
    tpu = Plane("/device:TPU:0")
    tpu.line(1, "XLA Ops", *(tpu.event("fusion", n, 1) for n in range(3)))
    metadata = Plane("/host:metadata")
    planes = (metadata, host, calls, nvtx, device(), tpu)
    return b"".join(part(1, plane.message()) for plane in planes) + part(3, "2 events dropped") + part(4, "node01")


def write(path: Path, content: bytes | None = None) -> Path:
    """A file, packed if its name says so."""
    content = space() if content is None else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
