"""The settings of a host that change what profilers measure, and laptops on their battery."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rooflens.tools.device.machine.host_settings import HostSetting, host_settings, torch_hip, unsound
from rooflens.tools.device.machine.model import Device, InstalledProfiler
from rooflens.tools.device.machine.survey import on_battery, survey
from rooflens.tools.running.known_failures import defects_here

CARD = "sys/bus/pci/devices/0000:03:00.0"


def host(machine: Any, *, balancing: int = 0, governor: str = "performance", iommu: str = "identity") -> None:
    """A host whose settings are as profiling needs them, unless the arguments say otherwise."""
    machine.user()
    machine.write("proc/sys/kernel/numa_balancing", f"{balancing}\n")
    machine.write("proc/sys/kernel/yama/ptrace_scope", "0\n")
    for number in range(2):
        machine.write(f"sys/devices/system/node/node{number}/cpulist", f"{number}\n")
        machine.write(f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", f"{governor}\n")
    machine.write(f"{CARD}/iommu_group/type", f"{iommu}\n")
    for device in ("dev/kfd", "dev/dri/renderD128"):
        machine.write(device, "")


def settings(machine: Any) -> dict[str, HostSetting]:
    return {one.code: one for one in survey(machine.roots).settings}


def wrong(machine: Any) -> set[str]:
    return {one.code for one in survey(machine.roots).settings if not one.sound}


def test_a_host_as_it_should_be_has_nothing_wrong(machine: Any) -> None:
    machine.gpu(1)
    host(machine)
    assert set(settings(machine)) == {"numa_balancing", "governor", "iommu", "seccomp", "ptrace"}
    assert not wrong(machine)


@pytest.mark.parametrize(
    ("target", "level", "sound"),
    [
        (120001, "auto", False),
        (120001, "profile_standard", True),
        (110501, "auto", False),
        (90402, "auto", True),
        (120500, "auto", True),
    ],
)
def test_rdna_3_and_4_count_only_at_a_profile_level(machine: Any, target: int, level: str, sound: bool) -> None:
    machine.gpu(1, gfx_target_version=target)
    machine.write(f"{CARD}/power_dpm_force_performance_level", f"{level}\n")
    one = settings(machine)["power_level"]
    assert (one.sound, one.concerns, one.device) == (sound, "counters", 0)
    command = f"echo profile_standard | sudo tee /{CARD}/power_dpm_force_performance_level"
    assert sound or one.fix.splitlines()[1:] == [f"  {command}"]


@pytest.mark.parametrize(("modes", "fixes"), [("SPX/NPS1", 0), ("TPX/", 1), ("CPX/NPS4", 2)])
def test_the_partition_of_a_card_is_told_with_the_way_back(machine: Any, modes: str, fixes: int) -> None:
    machine.gpu(1)
    compute, _, memory = modes.partition("/")
    machine.write(f"{CARD}/current_compute_partition", f"{compute}\n")
    machine.write(f"{CARD}/current_memory_partition", f"{memory}\n")
    one = settings(machine)["partition"]
    assert (one.sound, one.fix.count("sudo amd-smi set")) == (not fixes, fixes)


def test_numa_balancing_matters_only_with_several_nodes(machine: Any) -> None:
    machine.gpu(1)
    host(machine, balancing=1)
    assert wrong(machine) == {"numa_balancing"}
    (machine.base / "sys/devices/system/node/node1/cpulist").unlink()
    (machine.base / "sys/devices/system/node/node1").rmdir()
    assert not wrong(machine)
    assert host_settings(machine.roots, [Device(vendor="nvidia", index=0)], []) == []


def test_a_driver_of_clocks_that_prefers_performance_is_sound_under_any_governor(machine: Any) -> None:
    machine.gpu(1)
    host(machine, governor="powersave")
    assert wrong(machine) == {"governor"}
    for number in range(2):
        machine.write(f"sys/devices/system/cpu/cpu{number}/cpufreq/energy_performance_preference", "performance\n")
    assert not wrong(machine)


@pytest.mark.parametrize(
    ("scope", "capabilities", "sound"), [(0, 0, True), (1, 0, False), (1, 1 << 19, True), (3, 1 << 19, False)]
)
def test_whether_a_profiler_may_attach(machine: Any, scope: int, capabilities: int, sound: bool) -> None:
    machine.gpu(1)
    machine.user(capabilities=capabilities)
    machine.write("proc/sys/kernel/yama/ptrace_scope", f"{scope}\n")
    assert settings(machine)["ptrace"].sound is sound


def test_a_system_call_filter_and_an_iommu_that_translates_are_told(machine: Any) -> None:
    machine.gpu(1)
    host(machine, iommu="DMA-FQ")
    machine.user(seccomp=2)
    assert "seccomp=unconfined" in settings(machine)["seccomp"].fix and wrong(machine) == {"seccomp", "iommu"}


@pytest.mark.parametrize(
    ("driver", "release", "sound"),
    [
        ("6.16.13", "ROCm 7.2.0-43", True),
        ("6.16.13", "ROCm 6.3.0-1", True),
        ("6.16.13", "ROCm 6.2.0-1", False),
        ("6.8.5", "ROCm 7.0.0-1", True),
        ("6.7.0", "ROCm 7.0.0-1", False),
        ("6.19.14", "ROCm 10.0.0", None),
        (None, "ROCm 7.0.0-1", None),
    ],
)
def test_driver_and_rocm_are_held_against_amd_s_matrix(
    machine: Any, driver: str | None, release: str, sound: bool | None
) -> None:
    machine.gpu(1)
    if driver:
        machine.write("sys/module/amdgpu/version", f"{driver}\n")
    gpus = survey(machine.roots).gpus
    tool = InstalledProfiler(name="rocprofv3", vendor="amd", path="/x", release=release)
    told = {one.code: one.sound for one in host_settings(machine.roots, gpus, [tool])}
    assert told.get("driver_release") is sound


def test_what_changes_times_is_one_sentence_and_what_forbids_has_a_remedy() -> None:
    given = [
        HostSetting("numa_balancing", "times", False, "a", "b"),
        HostSetting("governor", "times", False, "c", "d"),
        HostSetting("iommu", "times", True, "e"),
        HostSetting("power_level", "counters", False, "zeros", "echo", 1),
        HostSetting("ptrace", "attaching", False, "no attaching", "sysctl"),
    ]
    assert unsound(given, ["counters", "times"]) == [
        "Zeros. echo.",
        "Settings of this host that change times: numa_balancing, governor. "
        "rooflens doctor shows the command for each.",
    ]
    assert unsound(given, ["counters"], device=0) == [] and len(unsound(given, ["counters"], device=1)) == 1
    assert unsound(given, ["attaching"], device=0) == ["No attaching. sysctl."]


@pytest.mark.parametrize(
    ("library", "version", "hip"),
    [
        ("libroctracer64.so", "hip: Optional[str] = '7.2.26015-fc0010cf6a'", "7.2.26015"),
        ("librocprofiler-sdk.so", "hip: Optional[str] = '7.2.26015'", None),
        ("libroctracer64.so", "hip: Optional[str] = None", None),
    ],
)
def test_a_pytorch_with_the_old_tracer_is_recognised(machine: Any, library: str, version: str, hip: str | None) -> None:
    machine.write(f"site/torch/lib/{library}", "")
    machine.write("site/torch/version.py", f"__version__ = '2.10'\ncuda: Optional[str] = None\n{version}\n")
    roots = replace(machine.roots, site=machine.base / "site")
    assert torch_hip(roots) == hip
    machine.gpu(1)
    codes = [defect.code for profiler, defect in defects_here(survey(roots)) if profiler.name == "torch"]
    assert codes == (["graph_kernels_missing"] if hip else [])


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ({}, False),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}, "AC": {"type": "Mains", "online": "0"}}, True),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}}, True),
        ({"BAT0": {"type": "Battery", "status": "Charging"}, "AC": {"type": "Mains", "online": "1"}}, False),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}, "AC": {"type": "Mains", "online": "1"}}, False),
        ({"hidpp_0": {"type": "Battery", "status": "Discharging", "scope": "Device"}}, False),
        ({"BAT0": {"type": "Battery", "status": "Unknown"}}, False),
    ],
)
def test_a_machine_on_its_battery_is_known(machine: Any, supplies: dict[str, dict[str, str]], expected: bool) -> None:
    for name, files in supplies.items():
        for file, text in files.items():
            machine.write(f"sys/class/power_supply/{name}/{file}", f"{text}\n")
    assert on_battery(machine.roots) is expected
