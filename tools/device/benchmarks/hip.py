"""The HIP runtime through hip-python, and compilation for it."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ....analysis.base.extensions import install_command
from ....analysis.base.problems import MissingTool, NotFound, command_advice
from ....analysis.catalogue.targets import identify
from ..machine import amd as kfd
from ..machine.model import Device, Roots
from ..machine.programs import readable_version
from .runtime import DeviceFailure, DriverCalls, OpenGpu, result, status_text

_LIMIT_S = 120.0
_OPTIONS = ("-O3", "-fno-slp-vectorize")
"""Without the second option, clang packs scalar FP32 multiply-adds where it can, which is another ceiling."""
_CLANG = ("-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--no-gpu-bundle-output")
_VERSIONS = (5, 4)
"""Code object versions in the order in which they are tried: older runtimes reject 6, the default of new clangs, and
those before ROCm 5.3 also reject 5. The output of hiprtc always fits its runtime."""


@dataclass(frozen=True)
class CompiledHipCode:
    """A code object and its compiler; ``version`` is None if the compiler chose the code object version."""

    image: bytes
    compiler: str
    version: int | None = None


def compile_for(arch: str, source: str, defines: Mapping[str, str], version: int = _VERSIONS[0]) -> CompiledHipCode:
    """Compile for a target such as gfx942; hiprtc may be missing, abort or fail as long as clang succeeds.

    ``version`` is clang's code object version. Raises MissingTool with the error of each compiler if all of them fail.
    """
    refusals = []
    for compile_with in (by_hiprtc, partial(by_clang, version=version)):
        try:
            return compile_with(arch, source, defines)
        except MissingTool as problem:
            refusals.append(problem.why)
    raise MissingTool(
        f"Kernels cannot be compiled for {arch}",
        "; ".join(refusals),
        command_advice("Install ROCm, or on Debian a clang for the target", "apt-get install clang-22 lld-22"),
    )


def by_hiprtc(arch: str, source: str, defines: Mapping[str, str]) -> CompiledHipCode:
    """Compile with hiprtc in a child process, because old versions abort the process for an unknown target."""
    options = [f"--offload-arch={arch}", *_OPTIONS, *(f"-D{k}={v}" for k, v in defines.items())]
    task = json.dumps({"source": source, "options": options})
    script = Path(__file__).with_name("hiprtc_child.py")
    try:
        process = subprocess.run(
            # -P removes the script's folder from the module search path, since it contains our hip.py.
            [sys.executable, "-P", str(script)],
            input=task,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MissingTool("hiprtc hangs", f"hiprtc took more than {_LIMIT_S:.0f} s") from error
    if process.returncode:
        ending = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        raise MissingTool("hiprtc ended", f"hiprtc ended with {ending} at {arch} ({_last_error_line(process.stderr)})")
    answer = json.loads(process.stdout)
    if "failure" in answer:
        raise MissingTool("hiprtc cannot compile", f"hiprtc: {answer['failure']}")
    return CompiledHipCode(base64.b64decode(answer["code"]), answer["version"])


def by_clang(arch: str, source: str, defines: Mapping[str, str], version: int = _VERSIONS[0]) -> CompiledHipCode:
    """Compile and link with the first clang that succeeds; the kernels need no headers and no device library."""
    options = [*_OPTIONS, f"-mcode-object-version={version}", *(f"-D{k}={v}" for k, v in defines.items())]
    failures = []
    for program in clangs():
        with tempfile.TemporaryDirectory(prefix="rooflens_") as folder:
            path, out = Path(folder, "kernel.hip"), Path(folder, "kernel.co")
            path.write_text(source, encoding="utf-8")
            command = [str(program), *_CLANG, f"--offload-arch={arch}", *options, str(path), "-o", str(out)]
            try:
                process = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                failures.append(f"{program}: {error}")
                continue
            if process.returncode == 0 and out.is_file():
                made_by = f"clang ({program}), code objects of version {version}"
                return CompiledHipCode(out.read_bytes(), made_by, version)
            failures.append(f"{program}: {_last_error_line(process.stderr)}")
    raise MissingTool("No clang can compile", "; ".join(failures) or "no clang was found")


def clangs() -> list[Path]:
    """Return the clang of ROCm first, then those of the system from the newest."""
    rocm = [Path(root, "llvm/bin/clang") for root in (os.environ.get("ROCM_PATH"), "/opt/rocm") if root]
    files = (path for folder in os.get_exec_path() for path in Path(folder).glob("clang-[0-9]*"))
    numbers = {int(match[1]) for path in files if (match := re.fullmatch(r"clang-(\d+)", path.name))}
    system = [shutil.which(name) for name in [*(f"clang-{n}" for n in sorted(numbers, reverse=True)), "clang"]]
    return [p for p in rocm if p.is_file()] + [Path(p) for p in system if p]


def _last_error_line(text: str) -> str:
    """Return the last error line, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1][:300]


