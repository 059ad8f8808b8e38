"""Runs in a child process, because a driver may hang or crash: prints what NVML and CUDA report about every GPU.

The first line of JSON is NVML's: {"driver", "gpus"}, or {"failure", "why"} with the name of its error. The second maps
each uuid to the limits that only the CUDA driver reports, such as the number of SMs.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

_ATTRIBUTES = {
    "sms": 16, "threads_per_sm": 39, "registers_per_sm": 82, "shared_bytes_per_sm": 81, "blocks_per_sm": 106,
    "shared_bytes_per_block": 97, "reserved_shared_bytes": 111, "warp_size": 10, "l2_bytes": 38, "bus_bits": 37,
    "memory_khz": 36,
}  # fmt: skip
"""Limits by their CUdevice_attribute."""


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
    place, capability = ask(pynvml.nvmlDeviceGetPciInfo), ask(pynvml.nvmlDeviceGetCudaComputeCapability)
    return {
        "index": index,
        "name": ask(pynvml.nvmlDeviceGetName),
        "uuid": ask(pynvml.nvmlDeviceGetUUID),
        "arch": capability and "sm_{}{}".format(*capability),
        "clock_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        "memory_bytes": memory and memory.total,
        "partition": mig and ("MIG enabled" if mig[0] else "MIG disabled"),
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


def limits() -> dict[str, dict[str, int]]:
    """Return the limits by uuid for every GPU that the CUDA driver lists, without creating a context."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    count, by_uuid = ctypes.c_int(), dict[str, dict[str, int]]()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return {}
    for index in range(count.value):
        device, uuid = ctypes.c_int(), ctypes.create_string_buffer(16)
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetUuid(uuid, device)
        stated = {name: _attribute(cuda, which, device) for name, which in _ATTRIBUTES.items()}
        by_uuid[f"GPU-{UUID(bytes=uuid.raw)}"] = {name: value for name, value in stated.items() if value}
    return by_uuid


def _attribute(cuda: ctypes.CDLL, which: int, device: ctypes.c_int) -> int:
    """Return an attribute of a device; 0 if this driver does not know it."""
    value = ctypes.c_int()
    return 0 if cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device) else value.value


if __name__ == "__main__":
    print(json.dumps(nvml()), flush=True)
    print(json.dumps(limits()))
