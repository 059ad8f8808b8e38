"""NVIDIA GPUs through cuda-bindings: the driver API, and NVRTC as the compiler."""

from __future__ import annotations

import ctypes
import importlib
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ....analysis.base.extensions import install_command
from ....analysis.base.problems import MissingTool, NotFound, command_advice
from ....analysis.catalogue.targets import find_target
from .runtime import DeviceFailure, DriverCalls, OpenGpu, driver_and_partition, result, status_text

_FIX = command_advice("Install both packages", install_command("cuda-bindings", "nvidia-cuda-nvrtc"))


def modules() -> tuple[Any, Any]:
    """Return the modules driver and nvrtc of any generation of cuda-bindings; raise MissingTool without them."""
    try:
        driver, nvrtc = (importlib.import_module(f"cuda.bindings.{name}") for name in ("driver", "nvrtc"))
    except ImportError:
        try:
            driver, nvrtc = (importlib.import_module(f"cuda.{name}") for name in ("cuda", "nvrtc"))
        except ImportError as error:
            raise MissingTool("NVIDIA GPUs cannot be measured", f"cuda-bindings is missing ({error})", _FIX) from error
    return driver, nvrtc


def bindings() -> tuple[Any, Any]:
    """Return the modules driver and nvrtc with the driver initialised; raise MissingTool if either is missing."""
    driver, nvrtc = modules()
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:
        raise MissingTool(
            "NVIDIA GPUs cannot be measured", f"the driver library cannot be loaded ({error})", "Install the driver"
        ) from error
    if int(status):
        raise MissingTool(
            "NVIDIA GPUs cannot be measured",
            f"cuInit returned {status_text(status)}",
            "Check nvidia-smi; in a container, start it with its GPUs (--gpus all)",
        )
    return driver, nvrtc


def count() -> int:
    """Return the number of GPUs that the driver shows to this process; raise MissingTool without a driver."""
    driver, _ = bindings()
    return int(result("cuDeviceGetCount", driver.cuDeviceGetCount()))


def compile_for(nvrtc: Any, arch: str, source: str, defines: Mapping[str, str]) -> bytes:
    """Compile to machine code for a target such as sm_90; neither a device nor a driver is needed.

    Raises MissingTool without NVRTC's library, and DeviceFailure with its log if it rejects the source.
    """
    try:
        program = result("nvrtcCreateProgram", nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    except RuntimeError as error:
        raise MissingTool("Kernels cannot be compiled", f"NVRTC cannot be loaded ({error})", _FIX) from error
    target_facts = find_target(arch)
    target = (target_facts and target_facts.compile_as) or arch
    options = [f"--gpu-architecture={target}", "--disable-warnings", *(f"-D{k}={v}" for k, v in defines.items())]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    if int(status):
        size = result("nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize(program))
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        words = log.decode(errors="replace").strip("\0 \n")
        raise DeviceFailure(f"NVRTC cannot compile a kernel for {target}", words[:600])
    size = result("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program))
    code: bytes = b" " * size
    result("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, code))
    nvrtc.nvrtcDestroyProgram(program)
    return code


class Cuda(DriverCalls):
    """An NVIDIA GPU with its primary context, current in the thread that opened it."""

    def __init__(self, index: int) -> None:
        self._cu, self._nvrtc = bindings()
        super().__init__(self._cu, "cu", 0)
        number = count()
        if not 0 <= index < number:
            raise NotFound(f"There is no NVIDIA GPU {index}", f"the driver shows {number}", "Numbers start at 0")
        handle = self._call("DeviceGet", index)
        context = self._call("DevicePrimaryCtxRetain", handle)
        self._call("CtxSetCurrent", context)
        self._smem = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.device = self._describe(index, handle)

    def compile(self, source: str, defines: Mapping[str, str]) -> bytes:
        return compile_for(self._nvrtc, self.device.arch, source, defines)

    def load(self, code: bytes) -> Any:
        return self._call("ModuleLoadData", code)

    def kernel(self, module: Any, name: str, shared_bytes: int) -> Any:
        function = result(f"cuModuleGetFunction({name})", self._cu.cuModuleGetFunction(module, name.encode()))
        if shared_bytes:
            self._call("FuncSetAttribute", function, self._smem, shared_bytes)
        return function

    def allocate(self, size: int) -> int:
        return int(result(f"cuMemAlloc({size})", self._cu.cuMemAlloc(size)))

    def clear(self, address: int, size: int) -> None:
        self._call("MemsetD8Async", address, 0, size, 0)

    def upload(self, address: int, data: bytes) -> None:
        self._call("MemcpyHtoD", address, data, len(data))

    def download(self, address: int, size: int) -> bytes:
        data = bytearray(size)
        self._call("MemcpyDtoH", (ctypes.c_char * size).from_buffer(data), address, size)
        return bytes(data)

    def launch(self, kernel: Any, groups: int, threads: int, shared_bytes: int, arguments: tuple[int, ...]) -> None:
        _, place = _pack_arguments(arguments)
        answer = self._cu.cuLaunchKernel(kernel, groups, 1, 1, threads, 1, 1, shared_bytes, 0, place, 0)
        result("cuLaunchKernel", answer)

    def event(self) -> Any:
        return self._call("EventCreate", 0)

    def _describe(self, index: int, handle: Any) -> OpenGpu:

        def attribute(name: str) -> int:
            which = getattr(self._cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(result(name, self._cu.cuDeviceGetAttribute(which, handle)))

        free, total = self._call("MemGetInfo")
        name = self._call("DeviceGetName", 128, handle).split(b"\0")[0].decode(errors="replace")
        raw = bytes(self._call("DeviceGetUuid", handle).bytes)
        driver = self._call("DriverGetVersion")
        nvrtc = self._nvrtc.nvrtcVersion()
        place = "{:08x}:{:02x}:{:02x}.0".format(
            attribute("PCI_DOMAIN_ID"), attribute("PCI_BUS_ID"), attribute("PCI_DEVICE_ID")
        )
        version, partition = driver_and_partition(place)
        return OpenGpu(
            vendor="nvidia",
            index=index,
            name=name,
            arch=f"sm_{attribute('COMPUTE_CAPABILITY_MAJOR')}{attribute('COMPUTE_CAPABILITY_MINOR')}",
            uuid=f"GPU-{uuid.UUID(bytes=raw)}",
            compute_units=attribute("MULTIPROCESSOR_COUNT"),
            wave_size=attribute("WARP_SIZE"),
            memory_bytes=int(total),
            free_bytes=int(free),
            l2_bytes=attribute("L2_CACHE_SIZE") or None,
            clock_max_mhz=attribute("CLOCK_RATE") / 1000 or None,
            memory_clock_mhz=attribute("MEMORY_CLOCK_RATE") / 1000 or None,
            memory_bus_bits=attribute("GLOBAL_MEMORY_BUS_WIDTH") or None,
            partition=partition,
            driver=version,
            runtime=f"CUDA {driver // 1000}.{driver % 1000 // 10}",
            compiler=f"NVRTC {nvrtc[1]}.{nvrtc[2]}",
            pci=place,
        )


@lru_cache(maxsize=16)
def _pack_arguments(arguments: tuple[int, ...]) -> tuple[object, int]:
    """Pack six 64-bit arguments for the driver: return what must stay alive, and the address of their addresses."""
    values = (ctypes.c_uint64 * len(arguments))(*arguments)
    start = ctypes.addressof(values)
    places = (ctypes.c_void_p * len(arguments))(*range(start, start + 8 * len(arguments), 8))
    return (values, places), ctypes.addressof(places)
