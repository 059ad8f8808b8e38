"""Whether counters are permitted, with the reason and the remedy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rooflens.tools.device.machine import permissions

SYS_ADMIN, PERFMON = 1 << 21, 1 << 38


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of device files that this user may not open; root may open everything, so the test says which not."""
    names: set[str] = set()
    real = os.access

    def access(path: Any, mode: int, **more: Any) -> bool:
        return real(path, mode, **more) and not (mode & os.W_OK and Path(path).name in names)

    monkeypatch.setattr(permissions.os, "access", access)
    return names


def amd(machine: Any) -> None:
    machine.write("dev/kfd", "")
    machine.write("dev/dri/renderD128", "")
    machine.user()


def test_amd_needs_kfd_and_a_render_node_of_its_gpus(machine: Any) -> None:
    verdict = permissions.amd(machine.roots, [128])
    assert verdict.usable is False and "/dev/kfd" in str(verdict.why) and "--device /dev/kfd" in str(verdict.fix)
    amd(machine)
    assert permissions.amd(machine.roots, [128]) == permissions.CounterPermission(True)
    verdict = permissions.amd(machine.roots, [129])
    assert verdict.usable is False and "--device /dev/dri" in str(verdict.fix)


@pytest.mark.parametrize("name", ["kfd", "renderD128"])
def test_amd_without_the_right_to_open(machine: Any, closed: set[str], name: str) -> None:
    amd(machine)
    closed.add(name)
    verdict = permissions.amd(machine.roots, [128])
    assert verdict.usable is False and name in str(verdict.why)
    assert "usermod -aG render,video" in str(verdict.fix) and "--group-add" in str(verdict.fix)


def test_amd_with_strict_perf_events_is_usable_with_a_warning(machine: Any) -> None:
    amd(machine)
    machine.user(paranoid=4)
    verdict = permissions.amd(machine.roots, [128])
    assert verdict.usable is True and "perf_event_paranoid is 4" in str(verdict.why) and verdict.fix
    machine.user(paranoid=4, capabilities=PERFMON)
    assert permissions.amd(machine.roots, [128]).why is None


@pytest.mark.parametrize(
    ("restricted", "driver", "capabilities", "uid_map", "usable"),
    [
        (1, "580.159.04", 0, "0 0 4294967295", False),
        (1, "580.159.04", SYS_ADMIN, "0 0 4294967295", True),
        (1, "580.159.04", PERFMON, "0 0 4294967295", True),
        (1, "550.54.15", PERFMON, "0 0 4294967295", False),
        (1, None, PERFMON, "0 0 4294967295", False),
        (1, "580.159.04", SYS_ADMIN, "0 1000 1", False),
        (0, "550.54.15", 0, "0 0 4294967295", True),
        (None, "580.159.04", 0, "0 0 4294967295", None),
        (None, "580.159.04", SYS_ADMIN, "0 0 4294967295", True),
    ],
)
def test_nvidia(
    machine: Any, restricted: int | None, driver: str | None, capabilities: int, uid_map: str, usable: bool | None
) -> None:
    machine.user(capabilities=capabilities, uid_map=uid_map)
    if restricted is not None:
        text = f'ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {restricted}\nRegistryDwords: ""\n'
        machine.write("proc/driver/nvidia/params", text)
    verdict = permissions.nvidia(machine.roots, driver)
    assert verdict.usable is usable
    if usable is False:
        assert "ERR_NVGPUCTRPERM" in str(verdict.why) and "NVreg_RestrictProfilingToAdminUsers=0" in str(verdict.fix)
    elif usable is None:
        assert "ERR_NVGPUCTRPERM" in str(verdict.fix)


def test_nvidia_in_a_gvisor_sandbox(machine: Any) -> None:
    machine.user(capabilities=SYS_ADMIN)
    machine.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz-4.4.0-gvisor quiet\n")
    verdict = permissions.nvidia(machine.roots, "580.159.03")
    assert verdict.usable is False and "gVisor" in str(verdict.why)


@pytest.mark.parametrize(
    ("source", "paranoid", "capabilities", "seccomp", "usable"),
    [
        ("cpu", 1, 0, 0, True), ("cpu", 2, 0, 0, True), ("cpu", -1, 0, 0, True), ("cpu", 4, 0, 0, False),
        ("cpu", 3, PERFMON, 2, True), ("cpu", 2, 0, 2, None), ("cpu_core", 1, 0, 0, True),
        ("armv8_pmuv3_0", 1, 0, 0, True), ("software", 1, SYS_ADMIN, 0, False), ("cpuidle", 1, 0, 0, False),
    ],
)  # fmt: skip
def test_perf(machine: Any, source: str, paranoid: int, capabilities: int, seccomp: int, usable: bool | None) -> None:
    machine.write(f"sys/bus/event_source/devices/{source}/type", "4\n")
    machine.user(capabilities=capabilities, paranoid=paranoid, seccomp=seccomp)
    verdict = permissions.cpu(machine.roots)
    assert verdict.usable is usable
    assert usable is True or (verdict.why and verdict.fix)
    assert source != "software" or "virtual machines" in str(verdict.why)
