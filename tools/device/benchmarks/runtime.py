"""The interface to a GPU runtime, and waiting for a GPU without ever blocking forever."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pynvml

from ....analysis.base.problems import LimitExceeded, Problem
from ..machine.sensors import answer_or_none, handle_at

MONITORS = {"amd": "amd-smi or rocm-smi", "nvidia": "nvidia-smi"}
"""Programs that show who is using a GPU, by vendor."""
MARGIN_S = 20.0
"""Seconds that a launch may take beyond the expected time, because other users of a shared GPU may run first."""


class DeviceFailure(Problem):
    """A call of a GPU runtime returned an error; after some errors nothing more can run in this process."""


def result(call: str, answer: Any) -> Any:
    """Return the results of a call of a runtime; raise DeviceFailure with its status if it failed."""
    status, *results = answer if isinstance(answer, tuple) else (answer,)
    if int(status):
        raise DeviceFailure(f"GPU runtime error: {call} returned {status_text(status)}")
    return results[0] if len(results) == 1 else results


def status_text(status: Any) -> str:
    """Return the name and the number of a status."""
    return f"{getattr(status, 'name', status)} ({int(status)})"


@dataclass(frozen=True)
class OpenGpu:
    """An open GPU as its runtime describes it; values that the runtime does not report are None."""

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
    """AMD: number of compute dies (XCC) of the device."""
    driver: str | None = None
    runtime: str | None = None
    compiler: str | None = None
    pci: str | None = None

    @property
    def facts(self) -> dict[str, float]:
        """Return the values from which theoretical ceilings are computed, named as in analysis/catalogue/gpus."""
        figures = {
            "cu_per_gpu": self.compute_units,
            "max_sclk": self.clock_max_mhz,
            "max_mclk": self.memory_clock_mhz,
            "memory_bus_bits": self.memory_bus_bits,
        }
        return {name: float(value) for name, value in figures.items() if value}


class Runtime(Protocol):
    """An open GPU. Every method raises DeviceFailure with the runtime's own error if a call fails."""

    device: OpenGpu

    def compile(self, source: str, defines: Mapping[str, str]) -> bytes:
        """Compile to machine code for the device; no context is needed, so several calls may run in threads."""

    def load(self, code: bytes) -> Any:
        """Load a module."""

    def kernel(self, module: Any, name: str, shared_bytes: int) -> Any:
        """Return a kernel of a module that may use ``shared_bytes`` of dynamic shared memory."""

    def allocate(self, size: int) -> int:
        """Return the address of ``size`` bytes of device memory, which are not freed until the process ends."""

    def clear(self, address: int, size: int) -> None:
        """Set the bytes to zero."""

    def upload(self, address: int, data: bytes) -> None:
        """Copy to the device."""

    def download(self, address: int, size: int) -> bytes:
        """Copy from the device."""

    def launch(self, kernel: Any, groups: int, threads: int, shared_bytes: int, arguments: tuple[int, ...]) -> None:
        """Enqueue a launch; its arguments are three addresses and three 64-bit numbers (kernels/portable.h)."""

    def event(self) -> Any:
        """Create an event that records time."""

    def record(self, event: Any) -> None:
        """Enqueue the event."""

    def is_done(self, event: Any) -> bool:
        """Whether the queue has passed the event."""

    def elapsed_ms(self, first: Any, last: Any) -> float:
        """Return the milliseconds between two completed events."""


_NOT_READY = 600
"""The status of an event that the queue has not passed yet, of both libraries."""


class DriverCalls:
    """The functions that HIP has in common with CUDA's driver, under another prefix, on the default stream."""

    def __init__(self, library: Any, prefix: str, stream: int | None) -> None:
        self._library, self._prefix, self._stream = library, prefix, stream

    def _call(self, name: str, *arguments: Any) -> Any:
        return result(self._prefix + name, getattr(self._library, self._prefix + name)(*arguments))

    def record(self, event: Any) -> None:
        self._call("EventRecord", event, self._stream)

    def is_done(self, event: Any) -> bool:
        (status,) = getattr(self._library, f"{self._prefix}EventQuery")(event)
        if int(status) == _NOT_READY:
            return False
        result("a launch", (status,))
        return True

    def elapsed_ms(self, first: Any, last: Any) -> float:
        return float(self._call("EventElapsedTime", first, last))


def wait(runtime: Runtime, event: Any, expected_s: float = 0.0, *, eagerly: bool = False) -> None:
    """Wait by polling until the queue has passed an event, because the runtime's own waits can block forever.

    Raises LimitExceeded if this takes longer than the expected time and MARGIN_S together.
    """
    limit = time.monotonic() + expected_s + MARGIN_S
    pause = 2e-5
    while not runtime.is_done(event):
        if time.monotonic() > limit:
            raise LimitExceeded(
                f"{runtime.device.name} did not finish a launch within {expected_s + MARGIN_S:.0f} s",
                "the GPU hangs, or another program keeps it busy",
                f"Check {MONITORS[runtime.device.vendor]}, and measure again when the GPU is idle",
            )
        if not eagerly:
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)


def settle(runtime: Runtime, expected_s: float = 0.0) -> None:
    """Wait until everything in the queue is done."""
    event = runtime.event()
    runtime.record(event)
    wait(runtime, event, expected_s)


def driver_and_partition(pci: str) -> tuple[str | None, str | None]:
    """Return the driver's version, and whether the NVIDIA GPU at a PCI address is split into instances (MIG)."""
    handle = handle_at(pci)
    mig = answer_or_none(pynvml.nvmlDeviceGetMigMode, handle) if handle else None
    partition = None if mig is None else "MIG enabled" if mig[0] else "MIG disabled"
    return answer_or_none(pynvml.nvmlSystemGetDriverVersion), partition
