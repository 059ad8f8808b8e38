"""Run in a child process: asks the CUDA driver for what nvidia-smi does not tell, and prints it as JSON."""

from __future__ import annotations

import ctypes
import json

_SMS, _MAJOR, _MINOR = 16, 75, 76
"""CUdevice_attribute: multiprocessor count and compute capability."""


def gpus() -> list[dict[str, str | int]]:
    """The uuid, SM count and compute capability of every GPU that the driver shows; no context is created."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [_gpu(cuda, index) for index in range(count.value)]


def _gpu(cuda: ctypes.CDLL, index: int) -> dict[str, str | int]:
    device, uuid = ctypes.c_int(), ctypes.create_string_buffer(16)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetUuid(uuid, device)
    sms, major, minor = (_attribute(cuda, device, a) for a in (_SMS, _MAJOR, _MINOR))
    digits = uuid.raw.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return {"uuid": f"GPU-{'-'.join(parts)}", "sms": sms, "capability": f"{major}.{minor}"}


def _attribute(cuda: ctypes.CDLL, device: ctypes.c_int, which: int) -> int:
    value = ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device)
    return value.value


if __name__ == "__main__":
    print(json.dumps(gpus()))
