"""Machines without a GPU, without a library, or with an old one: the errors say what is missing and how to get it."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.analysis.base.problems import LimitExceeded, MissingTool, command_advice
from rooflens.tests.support.benchmarked_gpu import DEVICE, StandIn
from rooflens.tools.device.benchmarks import cuda, hip, outcomes, runtime
from rooflens.tools.device.benchmarks import gpu as run
from rooflens.tools.device.benchmarks.runtime import DeviceFailure
from rooflens.tools.device.machine.model import Device


def test_without_hip_the_error_names_the_library_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks() -> tuple[int, int]:
        raise RuntimeError("failed to dlopen 'libamdhip64.so'")

    monkeypatch.setattr(hip, "bindings", lambda: SimpleNamespace(hipGetDeviceCount=lacks))
    with pytest.raises(MissingTool, match="libamdhip64.so.*Install ROCm"):
        hip.count()


def test_no_gpu_at_all_tells_what_each_runtime_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(word: str) -> object:
        def count() -> int:
            raise MissingTool("no", f"no {word}", command_advice("Install it", f"install {word}"))

        return count

    monkeypatch.setattr(run, "_OPEN", {"nvidia": (missing("cuda"), None), "amd": (missing("hip"), None)})
    with pytest.raises(MissingTool) as refusal:
        run.open_device()
    assert refusal.value.text.splitlines() == [
        "There is no GPU to measure. nvidia: no cuda. Install it:",
        "  install cuda",
        "amd: no hip. Install it:",
        "  install hip",
        "rooflens doctor shows the devices.",
    ]


class _OldHip:
    """A HIP without hipGetDeviceProperties' newer symbol; everything else answers."""

    hipDeviceAttribute_t = SimpleNamespace(
        hipDeviceAttributeMultiprocessorCount=1, hipDeviceAttributeWarpSize=2, hipDeviceAttributeL2CacheSize=3,
        hipDeviceAttributeClockRate=4, hipDeviceAttributeMemoryClockRate=5, hipDeviceAttributeMemoryBusWidth=6,
    )  # fmt: skip

    def __init__(self, properties: object) -> None:
        self._properties = properties

    def __getattr__(self, function: str) -> Any:
        answer = {
            "hipGetDeviceCount": (0, 1),
            "hipSetDevice": (0,),
            "hipDeviceGetPCIBusId": (0, b"0000:ff:00.0\0"),
            "hipDeviceGetName": (0, b"AMD Instinct MI250X\0\0"),
            "hipMemGetInfo": (0, 60 << 30, 64 << 30),
            "hipRuntimeGetVersion": (0, 50221153),
        }[function]
        return lambda *_: answer

    def hipDeviceGetAttribute(self, which: int, index: int) -> tuple[int, int]:
        return 0, {1: 110, 2: 64, 3: 8 << 20, 4: 1_700_000, 5: 1_600_000, 6: 4096}[which]

    def hipGetDeviceProperties(self, index: int) -> tuple[int, object]:
        if self._properties is None:
            raise RuntimeError("undefined symbol: hipGetDevicePropertiesR0600")
        return 0, self._properties


def test_an_amd_gpu_is_described_with_its_target_without_feature_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hip, "bindings", lambda: _OldHip(SimpleNamespace(gcnArchName=b"gfx90a:sramecc+:xnack-\0")))
    found = hip.Hip(0).device
    assert (found.arch, found.name, found.compute_units, found.runtime) == (
        "gfx90a", "AMD Instinct MI250X", 110, "HIP 5.2.21153",
    )  # fmt: skip
    assert found.facts == {"cu_per_gpu": 110, "max_sclk": 1700, "max_mclk": 1600, "memory_bus_bits": 4096}


def test_a_hip_without_the_symbol_takes_the_target_from_the_kernel_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Device(vendor="amd", index=0, arch="gfx90a", uuid="GPU-1", partition="SPX/NPS1", driver="6.8")
    monkeypatch.setattr(hip, "bindings", lambda: _OldHip(None))
    monkeypatch.setattr(hip, "_kfd_device", lambda place, index: listed)
    found = hip.Hip(0).device
    assert (found.arch, found.uuid, found.partition) == ("gfx90a", "GPU-1", "SPX/NPS1")
    monkeypatch.setattr(hip, "_kfd_device", lambda place, index: None)
    with pytest.raises(DeviceFailure, match="target of AMD Instinct MI250X is unknown"):
        hip.Hip(0)


