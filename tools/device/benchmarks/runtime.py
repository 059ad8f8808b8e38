"""What measuring needs of a GPU runtime, and waiting for a GPU without ever waiting for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import pynvml

from ....analysis.base.problems import LimitExceeded, Problem
from ....analysis.launches.device_clocks import ClockState, summary
from ..machine.sensors import Read, SensorReading, answer_or_none, handle_at

MONITORS = {"amd": "amd-smi or rocm-smi", "nvidia": "nvidia-smi"}
"""What shows who uses a GPU, by vendor."""
MARGIN_S = 20.0
"""Seconds a launch may take beyond what it is expected to: a shared GPU lets others run first."""


class DeviceFailure(Problem):
    """A call of a GPU runtime returned an error; after some of them nothing more can run in this process."""


@dataclass(frozen=True)
class OpenGpu:
    """One open GPU as its runtime describes it; a figure that the runtime does not tell is None."""

    vendor: str
    index: int
    name: str
    arch: str
    uuid: str
    compute_units: int
    wave_size: int
    memory_bytes: int
    free_bytes: int
    l2_bytes: int | None = None
    clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    memory_bus_bits: int | None = None
    partition: str | None = None
    dies: int | None = None
    """AMD: compute dies (XCC) of the device."""
    driver: str | None = None
    runtime: str | None = None
    compiler: str | None = None
    pci: str | None = None

    @property
    def facts(self) -> dict[str, float]:
        """The figures under the names of analysis/catalogue/gpus that theoretical ceilings are made of."""
        figures = {
            "cu_per_gpu": self.compute_units,
            "max_sclk": self.clock_max_mhz,
            "max_mclk": self.memory_clock_mhz,
            "memory_bus_bits": self.memory_bus_bits,
        }
        return {name: float(value) for name, value in figures.items() if value}


class Runtime(Protocol):
    """A GPU that is open. Every method raises DeviceFailure with the runtime's own word where a call fails."""

    device: OpenGpu

    def compile(self, source: str, defines: Mapping[str, str]) -> bytes:
        """Machine code for the device; needs no context, so several may run at once in threads."""
        ...

    def load(self, code: bytes) -> Any:
        """A module."""
        ...

    def kernel(self, module: Any, name: str, shared_bytes: int) -> Any:
        """A kernel of a module that may use so much dynamic shared memory."""
        ...

    def allocate(self, size: int) -> int:
        """The address of so many bytes of device memory, which stay until the process ends."""
        ...

    def clear(self, address: int, size: int) -> None:
        """Zero the bytes."""
        ...

    def upload(self, address: int, data: bytes) -> None:
        """Copy to the device."""
        ...

    def download(self, address: int, size: int) -> bytes:
        """Copy from the device."""
        ...

    def launch(self, kernel: Any, groups: int, threads: int, shared_bytes: int, arguments: tuple[int, ...]) -> None:
        """Put a launch into the queue: three addresses and three 64-bit numbers (kernels/portable.h)."""
        ...

    def event(self) -> Any:
        """A new event that records time."""
        ...

    def record(self, event: Any) -> None:
        """Put the event into the queue."""
        ...

    def is_done(self, event: Any) -> bool:
        """Whether the queue has passed the event."""
        ...

    def elapsed_ms(self, first: Any, last: Any) -> float:
        """Milliseconds between two events that are done."""
        ...


def wait(runtime: Runtime, event: Any, expected_s: float = 0.0, *, eagerly: bool = False) -> None:
    """Wait until the queue has passed an event, by asking: waits of the runtime itself can hang for ever.

    Raises LimitExceeded when it takes longer than expected and MARGIN_S more.
    """
    limit = time.monotonic() + expected_s + MARGIN_S
    pause = 2e-5
    while not runtime.is_done(event):
        if time.monotonic() > limit:
            raise LimitExceeded(
                f"{runtime.device.name} did not finish a launch within {expected_s + MARGIN_S:.0f} s",
                "the GPU hangs, or something else keeps it busy",
                f"Look at {MONITORS[runtime.device.vendor]}, and measure again when it is idle",
            )
        if not eagerly:
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)


def settle(runtime: Runtime, expected_s: float = 0.0) -> None:
    """Wait until everything in the queue is done."""
    event = runtime.event()
    runtime.record(event)
    wait(runtime, event, expected_s)


_EVERY_S = 0.02


class BenchmarkClocks:
    """Samples while its with block runs; without a reader there are none."""

    def __init__(self, read: Read | None) -> None:
        self._read, self._over = read, threading.Event()
        self._readings: list[SensorReading] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> BenchmarkClocks:
        if self._read:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._read:
            self._thread.join(1.0)

    @property
    def state(self) -> ClockState | None:
        """What was sampled. All of it counts: a benchmark leaves no time to be idle, whatever a slow sensor says."""
        return summary(
            [
                {
                    "clock_mhz": one.clock_mhz,
                    "power_w": one.power_w,
                    "temperature_c": one.temperature_c,
                    "busy_pct": None,
                    "held_back": None if one.held_back is None else ",".join(sorted(one.held_back)),
                }
                for one in list(self._readings)
            ]
        )

    def _sample(self) -> None:
        assert self._read is not None
        while True:
            self._readings.append(self._read())
            if self._over.wait(_EVERY_S):
                return


def driver_and_partition(pci: str) -> tuple[str | None, str | None]:
    """The driver's version, and whether the NVIDIA GPU at a PCI address is split into instances (MIG)."""
    handle = handle_at(pci)
    mig = answer_or_none(pynvml.nvmlDeviceGetMigMode, handle) if handle else None
    partition = None if mig is None else "MIG enabled" if mig[0] else "MIG disabled"
    return answer_or_none(pynvml.nvmlSystemGetDriverVersion), partition