_NO_DEVICE = 100
_REFUSED_CODE = (200, 209, 303)
"""hipErrorInvalidImage, hipErrorNoBinaryForGpu, hipErrorSharedObjectInitFailed: this HIP cannot load the code."""
_TO_DEVICE, _TO_HOST = 1, 2


def bindings() -> Any:
    """Return the module hip of hip-python; raise MissingTool without it. HIP's library is loaded at the first call."""
    try:
        from hip import hip
    except ImportError as error:
        fix = command_advice("Install it", install_command("hip-python"))
        raise MissingTool("AMD GPUs cannot be measured", f"hip-python is missing ({error})", fix) from error
    return hip


def count() -> int:
    """Return the number of GPUs that HIP shows to this process; raise MissingTool if HIP is not installed."""
    hip = bindings()
    try:
        status, number = hip.hipGetDeviceCount()
    except RuntimeError as error:
        raise MissingTool(
            "AMD GPUs cannot be measured",
            f"HIP's library libamdhip64.so cannot be loaded ({error})",
            "Install ROCm, or set its folder: ROCM_PATH=/opt/rocm",
        ) from error
    return 0 if int(status) == _NO_DEVICE else int(result("hipGetDeviceCount", (status, number)))


class Hip(DriverCalls):
    """An AMD GPU, current in the thread that opened it."""

    def __init__(self, index: int) -> None:
        self._hip = bindings()
        super().__init__(self._hip, "hip", None)
        number = count()
        if not 0 <= index < number:
            raise NotFound(
                f"There is no AMD GPU {index}",
                f"HIP shows {number}",
                "Numbers start at 0; rocminfo lists them, and HIP_VISIBLE_DEVICES may hide some",
            )
        self._call("SetDevice", index)
        self._kept: list[Any] = []
        self._made: dict[bytes, tuple[str, Mapping[str, str], CompiledHipCode]] = {}
        self._version = _VERSIONS[0]
        self.device = self._describe(index)

    def compile(self, source: str, defines: Mapping[str, str]) -> bytes:
        return self._compile_image(source, defines).image

    def load(self, code: bytes) -> Any:
        """Load code; if HIP rejects it, recompile with an older code object version, which is then kept."""
        source, defines, compiled_code = self._made.get(code, ("", {}, None))
        if compiled_code and compiled_code.version and compiled_code.version != self._version:
            compiled_code = self._compile_image(source, defines)
        while True:
            image = compiled_code.image if compiled_code else code
            status, *module = self._hip.hipModuleLoadData(image)
            refused = int(status) in _REFUSED_CODE
            if not (refused and compiled_code and compiled_code.version in _VERSIONS[:-1]):
                break
            self._version = _VERSIONS[_VERSIONS.index(compiled_code.version) + 1]
            compiled_code = self._compile_image(source, defines)
        if refused and compiled_code:
            raise DeviceFailure(
                f"{self.device.runtime} rejected the kernels that were compiled for it",
                f"hipModuleLoadData returned {status_text(status)}; compiled by {compiled_code.compiler}",
                "The compiler is too new for this HIP or uses another target: install its own hiprtc, or set ROCM_PATH "
                "to the ROCm that the driver belongs to",
            )
        self._kept.append(image)
        return result("hipModuleLoadData", (status, *module))

    def _compile_image(self, source: str, defines: Mapping[str, str]) -> CompiledHipCode:
        code = compile_for(self.device.arch, source, defines, self._version)
        self._made[code.image] = source, defines, code
        self.device = replace(self.device, compiler=code.compiler)
        return code

    def kernel(self, module: Any, name: str, shared_bytes: int) -> Any:
        return result(f"hipModuleGetFunction({name})", self._hip.hipModuleGetFunction(module, name.encode()))

    def allocate(self, size: int) -> int:
        pointer = result(f"hipMalloc({size})", self._hip.hipMalloc(size))
        self._kept.append(pointer)
        return int(pointer)

    def clear(self, address: int, size: int) -> None:
        self._call("MemsetAsync", address, 0, size, None)

    def upload(self, address: int, data: bytes) -> None:
        kind = self._hip.hipMemcpyKind(_TO_DEVICE)
        self._call("Memcpy", address, data, len(data), kind)

    def download(self, address: int, size: int) -> bytes:
        data, kind = bytearray(size), self._hip.hipMemcpyKind(_TO_HOST)
        self._call("Memcpy", data, address, size, kind)
        return bytes(data)

    def launch(self, kernel: Any, groups: int, threads: int, shared_bytes: int, arguments: tuple[int, ...]) -> None:
        packed_arguments = (*map(ctypes.c_void_p, arguments[:3]), *map(ctypes.c_uint64, arguments[3:]))
        answer = self._hip.hipModuleLaunchKernel(
            kernel, groups, 1, 1, threads, 1, 1, sharedMemBytes=shared_bytes, stream=None, kernelParams=None,
            extra=packed_arguments,
        )  # fmt: skip
        result("hipModuleLaunchKernel", answer)

    def event(self) -> Any:
        return self._call("EventCreate")

    def _describe(self, index: int) -> OpenGpu:
        hip = self._hip
        names = hip.hipDeviceAttribute_t

        def attribute(name: str) -> int:
            """0 if this HIP or this device does not report it."""
            status, value = hip.hipDeviceGetAttribute(getattr(names, f"hipDeviceAttribute{name}"), index)
            return 0 if int(status) else int(value)

        place = _text(hip.hipDeviceGetPCIBusId, index)
        device = _kfd_device(place, index) or Device(vendor="amd", index=index)
        arch = self._arch(index) or device.arch
        # HIP reports "AMD Radeon Graphics" if libdrm's list of names (amdgpu.ids) is missing.
        names_told = [n for n in (device.name, _text(hip.hipDeviceGetName, index)) if n]
        name = next((n for n in names_told if identify(n, arch, {})), names_told[0] if names_told else "AMD GPU")
        if arch is None:
            raise DeviceFailure(
                f"The target of {name} is unknown", "this HIP lacks hipGetDeviceProperties, and /sys does not show it"
            )
        free, total = self._call("MemGetInfo")
        version = int(self._call("RuntimeGetVersion"))
        return OpenGpu(
            vendor="amd",
            index=index,
            name=name,
            arch=arch,
            uuid=device.uuid or f"amd-{place or index}",
            compute_units=attribute("MultiprocessorCount") or device.compute_units or 1,
            wave_size=attribute("WarpSize") or 64,
            memory_bytes=int(total),
            free_bytes=int(free),
            l2_bytes=attribute("L2CacheSize") or None,
            clock_max_mhz=attribute("ClockRate") / 1000 or None,
            memory_clock_mhz=attribute("MemoryClockRate") / 1000 or None,
            memory_bus_bits=attribute("MemoryBusWidth") or None,
            partition=device.partition,
            dies=device.xccs,
            driver=device.driver,
            runtime=f"HIP {readable_version(version)}",
            pci=place,
        )

    def _arch(self, index: int) -> str | None:
        """Return gfx942 for gfx942:sramecc+:xnack-; None if HIP lacks the function that newer bindings call."""
        try:
            answer = self._hip.hipGetDeviceProperties(index)
        except TypeError:
            # Bindings before 10 fill in a structure provided by the caller.
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


def _kfd_device(place: str | None, index: int) -> Device | None:
    """Return the kernel driver's description of the device with this PCI address."""
    devices = kfd.devices(Roots(), kfd.topology(Roots()))
    here = [d for d in devices if place and d.pci and d.pci.lower() == place.lower()]
    return here[0] if len(here) == 1 else devices[index] if not place and index < len(devices) else None
