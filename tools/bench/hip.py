"""AMD GPUs through hip-python: the HIP runtime's module interface."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...analysis.problems import MissingTool, NotFound
from ..detect import kfd
from ..detect.model import Device as Listed
from ..detect.model import Roots
from .compile_amd import compile_for
from .runtime import Device, DeviceFailure

_NO_DEVICE, _NOT_READY = 100, 600
_TO_DEVICE, _TO_HOST = 1, 2


def bindings() -> Any:
    """The module hip of hip-python. Raises MissingTool without it; that HIP's library is there, only a call tells."""
    try:
        from hip import hip
    except ImportError as error:
        raise MissingTool(
            "AMD GPUs cannot be measured", f"hip-python is missing ({error})", "Install it: pip install hip-python"
        ) from error
    return hip


def count() -> int:
    """How many GPUs HIP shows to this process; raises MissingTool where HIP is not installed."""
    hip = bindings()
    try:
        status, number = hip.hipGetDeviceCount()
    except RuntimeError as error:
        raise MissingTool(
            "AMD GPUs cannot be measured",
            f"HIP's library libamdhip64.so cannot be loaded ({error})",
            "Install ROCm, or name its folder: ROCM_PATH=/opt/rocm",
        ) from error
    return 0 if int(status) == _NO_DEVICE else int(_checked("hipGetDeviceCount", (status, number)))