def test_the_listed_name_stands_before_the_one_of_a_hip_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libdrm's amdgpu.ids HIP calls every card AMD Radeon Graphics, which has no data sheet."""
    old = _OldHip(SimpleNamespace(gcnArchName=b"gfx90a"))
    monkeypatch.setattr(old, "hipDeviceGetName", lambda size, index: (0, b"AMD Radeon Graphics\0"), raising=False)
    monkeypatch.setattr(hip, "bindings", lambda: old)
    listed = Device(vendor="amd", index=0, name="AMD Instinct MI210", arch="gfx90a", xccs=1)
    monkeypatch.setattr(hip, "_kfd_device", lambda place, index: listed)
    assert hip.Hip(0).device.name == "AMD Instinct MI210"
    monkeypatch.setattr(hip, "_kfd_device", lambda place, index: listed.model_copy(update={"name": "0x0c34"}))
    monkeypatch.setattr(old, "hipDeviceGetName", lambda size, index: (0, b"AMD Instinct MI210\0"))
    assert hip.Hip(0).device.name == "AMD Instinct MI210"


@pytest.mark.parametrize(
    ("arch", "bus", "mclk", "units", "dies", "hbm", "l2"),
    [("gfx90a", 4096, 1600, 104, None, 1638.4, 6963.2 / 2), ("gfx942", 8192, 1300, 304, 8, 5324.8, 34406.4)],
)
def test_a_card_without_a_known_name_keeps_the_theory_of_its_bus_and_dies(
    arch: str, bus: int, mclk: float, units: int, dies: int | None, hbm: float, l2: float
) -> None:
    named = {"gfx90a": "AMD Instinct MI210", "gfx942": "AMD Instinct MI300X"}[arch]
    card = replace(
        DEVICE, name="AMD Radeon Graphics", arch=arch, compute_units=units, dies=dies, memory_bus_bits=bus,
        memory_clock_mhz=mclk, clock_max_mhz={"gfx90a": 1700.0, "gfx942": 2100.0}[arch],
    )  # fmt: skip
    found = outcomes.theory(card).values
    sheet = outcomes.theory(replace(card, name=named)).values
    assert found["hbm.bw"] == pytest.approx(hbm) == sheet["hbm.bw"]
    assert found["l2.bw"] == pytest.approx(sheet["l2.bw"])


class _Refusing(_OldHip):
    """A HIP that reads code objects of one version only."""

    def __init__(self, reads: int | None) -> None:
        super().__init__(SimpleNamespace(gcnArchName=b"gfx942"))
        self._reads = reads

    def hipModuleLoadData(self, image: bytes) -> tuple[int, object]:
        return (0, image) if int(image) == self._reads else (303, None)


def _by_clang(arch: str, source: str, defines: object, version: int) -> hip.CompiledHipCode:
    return hip.CompiledHipCode(str(version).encode(), f"clang, code objects of version {version}", version)


def test_code_objects_are_made_in_the_version_that_this_hip_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hip, "compile_for", _by_clang)
    for reads in (5, 4):
        monkeypatch.setattr(hip, "bindings", lambda reads=reads: _Refusing(reads))
        gpu = hip.Hip(0)
        first, second = gpu.compile("a", {}), gpu.compile("b", {})
        assert int(gpu.load(first)) == int(gpu.load(second)) == reads
        assert gpu.device.compiler == f"clang, code objects of version {reads}"
    monkeypatch.setattr(hip, "bindings", lambda: _Refusing(None))
    gpu = hip.Hip(0)
    with pytest.raises(DeviceFailure, match=r"rejected the kernels.*\(303\).*version 4.*ROCM_PATH"):
        gpu.load(gpu.compile("a", {}))


def test_who_keeps_a_gpu_busy_is_asked_of_a_program_of_its_vendor() -> None:
    for vendor, told, other in (("amd", "amd-smi", "nvidia-smi"), ("nvidia", "nvidia-smi", "rocm-smi")):
        gpu = StandIn(device=replace(DEVICE, vendor=vendor), stuck=True)
        with pytest.raises(LimitExceeded) as refused:
            runtime.wait(gpu, gpu.event(), -runtime.MARGIN_S - 1)
        assert told in refused.value.fix and other not in refused.value.fix


def test_a_status_code_becomes_a_failure_with_its_name() -> None:
    with pytest.raises(DeviceFailure, match=r"hipMalloc\(9\) returned hipErrorOutOfMemory \(2\)"):
        runtime.result("hipMalloc(9)", (_Status(2), None))
    with pytest.raises(DeviceFailure, match="cuLaunchKernel returned hipErrorOutOfMemory"):
        runtime.result("cuLaunchKernel", (_Status(2),))


class _Status(int):
    name = "hipErrorOutOfMemory"


def test_arguments_are_packed_as_the_driver_reads_them() -> None:
    given = (1 << 40, 2, 3, 1 << 33, 0, 7)
    _, place = cuda._pack_arguments(given)
    pointers = (ctypes.c_void_p * 6).from_address(place)
    assert tuple(ctypes.c_uint64.from_address(p).value for p in pointers if p) == given
