"""Hand-made machines: a folder that stands in for / and programs that stand in for the real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rooflens.tests import SHARED
from rooflens.tools.device.machine.model import Roots

DEVICES = SHARED / "devices"


class Machine:
    """A tree below a temporary folder, filled by the test."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.bin = base / "stand-ins"
        self.bin.mkdir(parents=True)

    @property
    def roots(self) -> Roots:
        return Roots(base=self.base, search=str(self.bin), site=None)

    def write(self, path: str, text: str) -> Path:
        """A file below the stand-in for /."""
        target = self.base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def program(self, name: str, script: str, folder: str = "stand-ins") -> Path:
        """An executable shell script that STANDS IN for a real program: what it prints is made up."""
        target = self.write(
            f"{folder}/{name}", f"#!/bin/sh\n# stand-in written by a test, not the real {name}\n{script}\n"
        )
        target.chmod(0o755)
        return target

    def node(self, number: int, bank: tuple[int, int] | None = None, **values: int) -> None:
        """One KFD node; ``bank`` is (heap type, bytes) of its memory bank."""
        folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
        self.write(f"{folder}/properties", "".join(f"{name} {value}\n" for name, value in values.items()))
        if bank:
            self.write(f"{folder}/mem_banks/0/properties", f"heap_type {bank[0]}\nsize_in_bytes {bank[1]}\n")

    def gpu(self, number: int, **changes: int) -> None:
        """A plausible MI300X node; ``changes`` replace or add properties."""
        values = {
            "simd_count": 1216, "simd_per_cu": 4, "num_xcc": 8, "gfx_target_version": 90402, "device_id": 0x74A1,
            "location_id": 0x300, "domain": 0, "drm_render_minor": 128, "max_engine_clk_fcompute": 2100,
            "local_mem_size": 0, "unique_id": 0x1234ABCD,
        }  # fmt: skip
        self.node(number, bank=(1, 206158430208), **{**values, **changes})

    def user(
        self, *, capabilities: int = 0, uid_map: str = "0 0 4294967295", paranoid: int = 2, seccomp: int = 0
    ) -> None:
        """What the kernel says about this process."""
        self.write("proc/self/status", f"Name:\ttest\nCapEff:\t{capabilities:016x}\nSeccomp:\t{seccomp}\n")
        self.write("proc/self/uid_map", f"{uid_map}\n")
        self.write("proc/sys/kernel/perf_event_paranoid", f"{paranoid}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture
def emulated(machine: Machine) -> Callable[[str], Machine]:
    """A machine whose KFD topology is one of the recorded trees."""

    def of(arch: str) -> Machine:
        tree = DEVICES / arch / "topology"
        if not tree.is_dir():
            pytest.skip("needs the recorded KFD trees in ../shared/devices, which the project does not ship")
        link = machine.base / "sys/class/kfd/kfd/topology"
        link.parent.mkdir(parents=True)
        link.symlink_to(tree)
        return machine

    return of
