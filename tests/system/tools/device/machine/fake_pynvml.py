"""A stand-in for pynvml, copied onto a child's PYTHONPATH beside a file gpus.json that says what it answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NVML_CLOCK_SM = 1
_FAKE = json.loads(Path(__file__).with_name("gpus.json").read_text())


class NVMLError(Exception):
    """What the real module raises; each code has a class of its own."""


class NVMLError_NoPermission(NVMLError): ...


class NVMLError_NotSupported(NVMLError): ...


class NVMLError_GpuIsLost(NVMLError): ...


class NVMLError_DriverNotLoaded(NVMLError): ...


class NVMLError_LibRmVersionMismatch(NVMLError): ...


class NVMLError_LibraryNotFound(NVMLError): ...


class NVMLError_Unknown(NVMLError): ...


def _or_raise(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("NVMLError"):
        name, _, words = value.partition(": ")
        raise globals()[name](words)
    return value


def nvmlInit() -> None:
    _or_raise(_FAKE["init"])


def nvmlDeviceGetCount() -> int:
    return len(_FAKE["gpus"])


def nvmlSystemGetDriverVersion() -> str:
    return str(_or_raise(_FAKE["driver"]))


def nvmlDeviceGetHandleByIndex(index: int) -> Any:
    return _or_raise(_FAKE["gpus"][index])


def nvmlDeviceGetName(handle: Any) -> Any:
    return _or_raise(handle["name"])


def nvmlDeviceGetUUID(handle: Any) -> Any:
    return _or_raise(handle["uuid"])


def nvmlDeviceGetCudaComputeCapability(handle: Any) -> Any:
    return tuple(_or_raise(handle["capability"]))


def nvmlDeviceGetMaxClockInfo(handle: Any, kind: int) -> Any:
    assert kind == NVML_CLOCK_SM
    return _or_raise(handle["clock"])


def nvmlDeviceGetMemoryInfo(handle: Any) -> Any:
    return SimpleNamespace(total=_or_raise(handle["memory"]), free=1, used=1)


def nvmlDeviceGetMigMode(handle: Any) -> Any:
    return [_or_raise(handle["mig"]), 0]


def nvmlDeviceGetMaxPcieLinkGeneration(handle: Any) -> Any:
    return _or_raise(handle["link"][0])


def nvmlDeviceGetCurrPcieLinkWidth(handle: Any) -> Any:
    return _or_raise(handle["link"][1])


def nvmlDeviceGetPciInfo(handle: Any) -> Any:
    return SimpleNamespace(busId=_or_raise(handle["pci"]))
