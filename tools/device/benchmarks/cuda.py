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
from .runtime import DeviceFailure, OpenGpu, driver_and_partition

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
            f"cuInit returned {_status_word(status)}",
            "Check nvidia-smi; in a container, start it with its GPUs (--gpus all)",
        )
    return driver, nvrtc


def count() -> int:
    """Return the number of GPUs that the driver shows to this process; raise MissingTool without a driver."""
    driver, _ = bindings()
    return int(_check("cuDeviceGetCount", driver.cuDeviceGetCount()))


def compile_for(nvrtc: Any, arch: str, source: str, defines: Mapping[str, str]) -> bytes:
    """Compile to machine code for a target such as sm_90; neither a device nor a driver is needed.

    Raises MissingTool without NVRTC's library, and DeviceFailure with its log if it rejects the source.
    """
    try:
        program = _check("nvrtcCreateProgram", nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    except RuntimeError as error:
        raise MissingTool("Kernels cannot be compiled", f"NVRTC cannot be loaded ({error})", _FIX) from error
    target_facts = find_target(arch)
    target = (target_facts and target_facts.compile_as) or arch
    options = [f"--gpu-architecture={target}", "--disable-warnings", *(f"-D{k}={v}" for k, v in defines.items())]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    if int(status):
        size = _check("nvrtcGetProgramLogSize", nvrtc.nvrtcGetProgramLogSize(program))
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        words = log.decode(errors="replace").strip("\0 \n")
        raise DeviceFailure(f"NVRTC cannot compile a kernel for {target}", words[:600])
    size = _check("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program))
    code: bytes = b" " * size
    _check("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, code))
    nvrtc.nvrtcDestroyProgram(program)
    return code


class Cuda:
    """An NVIDIA GPU with its primary context, current in the thread that opened it."""

    def __init__(self, index: int) -> None:
        self._cu, self._nvrtc = bindings()
        number = count()
        if not 0 <= index < number:
            raise NotFound(f"There is no NVIDIA GPU {index}", f"the driver shows {number}", "Numbers start at 0")
        handle = _check("cuDeviceGet", self._cu.cuDeviceGet(index))
        context = _check("cuDevicePrimaryCtxRetain", self._cu.cuDevicePrimaryCtxRetain(handle))
        _check("cuCtxSetCurrent", self._cu.cuCtxSetCurrent(context))
        self._smem = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.device = self._describe(index, handle)

    def compile(self, source: str, defines: Mapping[str, str]) -> bytes:
        return compile_for(self._nvrtc, self.device.arch, source, defines)

    def load(self, code: bytes) -> Any:
        return _check("cuModuleLoadData", self._cu.cuModuleLoadData(code))

    def kernel(self, module: Any, name: str, shared_bytes: int) -> Any:
        function = _check(f"cuModuleGetFunction({name})", self._cu.cuModuleGetFunction(module, name.encode()))
        if shared_bytes:
            _check("cuFuncSetAttribute", self._cu.cuFuncSetAttribute(function, self._smem, shared_bytes))
        return function

    def allocate(self, size: int) -> int:
        return int(_check(f"cuMemAlloc({size})", self._cu.cuMemAlloc(size)))

    def clear(self, address: int, size: int) -> None:
        _check("cuMemsetD8Async", self._cu.cuMemsetD8Async(address, 0, size, 0))

    def upload(self, address: int, data: bytes) -> None:
        _check("cuMemcpyHtoD", self._cu.cuMemcpyHtoD(address, data, len(data)))

    def download(self, address: int, size: int) -> bytes:
        data = bytearray(size)
        _check("cuMemcpyDtoH", self._cu.cuMemcpyDtoH((ctypes.c_char * size).from_buffer(data), address, size))
        return bytes(data)

    def launch(self, kernel: Any, groups: int, threads: int, shared_bytes: int, arguments: tuple[int, ...]) -> None:
        _, place = _pack_arguments(arguments)
        answer = self._cu.cuLaunchKernel(kernel, groups, 1, 1, threads, 1, 1, shared_bytes, 0, place, 0)
        _check("cuLaunchKernel", answer)

    def event(self) -> Any:
        return _check("cuEventCreate", self._cu.cuEventCreate(0))

    def record(self, event: Any) -> None:
        _check("cuEventRecord", self._cu.cuEventRecord(event, 0))

    def is_done(self, event: Any) -> bool:
        (status,) = self._cu.cuEventQuery(event)
        if status == self._cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        _check("a launch", (status,))
        return True

    def elapsed_ms(self, first: Any, last: Any) -> float:
        return float(_check("cuEventElapsedTime", self._cu.cuEventElapsedTime(first, last)))

    def _describe(self, index: int, handle: Any) -> OpenGpu:
        cu = self._cu
        names = cu.CUdevice_attribute

        def attribute(name: str) -> int:
            which = getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(_check(name, cu.cuDeviceGetAttribute(which, handle)))

        free, total = _check("cuMemGetInfo", cu.cuMemGetInfo())
        name = _check("cuDeviceGetName", cu.cuDeviceGetName(128, handle)).split(b"\0")[0].decode(errors="replace")
        raw = bytes(_check("cuDeviceGetUuid", cu.cuDeviceGetUuid(handle)).bytes)
        driver = _check("cuDriverGetVersion", cu.cuDriverGetVersion())
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


def _status_word(status: Any) -> str:
    return getattr(status, "name", str(status))


def _check(call: str, answer: tuple[Any, ...]) -> Any:
    """Return the results of a call; raise DeviceFailure with the status if it failed."""
    status, *results = answer
    if int(status):
        raise DeviceFailure(f"GPU runtime error: {call} returned {_status_word(status)}")
    return results[0] if len(results) == 1 else results
