"""Clocks and temperatures of a GPU while kernels run, from NVML or from the files of the amdgpu driver."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import pynvml

from .runtime import OpenGpu

Read = Callable[[], tuple[float | None, float | None]]
"""Reads the clock in MHz and the temperature in °C now; None for what nothing tells."""
_EVERY_S = 0.01


def reader(gpu: OpenGpu, sysfs: Path = Path("/sys")) -> Read | None:
    """A function that reads clock and temperature of the GPU, or None where nothing tells them."""
    if not gpu.pci:
        return None
    return _nvidia(gpu.pci) if gpu.vendor == "nvidia" else _amd(sysfs, gpu.pci)


class Clocks:
    """Samples while its with block runs; without a reader there are none."""

    def __init__(self, read: Read | None) -> None:
        self._read, self._over = read, threading.Event()
        self._clocks: list[float] = []
        self._degrees: list[float] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Clocks:
        if self._read:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._read:
            self._thread.join(1.0)

    @property
    def mhz(self) -> float | None:
        """The median clock."""
        return statistics.median(self._clocks) if self._clocks else None

    @property
    def celsius(self) -> float | None:
        """The highest temperature."""
        return max(self._degrees, default=None)

    def _sample(self) -> None:
        assert self._read is not None
        while True:
            clock, degrees = self._read()
            if clock is not None:
                self._clocks.append(clock)
            if degrees is not None:
                self._degrees.append(degrees)
            if self._over.wait(_EVERY_S):
                return


def driver_and_partition(pci: str) -> tuple[str | None, str | None]:
    """The driver's version, and whether the NVIDIA GPU at a PCI address is split into instances (MIG)."""
    handle = _handle(pci)
    mig = _known(pynvml.nvmlDeviceGetMigMode, handle) if handle else None
    partition = None if mig is None else "MIG enabled" if mig[0] else "MIG disabled"
    return _known(pynvml.nvmlSystemGetDriverVersion), partition


def _nvidia(pci: str) -> Read | None:
    handle = _handle(pci)
    if handle is None:
        return None

    def read() -> tuple[float | None, float | None]:
        clock = _known(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
        degrees = _known(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
        return None if clock is None else float(clock), None if degrees is None else float(degrees)

    return read


@cache
def _handle(pci: str) -> Any:
    """NVML's handle of the GPU at a PCI address; None without the library or without such a GPU."""
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByPciBusId(pci)
    except pynvml.NVMLError:
        return None


def _known(function: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML answers, or None where this GPU or this driver does not say."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _amd(sysfs: Path, pci: str) -> Read | None:
    """The amdgpu driver's hwmon files: freq1_input in Hz, temp1_input in thousandths of a degree."""
    folder = next(iter((sysfs / "bus/pci/devices" / pci.lower() / "hwmon").glob("hwmon*")), None)
    if folder is None:
        return None
    return lambda: (_number(folder / "freq1_input", 1e6), _number(folder / "temp1_input", 1e3))


def _number(path: Path, unit: float) -> float | None:
    try:
        return int(path.read_text()) / unit
    except (OSError, ValueError):
        return None
