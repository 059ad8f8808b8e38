"""Runs in a child process, because a driver may hang or crash: prints what NVML and CUDA report about every GPU.

The first line of JSON is NVML's: {"driver", "gpus"}, or {"failure", "why"} with the name of its error. The second maps
each uuid to the number of SMs, which only the CUDA driver reports.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from typing import Any

_MULTIPROCESSORS = 16
"""CUdevice_attribute."""


def nvml() -> dict[str, Any]:
    """Return the driver's version and every GPU that this process may use; a lost GPU has only a failure."""
    try:
        import pynvml
    except ImportError as error:
        return {"failure": "ImportError", "why": str(error)}
    try:
        pynvml.nvmlInit()
        numbers = range(pynvml.nvmlDeviceGetCount())
        gpus = [gpu for number in numbers if (gpu := _gpu(pynvml, number))]
        return {"driver": _answer_or_none(pynvml, pynvml.nvmlSystemGetDriverVersion), "gpus": gpus}
    except pynvml.NVMLError as error:
        return {"failure": type(error).__name__, "why": str(error)}


def _gpu(pynvml: Any, index: int) -> dict[str, Any] | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError_NoPermission:
        # A device cgroup hides it from this process.
        return None
    except pynvml.NVMLError as error:
        return {"index": index, "why": str(error)}

    def ask(function: Callable[..., Any], *more: Any) -> Any:
        return _answer_or_none(pynvml, function, handle, *more)

    memory, mig = ask(pynvml.nvmlDeviceGetMemoryInfo), ask(pynvml.nvmlDeviceGetMigMode)
    place = ask(pynvml.nvmlDeviceGetPciInfo)
    return {
        "index": index,
        "name": ask(pynvml.nvmlDeviceGetName),
        "uuid": ask(pynvml.nvmlDeviceGetUUID),
        "capability": ask(pynvml.nvmlDeviceGetCudaComputeCapability),
        "clock_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        "memory_bytes": memory and memory.total,
        "mig": mig and bool(mig[0]),
        "pcie_generation": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
        "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        "pci": place and (place.busId.decode() if isinstance(place.busId, bytes) else place.busId),
    }


def _answer_or_none(pynvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the function's result, or None if this GPU or this driver does not provide it."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def multiprocessors() -> dict[str, int]:
    """Return the number of SMs by uuid for every GPU that the CUDA driver lists, without creating a context."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    count, sms = ctypes.c_int(), dict[str, int]()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return {}
    for index in range(count.value):
        device, uuid, value = ctypes.c_int(), ctypes.create_string_buffer(16), ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetUuid(uuid, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(value), _MULTIPROCESSORS, device)
        digits = uuid.raw.hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        sms[f"GPU-{'-'.join(parts)}"] = value.value
    return sms


if __name__ == "__main__":
    print(json.dumps(nvml()), flush=True)
    print(json.dumps(multiprocessors()))
