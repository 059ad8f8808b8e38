"""NVIDIA GPUs from modules that stand in for pynvml: good answers, old drivers, failures, garbage, silence."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.tests.support.waiting import END_S
from rooflens.tools.device.machine import nvidia, nvidia_child
from rooflens.tools.device.machine.programs import ProgramAnswer

UUIDS = [f"GPU-0000000{i}-1111-2222-3333-444444444444" for i in range(8)]
H200 = {
    "name": "NVIDIA H200", "capability": [9, 0], "clock": 1980, "memory": 143771 << 20, "mig": 0,
    "link": [5, 16], "pci": "00000000:41:00.0",
}  # fmt: skip
NOT_SUPPORTED = "NVMLError_NotSupported: Not Supported"
Nvml = Callable[..., None]


def gpu(index: int = 0, **changes: Any) -> dict[str, Any]:
    return {**H200, "uuid": UUIDS[index], **changes}


@pytest.fixture
def nvml(machine: Any, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """``nvml(gpus, driver, init)`` puts a pynvml that answers so in the child's way; ``code=`` a module of that text.

    The machine shows the driver, and its own CUDA driver knows none of these GPUs.
    """
    folder = machine.base / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    machine.write("proc/driver/nvidia/version", "made up")

    def put(*gpus: Any, driver: str = "580.159.04", init: str = "", code: str = "") -> None:
        (folder / "gpus.json").write_text(json.dumps({"gpus": gpus, "driver": driver, "init": init}))
        if code:
            (folder / "pynvml.py").write_text(f"# stand-in written by a test\n{code}\n")
        else:
            shutil.copy(Path(__file__).with_name("fake_pynvml.py"), folder / "pynvml.py")

    return put


def test_a_gpu_with_every_field(machine: Any, nvml: Nvml) -> None:
    nvml(gpu())
    machine.write("sys/bus/pci/devices/0000:41:00.0/numa_node", "1\n")
    gpus = nvidia.devices(machine.roots)
    (device,) = gpus.devices
    assert gpus.notes == []
    assert device.model_dump(exclude_none=True) == {
        "vendor": "nvidia", "index": 0, "name": "NVIDIA H200", "arch": "sm_90", "supported": False, "uuid": UUIDS[0],
        "clock_max_mhz": 1980, "memory_bytes": 143771 * 1024 * 1024, "partition": "MIG disabled",
        "driver": "580.159.04", "pci": "0000:41:00.0", "numa_node": 1,
        "link": {"generation": 5, "width": 16, "gbs": 63.0},
    }  # fmt: skip


def test_several_gpus_and_mig(machine: Any, nvml: Nvml) -> None:
    nvml(gpu(0), gpu(1, mig=1), gpu(2, capability=[10, 0]))
    gpus = nvidia.devices(machine.roots)
    assert [d.index for d in gpus.devices] == [0, 1, 2]
    assert [d.partition for d in gpus.devices] == ["MIG disabled", "MIG enabled", "MIG disabled"]
    assert gpus.devices[2].arch == "sm_100"
    assert any("MIG mode" in note and "nvidia-smi -L" in note for note in gpus.notes)


@pytest.mark.parametrize("blank", [NOT_SUPPORTED, 0])
def test_fields_without_a_figure_are_null(machine: Any, nvml: Nvml, blank: Any) -> None:
    named = {"capability": NOT_SUPPORTED, "mig": NOT_SUPPORTED, "pci": NOT_SUPPORTED, "link": [NOT_SUPPORTED, 16]}
    nvml(gpu(**named, memory=blank, clock=blank))
    (device,) = nvidia.devices(machine.roots).devices
    known = device.model_dump(exclude_none=True)
    assert set(known) == {"vendor", "index", "supported", "name", "uuid", "driver"}


def test_a_driver_that_tells_no_names_is_survived(machine: Any, nvml: Nvml) -> None:
    nvml(gpu(name=NOT_SUPPORTED, uuid="not-a-uuid", pci="nowhere"), driver=NOT_SUPPORTED)
    (device,) = nvidia.devices(machine.roots).devices
    assert (device.name, device.uuid, device.pci, device.driver, device.arch) == (None, None, None, None, "sm_90")


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.", "reboot"),
        ("NVMLError_DriverNotLoaded: Driver Not Loaded", "modprobe nvidia"),
        ("NVMLError_LibraryNotFound: NVML Shared Library Not Found", "Install the driver's libraries"),
        ("NVMLError_Unknown: oops", "reports: oops. Run nvidia-smi by hand"),
    ],
)
def test_a_failure_is_a_note_with_advice(machine: Any, nvml: Nvml, failure: str, told: str) -> None:
    nvml(init=failure)
    gpus = nvidia.devices(machine.roots)
    assert gpus.devices == [] and told in gpus.notes[0] and ".." not in gpus.notes[0]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; print('oops', file=sys.stderr); sys.exit(3)", "status 3: oops"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "status -11"),
        ("raise ImportError('no pynvml here')", "pip install nvidia-ml-py"),
    ],
)
def test_a_library_that_breaks_the_process_is_a_note(machine: Any, nvml: Nvml, code: str, told: str) -> None:
    nvml(code=code)
    gpus = nvidia.devices(machine.roots)
    assert gpus.devices == [] and told in gpus.notes[0]


def test_a_driver_without_a_gpu_for_us_is_told(machine: Any, nvml: Nvml) -> None:
    nvml()
    gpus = nvidia.devices(machine.roots)
    assert gpus.devices == [] and "no GPU to this process" in gpus.notes[0]


def test_a_gpu_of_another_job_is_not_listed(machine: Any, nvml: Nvml) -> None:
    nvml("NVMLError_NoPermission: Insufficient Permissions", gpu(1))
    gpus = nvidia.devices(machine.roots)
    assert [d.index for d in gpus.devices] == [1] and gpus.notes == []


@pytest.mark.parametrize(
    "text",
    ["{}", '{"gpus": [{"name": "x"}]}', "{\\001\\033[31m", "[1]"],
)
def test_garbage_is_told_and_not_believed(machine: Any, nvml: Nvml, text: str) -> None:
    nvml(code=f"import os\nos.write(1, b'''{text}''')\nos._exit(0)")
    gpus = nvidia.devices(machine.roots)
    assert gpus.devices == [] and "unreadable output" in gpus.notes[0]
    assert gpus.notes[0].isprintable()


def test_what_a_library_prints_besides_is_passed_over(machine: Any, nvml: Nvml) -> None:
    nvml(gpu())
    module = machine.base / "modules/pynvml.py"
    module.write_text(module.read_text() + "\nprint('a warning of the library')\n")
    gpus = nvidia.devices(machine.roots)
    assert len(gpus.devices) == 1 and gpus.notes == []


def test_one_lost_gpu_among_good_ones(machine: Any, nvml: Nvml) -> None:
    nvml(gpu(), "NVMLError_GpuIsLost: GPU is lost")
    gpus = nvidia.devices(machine.roots)
    assert len(gpus.devices) == 1 and "GPU 1: GPU is lost" in gpus.notes[0]


def test_silence_ends_after_the_time_limit(machine: Any, nvml: Nvml) -> None:
    nvml(code="import signal, time\nsignal.signal(15, signal.SIG_IGN); time.sleep(600)")
    start = time.monotonic()
    gpus = nvidia.devices(machine.roots, timeout_s=0.2)
    assert time.monotonic() - start < END_S
    assert gpus.devices == [] and "did not answer within 0.2 s" in gpus.notes[0]


def test_endless_output_is_cut_off(machine: Any, nvml: Nvml) -> None:
    nvml(code="while True: print('a line of garbage')")
    gpus = nvidia.devices(machine.roots, timeout_s=END_S)
    assert "too much output" in gpus.notes[0]


def test_absent(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "ask", lambda *_: pytest.fail("nothing is asked without a sign of a GPU"))
    assert nvidia.devices(machine.roots) == nvidia.NvidiaGpus()


def test_the_drivers_own_files_name_the_gpus_when_nvml_fails(machine: Any, nvml: Nvml) -> None:
    nvml(init="NVMLError_Unknown: Unknown Error")
    machine.write(
        "proc/driver/nvidia/gpus/0000:41:00.0/information",
        f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 100\nGPU UUID: \t {UUIDS[0]}\nBus Location: \t 0000:41:00.0\n",
    )
    gpus = nvidia.devices(machine.roots)
    (device,) = gpus.devices
    assert (device.name, device.uuid, device.pci, device.arch) == ("NVIDIA H200", UUIDS[0], "0000:41:00.0", None)
    assert "Unknown Error" in gpus.notes[0]


def test_gpus_without_their_library_are_told(machine: Any, nvml: Nvml) -> None:
    nvml(init="NVMLError_LibraryNotFound: NVML Shared Library Not Found")
    shutil.rmtree(machine.base / "proc")
    machine.write("sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n")
    machine.write("sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n")
    gpus = nvidia.devices(machine.roots)
    assert gpus.devices == [] and "0000:41:00.0" in gpus.notes[0] and "Not Found" in gpus.notes[0]


@pytest.mark.parametrize(
    ("line", "units"),
    [
        (f'{{"{UUIDS[0]}": {{"sms": 132}}}}', 132),
        (f'{{"{UUIDS[0]}": {{}}}}', None),
        ("{}", None),
        ("", None),
        ("no json", None),
        ('{"sms": "many"}', None),
    ],
)
def test_the_sm_count_comes_from_the_cuda_driver(
    machine: Any, nvml: Nvml, monkeypatch: pytest.MonkeyPatch, line: str, units: int | None
) -> None:
    first = json.dumps({"driver": "580.1", "gpus": [{"index": 0, "uuid": UUIDS[0], "name": "NVIDIA H200"}]})
    monkeypatch.setattr(nvidia, "ask", lambda argv, s: ProgramAnswer(None, f"{first}\n{line}", failure="did not end"))
    gpus = nvidia.devices(machine.roots)
    assert [(d.compute_units, d.name) for d in gpus.devices] == [(units, "NVIDIA H200")] and gpus.notes == []


def test_the_cuda_driver_is_asked_for_the_limits_of_each_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytes.fromhex(UUIDS[3].removeprefix("GPU-").replace("-", ""))

    def fill(place: Any, value: int) -> int:
        place._obj.value = value
        return 0

    cuda = SimpleNamespace(
        cuInit=lambda flags: 0,
        cuDeviceGetCount=lambda place: fill(place, 1),
        cuDeviceGet=lambda place, index: fill(place, index),
        cuDeviceGetUuid=lambda buffer, device: ctypes.memmove(buffer, raw, 16) and 0,
        cuDeviceGetAttribute=lambda place, which, device: (
            fill(place, {16: 132, 39: 2048}[which]) if which in (16, 39) else 1
        ),
    )
    monkeypatch.setattr(nvidia_child.ctypes, "CDLL", lambda name: cuda)
    assert nvidia_child.limits() == {UUIDS[3]: {"sms": 132, "threads_per_sm": 2048}}
    cuda.cuInit = lambda flags: 100
    assert nvidia_child.limits() == {}


_CLOCKS = """
from rooflens.tools.device.benchmarks.runtime import driver_and_partition
from rooflens.tools.device.machine.sensors import reader
for place in ("00000000:41:00.0", "00000000:42:00.0"):
    read = reader("nvidia", place)
    found = read and read()
    print(driver_and_partition(place), found and (found.clock_mhz, found.temperature_c))
"""


def test_pynvml_itself_reads_a_made_up_library(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source, library = Path(__file__).with_name("fake_nvml.c"), machine.base / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(machine.base))
    machine.write("dev/nvidiactl", "")
    gpus = nvidia.devices(machine.roots)
    (device,) = gpus.devices
    assert gpus.notes == [] and device.model_dump(exclude_none=True) == {
        "vendor": "nvidia", "index": 0, "name": "NVIDIA H200", "arch": "sm_90", "supported": False, "uuid": UUIDS[0],
        "clock_max_mhz": 1980, "memory_bytes": 143771 * 1024 * 1024, "partition": "MIG disabled",
        "driver": "580.159.04", "pci": "0000:41:00.0",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", _CLOCKS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "('580.159.04', 'MIG disabled') (1755.0, 41.0)",
        "('580.159.04', None) None",
    ]
