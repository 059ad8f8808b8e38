"""Clocks of a device while kernels run."""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType

from .runtime import Device

_SM_CLOCK, _CORE_TEMPERATURE = 1, 0
_TEXT = 96


@dataclass(frozen=True)
class Told:
    """What NVML says of a GPU once and for all; None where it does not say."""

    driver: str | None = None
    partition: str | None = None


def told(pci: str) -> Told:
    """Driver version, and whether the GPU at a PCI address is split into instances (MIG)."""
    library, handle = _library(), _handle(pci)
    if library is None:
        return Told()
    text = ctypes.create_string_buffer(_TEXT)
    driver = text.value.decode() if library.nvmlSystemGetDriverVersion(text, _TEXT) == 0 else None
    now, later = ctypes.c_uint(), ctypes.c_uint()
    if handle is None or library.nvmlDeviceGetMigMode(handle, ctypes.byref(now), ctypes.byref(later)):
        return Told(driver)
    return Told(driver, "MIG enabled" if now.value else "MIG disabled")


def sampler(pci: str) -> Callable[[], tuple[float | None, float | None]] | None:
    """A function that reads the SM clock in MHz and the temperature in °C now; None without NVML."""
    library, handle = _library(), _handle(pci)
    if library is None or handle is None:
        return None
    value = ctypes.c_uint()

    def read() -> tuple[float | None, float | None]:
        clock = None if library.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, ctypes.byref(value)) else float(value.value)
        if library.nvmlDeviceGetTemperature(handle, _CORE_TEMPERATURE, ctypes.byref(value)):
            return clock, None
        return clock, float(value.value)

    return read


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


def _handle(pci: str) -> ctypes.c_void_p | None:
    library, handle = _library(), ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByPciBusId_v2(pci.encode(), ctypes.byref(handle)):
        return None
    return handle


Read = Callable[[], tuple[float | None, float | None]]
_EVERY_S = 0.01


def reader(device: Device, sysfs: Path = Path("/sys")) -> Read | None:
    """A function that reads clock (MHz) and temperature (°C) of the device now, or None where nothing tells them."""
    if not device.pci:
        return None
    return sampler(device.pci) if device.vendor == "nvidia" else _amd(sysfs, device.pci)


@dataclass
class Clocks:
    """Samples while its with block runs; without a reader there are none."""

    read: Read | None
    _clocks: list[float] = field(default_factory=list)
    _degrees: list[float] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Clocks:
        if self.read is not None:
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._thread is not None:
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
        assert self.read is not None
        while not self._over.is_set():
            clock, degrees = self.read()
            if clock is not None:
                self._clocks.append(clock)
            if degrees is not None:
                self._degrees.append(degrees)
            time.sleep(_EVERY_S)


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
