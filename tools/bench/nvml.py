"""Clock, temperature, driver and partition of an NVIDIA GPU from libnvidia-ml, which comes with the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

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
