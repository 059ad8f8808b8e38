"""NVIDIA GPUs from programs that stand in for nvidia-smi: good answers, old versions, failures, garbage, silence."""

from __future__ import annotations

import time
from typing import Any

import pytest
from rooflens.tools.machine import nvidia, programs
from rooflens.tools.machine.programs import Answer

UUIDS = [f"GPU-0000000{i}-1111-2222-3333-444444444444" for i in range(8)]
H200 = "0, {uuid}, NVIDIA H200, 143771, 1980, 580.159.04, 00000000:41:00.0, Disabled, 9.0"


def row(index: int = 0, **changes: str) -> str:
    cells = dict(zip(nvidia.FIELDS, H200.format(uuid=UUIDS[index]).split(", "), strict=True))
    return ", ".join({**cells, "index": str(index), **changes}.values())


@pytest.fixture(autouse=True)
def no_cuda_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of the tests may have a GPU of its own: its driver is not asked unless a test wants it."""
    real = programs.ask

    def without(argv: list[str], timeout_s: float) -> Answer:
        return Answer(1) if "cuda_driver" in argv[-1] else real(argv, timeout_s)

    monkeypatch.setattr(nvidia, "ask", without)


def test_a_gpu_with_every_field(machine: Any) -> None:
    machine.program("nvidia-smi", f"echo '{row()}'")
    machine.write("sys/bus/pci/devices/0000:41:00.0/numa_node", "1\n")
    found = nvidia.devices(machine.roots)
    (device,) = found.devices
    assert found.notes == []
    assert device.model_dump(exclude_none=True) == {
        "vendor": "nvidia", "index": 0, "name": "NVIDIA H200", "arch": "sm_90", "supported": False, "uuid": UUIDS[0],
        "clock_max_mhz": 1980, "memory_bytes": 143771 * 1024 * 1024, "partition": "MIG disabled",
        "driver": "580.159.04", "pci": "0000:41:00.0", "numa_node": 1,
    }  # fmt: skip


def test_it_is_asked_with_an_argument_list_and_no_shell(machine: Any) -> None:
    machine.program("nvidia-smi", f'printf "%s\\n" "$@" > {machine.base}/arguments; echo "{row()}"')
    nvidia.devices(machine.roots)
    arguments = (machine.base / "arguments").read_text().splitlines()
    assert arguments == [f"--query-gpu={','.join(nvidia.FIELDS)}", "--format=csv,noheader,nounits"]


def test_several_gpus_and_mig(machine: Any) -> None:
    rows = "\n".join([row(0), row(1, **{"mig.mode.current": "Enabled"}), row(2, compute_cap="10.0")])
    machine.program("nvidia-smi", f"cat <<'END'\n{rows}\nEND")
    found = nvidia.devices(machine.roots)
    assert [d.index for d in found.devices] == [0, 1, 2]
    assert [d.partition for d in found.devices] == ["MIG disabled", "MIG enabled", "MIG disabled"]
    assert found.devices[2].arch == "sm_100"
    assert any("MIG mode" in note and "nvidia-smi -L" in note for note in found.notes)


@pytest.mark.parametrize("blank", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", "0", ""])
def test_fields_without_a_figure_are_null(machine: Any, blank: str) -> None:
    fields = dict.fromkeys(("memory.total", "clocks.max.sm", "mig.mode.current", "compute_cap", "pci.bus_id"), blank)
    machine.program("nvidia-smi", f"echo '{row(**fields)}'")
    (device,) = nvidia.devices(machine.roots).devices
    known = device.model_dump(exclude_none=True)
    assert set(known) == {"vendor", "index", "supported", "name", "uuid", "driver"}


def test_an_old_nvidia_smi_is_asked_again_without_the_fields_it_lacks(machine: Any) -> None:
    old = row().rsplit(", ", 2)[0]
    machine.program(
        "nvidia-smi",
        'for f in compute_cap mig.mode.current; do case "$1" in *$f*)'
        ' echo "Field \\"$f\\" is not a valid field to query."; exit 2;; esac; done\n'
        f"echo '{old}'",
    )
    (device,) = nvidia.devices(machine.roots).devices
    assert (device.name, device.arch, device.partition, device.clock_max_mhz) == ("NVIDIA H200", None, None, 1980)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "reboot"),
        (
            'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9',
            "modprobe nvidia",
        ),
        ("echo 'No devices were found'; exit 6", "no GPU for this process"),
        ("echo oops >&2; exit 3", "status 3: oops"),
        ("exit 4", "status 4"),
        ("kill -SEGV $$", "status -11"),
    ],
)
def test_a_failure_is_a_note_with_advice(machine: Any, script: str, told: str) -> None:
    machine.program("nvidia-smi", script)
    found = nvidia.devices(machine.roots)
    assert found.devices == [] and told in found.notes[0]


def test_no_devices_found_with_a_clean_exit_is_no_gpu(machine: Any) -> None:
    machine.program("nvidia-smi", "echo 'No devices were found'")
    found = nvidia.devices(machine.roots)
    assert found.devices == [] and "no GPU for this process" in found.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "<html>\\nnot a table\\n</html>",
        "0, not-a-uuid, x, 1, 1, 1, 1, 1, 1",
        "\\001\\033[31m0,,,\\n",
        'a, b\\n"unclosed, c',
    ],
)
def test_garbage_is_told_and_not_believed(machine: Any, text: str) -> None:
    machine.program("nvidia-smi", f"printf '{text}'")
    found = nvidia.devices(machine.roots)
    assert found.devices == [] and "describe no GPU" in found.notes[0]
    assert found.notes[0].isprintable()


def test_one_broken_line_among_good_ones(machine: Any) -> None:
    lost = "Unable to determine the device handle for GPU0000:42:00.0: Unknown Error"
    machine.program("nvidia-smi", f"echo '{row()}'; echo '{lost}'")
    found = nvidia.devices(machine.roots)
    assert len(found.devices) == 1 and "Unable to determine" in found.notes[0]


@pytest.mark.parametrize("script", ["sleep 60", "trap '' TERM; sleep 60 & sleep 60", "echo 0; sleep 60"])
def test_silence_ends_after_the_time_limit(machine: Any, script: str) -> None:
    machine.program("nvidia-smi", script)
    start = time.monotonic()
    found = nvidia.devices(machine.roots, timeout_s=0.5)
    assert time.monotonic() - start < 4
    assert found.devices == [] and "did not answer within 0.5 s" in found.notes[0]


def test_endless_output_is_cut_off(machine: Any) -> None:
    machine.program("nvidia-smi", "yes 'a line of garbage'")
    start = time.monotonic()
    found = nvidia.devices(machine.roots)
    assert time.monotonic() - start < 10 and "more than it should" in found.notes[0]


def test_not_an_executable_format(machine: Any) -> None:
    (machine.bin / "nvidia-smi").write_bytes(b"\x7fELF nonsense")
    (machine.bin / "nvidia-smi").chmod(0o755)
    found = nvidia.devices(machine.roots)
    assert found.devices == [] and "cannot be started" in found.notes[0]


def test_absent(machine: Any) -> None:
    assert nvidia.devices(machine.roots) == nvidia.Found()


def test_the_drivers_own_files_name_the_gpus_when_nvidia_smi_fails(machine: Any) -> None:
    machine.program("nvidia-smi", "exit 255")
    machine.write(
        "proc/driver/nvidia/gpus/0000:41:00.0/information",
        f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 100\nGPU UUID: \t {UUIDS[0]}\nBus Location: \t 0000:41:00.0\n",
    )
    found = nvidia.devices(machine.roots)
    (device,) = found.devices
    assert (device.name, device.uuid, device.pci, device.arch) == ("NVIDIA H200", UUIDS[0], "0000:41:00.0", None)
    assert "status 255" in found.notes[0]


def test_gpus_without_nvidia_smi_are_told(machine: Any) -> None:
    machine.write("sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n")
    machine.write("sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n")
    found = nvidia.devices(machine.roots)
    assert found.devices == [] and "0000:41:00.0" in found.notes[0] and "not installed" in found.notes[0]


@pytest.mark.parametrize(
    ("answer", "units"),
    [
        (f'[{{"uuid": "{UUIDS[0]}", "sms": 132, "capability": "9.0"}}]', 132),
        ("[]", None), ("", None), ("no json", None), ('[{"sms": 1}]', None), ("7", None),
    ],
)  # fmt: skip
def test_the_sm_count_comes_from_the_cuda_driver(
    machine: Any, monkeypatch: pytest.MonkeyPatch, answer: str, units: int | None
) -> None:
    machine.program("nvidia-smi", f"echo '{row(compute_cap='[N/A]')}'")
    real = programs.ask
    stand_in = Answer(0, answer)
    monkeypatch.setattr(nvidia, "ask", lambda argv, s: stand_in if "cuda_driver" in argv[-1] else real(argv, s))
    (device,) = nvidia.devices(machine.roots).devices
    assert (device.compute_units, device.arch) == (units, "sm_90" if units else None)
