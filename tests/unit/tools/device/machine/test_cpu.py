"""The processors, from hand-made /proc and /sys trees."""

from __future__ import annotations

from typing import Any

from rooflens.tools.device.machine import survey


def thread(machine: Any, number: int, package: int, core: int, khz: int | None = None) -> str:
    folder = f"sys/devices/system/cpu/cpu{number}"
    machine.write(f"{folder}/topology/physical_package_id", f"{package}\n")
    machine.write(f"{folder}/topology/core_id", f"{core}\n")
    if khz:
        machine.write(f"{folder}/cpufreq/cpuinfo_max_freq", f"{khz}\n")
    return f"processor\t: {number}\nmodel name\t: AMD EPYC 9654 96-Core Processor\ncpu MHz\t\t: 1500.0\n"


def test_two_sockets_with_two_threads_a_core(machine: Any) -> None:
    records = [thread(machine, n, n // 4 % 2, n % 2, 3_700_000 + 1000 * n) for n in range(8)]
    machine.write("sys/devices/system/cpu/cpufreq/boost", "1")
    machine.write("proc/cpuinfo", "\n".join(records))
    machine.write("proc/meminfo", "MemTotal:       24684084 kB\nMemFree: 1 kB\n")
    device = survey.device(machine.roots)
    assert (device.compute_units, device.threads, device.clock_max_mhz) == (4, 8, 3707)
    assert (device.name, device.memory_bytes) == ("AMD EPYC 9654 96-Core Processor", 24684084 * 1024)


def test_cores_from_cpuinfo_where_sys_is_closed_and_nothing_where_both_are(machine: Any) -> None:
    known = survey.device(machine.roots).model_dump(exclude_none=True, exclude={"arch"})
    assert known == {"vendor": "cpu", "index": 0, "supported": False}
    text = "\n".join(f"processor : {n}\nphysical id : 0\ncore id : {n // 2}\n" for n in range(4))
    machine.write("proc/cpuinfo", text)
    device = survey.device(machine.roots)
    assert (device.compute_units, device.threads, device.name) == (2, 4, None)
    machine.write("proc/cpuinfo", thread(machine, 0, 0, 0))
    assert survey.device(machine.roots).clock_max_mhz is None, "the present clock is not the highest"


def test_arm_processors_are_named_by_their_numbers(machine: Any) -> None:
    grace = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\nHardware\t: x\n"
    machine.write("proc/cpuinfo", grace)
    assert survey.device(machine.roots).name == "Neoverse V2"
    machine.write("proc/cpuinfo", grace.replace("0xd4f", "0xfff"))
    assert survey.device(machine.roots).name == "Arm implementer 0x41, part 0xfff"