class Hip:
    """One AMD GPU, current in the thread that opened it."""

    def __init__(self, index: int) -> None:
        self._hip = bindings()
        number = count()
        if not 0 <= index < number:
            raise NotFound(
                f"There is no AMD GPU {index}",
                f"HIP shows {number}",
                "Numbers start at 0; rocminfo lists them, and HIP_VISIBLE_DEVICES hides some",
            )
        _checked("hipSetDevice", self._hip.hipSetDevice(index))
        self._kept: list[Any] = []
        self.device = self._describe(index)

    def compile(self, source: str, defines: Mapping[str, str]) -> bytes:
        code = compile_for(self.device.arch, source, defines)
        self.device = replace(self.device, compiler=code.compiler)
        return code.image

    def load(self, code: bytes) -> Any:
        self._kept.append(code)
        return _checked("hipModuleLoadData", self._hip.hipModuleLoadData(code))

    def kernel(self, module: Any, name: str, shared_bytes: int) -> Any:
        return _checked(f"hipModuleGetFunction({name})", self._hip.hipModuleGetFunction(module, name.encode()))

    def allocate(self, size: int) -> int:
        pointer = _checked(f"hipMalloc({size})", self._hip.hipMalloc(size))
        self._kept.append(pointer)
        return int(pointer)

    def clear(self, address: int, size: int) -> None:
        _checked("hipMemsetAsync", self._hip.hipMemsetAsync(address, 0, size, None))

    def upload(self, address: int, data: bytes) -> None:
        kind = self._hip.hipMemcpyKind(_TO_DEVICE)
        _checked("hipMemcpy", self._hip.hipMemcpy(address, data, len(data), kind))

    def download(self, address: int, size: int) -> bytes:
        data, kind = bytearray(size), self._hip.hipMemcpyKind(_TO_HOST)
        _checked("hipMemcpy", self._hip.hipMemcpy(data, address, size, kind))
        return bytes(data)

    def launch(self, kernel: Any, groups: int, threads: int, shared_bytes: int, arguments: tuple[int, ...]) -> None:
        given = (*map(ctypes.c_void_p, arguments[:3]), *map(ctypes.c_uint64, arguments[3:]))
        _checked(
            "hipModuleLaunchKernel",
            self._hip.hipModuleLaunchKernel(
                kernel, groups, 1, 1, threads, 1, 1, sharedMemBytes=shared_bytes, stream=None, kernelParams=None,
                extra=given,
            ),
        )  # fmt: skip

    def event(self) -> Any:
        return _checked("hipEventCreate", self._hip.hipEventCreate())

    def record(self, event: Any) -> None:
        _checked("hipEventRecord", self._hip.hipEventRecord(event, None))

    def done(self, event: Any) -> bool:
        (status,) = self._hip.hipEventQuery(event)
        if int(status) == _NOT_READY:
            return False
        _checked("a launch", (status,))
        return True

    def elapsed_ms(self, first: Any, last: Any) -> float:
        return float(_checked("hipEventElapsedTime", self._hip.hipEventElapsedTime(first, last)))

    def _describe(self, index: int) -> Device:
        hip = self._hip
        names = hip.hipDeviceAttribute_t

        def attribute(name: str) -> int:
            """0 for what this HIP or this device does not tell."""
            status, value = hip.hipDeviceGetAttribute(getattr(names, f"hipDeviceAttribute{name}"), index)
            return 0 if int(status) else int(value)

        place = _text(hip.hipDeviceGetPCIBusId, index)
        listed = _listed(place, index)
        name = _text(hip.hipDeviceGetName, index) or (listed.name if listed else None) or "AMD GPU"
        arch = self._arch(index) or (listed.arch if listed else None)
        if arch is None:
            raise DeviceFailure(
                f"The target of {name} is unknown", "this HIP has no hipGetDeviceProperties and /sys does not tell it"
            )
        free, total = _checked("hipMemGetInfo", hip.hipMemGetInfo())
        version = int(_checked("hipRuntimeGetVersion", hip.hipRuntimeGetVersion()))
        return Device(
            vendor="amd",
            index=index,
            name=name,
            arch=arch,
            uuid=(listed.uuid if listed else None) or f"amd-{place or index}",
            compute_units=attribute("MultiprocessorCount") or (listed and listed.compute_units) or 1,
            wave_size=attribute("WarpSize") or 64,
            memory_bytes=int(total),
            free_bytes=int(free),
            l2_bytes=attribute("L2CacheSize") or None,
            clock_max_mhz=attribute("ClockRate") / 1000 or None,
            memory_clock_mhz=attribute("MemoryClockRate") / 1000 or None,
            memory_bus_bits=attribute("MemoryBusWidth") or None,
            partition=listed.partition if listed else None,
            driver=listed.driver if listed else None,
            runtime=f"HIP {version // 10_000_000}.{version // 100_000 % 100}",
            pci=place,
        )

    def _arch(self, index: int) -> str | None:
        """gfx942 from gfx942:sramecc+:xnack-; None where this HIP lacks the function that newer bindings call."""
        try:
            answer = self._hip.hipGetDeviceProperties(index)
        except TypeError:
            # Bindings before 10 fill a structure that the caller brings.
            properties = self._hip.hipDeviceProp_t()
            answer = (*self._hip.hipGetDeviceProperties(properties, index), properties)
        except RuntimeError:
            return None
        if int(answer[0]):
            return None
        name: bytes | str = answer[1].gcnArchName
        text = name.decode(errors="replace") if isinstance(name, bytes) else name
        return text.split(":")[0].strip("\0 ") or None


def _text(function: Any, index: int) -> str | None:
    status, text = function(64, index)
    if int(status):
        return None
    plain = text.split(b"\0")[0].decode(errors="replace") if isinstance(text, bytes | bytearray) else str(text)
    return plain.strip("\0 ") or None


def _listed(place: str | None, index: int) -> Listed | None:
    """What the kernel driver says of the device, found by its place on the bus."""
    listed = kfd.devices(Roots(), kfd.topology(Roots()))
    here = [d for d in listed if place and d.pci and d.pci.lower() == place.lower()]
    return here[0] if len(here) == 1 else listed[index] if not place and index < len(listed) else None


def _checked(call: str, answer: tuple[Any, ...] | Any) -> Any:
    """The results of a call, or a failure with the status that it returned."""
    status, *results = answer if isinstance(answer, tuple) else (answer,)
    if int(status):
        raise DeviceFailure(f"The GPU runtime failed: {call} says {getattr(status, 'name', status)} ({int(status)})")
    return results[0] if len(results) == 1 else results
