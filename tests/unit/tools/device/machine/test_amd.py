"""AMD GPUs from recorded and hand-made KFD topologies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rooflens.analysis.catalogue.targets import identify
from rooflens.tools.device.machine import amd as kfd
from rooflens.tools.device.machine.model import Device


def listed(machine: Any) -> tuple[list[Device], list[str]]:
    found = kfd.topology(machine.roots)
    devices = kfd.devices(machine.roots, found)
    return devices, kfd.notes(machine.roots, found, devices)


@pytest.mark.parametrize(
    ("arch", "units", "clock", "memory", "xccs", "name"),
    [
        ("gfx90a", 104, 1700, 68702699520, 1, "AMD Instinct MI210"),
        ("gfx942", 304, 2100, 206158430208, 8, "AMD Instinct MI300X"),
        ("gfx950", 256, 2400, 309237645312, 8, "AMD Instinct MI350X"),
    ],
)
def test_recorded_trees(
    emulated: Callable[[str], Any], arch: str, units: int, clock: int, memory: int, xccs: int, name: str
) -> None:
    devices, _ = listed(emulated(arch))
    (device,) = devices
    assert (device.arch, device.compute_units, device.clock_max_mhz) == (arch, units, clock)
    assert (device.memory_bytes, device.xccs, device.name) == (memory, xccs, name)
    assert (device.vendor, device.index, device.pci) == ("amd", 0, "0000:03:00.0")
    assert arch != "gfx950" or device.uuid == "GPU-524a461102540001", "as rocminfo spells it"


@pytest.mark.parametrize(
    ("version", "arch"),
    [
        (90010, "gfx90a"),
        (90012, "gfx90c"),
        (100300, "gfx1030"),
        (110501, "gfx1151"),
        (0, None),
    ],
)
def test_arch_prints_the_stepping_in_hexadecimal(version: int, arch: str | None) -> None:
    assert kfd.arch(version) == arch


def test_compute_units_tell_products_with_one_device_id_apart(machine: Any) -> None:
    strix_halo = {"gfx_target_version": 110501, "device_id": 0x1586, "simd_per_cu": 2, "num_xcc": 1}
    machine.gpu(1, simd_count=80, **strix_halo)
    machine.gpu(2, simd_count=64, **strix_halo)
    devices, _ = listed(machine)
    assert [(d.arch, d.name, d.compute_units) for d in devices] == [
        ("gfx1151", "AMD Radeon 8060S/8050S/8040S", 40),
        ("gfx1151", "AMD Radeon 8060S/8050S/8040S", 32),
    ]
    products = [identify(d.name, d.arch, {"cu_per_gpu": d.compute_units or 0}) for d in devices]
    assert [product and product.title for product in products] == ["AMD Radeon 8060S", "AMD Radeon 8050S"]
    assert identify(devices[0].name, "gfx1151", {}) is None


def test_cpu_nodes_are_no_devices_and_hidden_nodes_are_counted(machine: Any) -> None:
    machine.node(0, simd_count=0, cpu_cores_count=64)
    machine.gpu(1)
    machine.write("sys/class/kfd/kfd/topology/nodes/2/properties", "")
    machine.write("sys/class/kfd/kfd/topology/nodes/2/gpu_id", "")
    machine.gpu(10)
    devices, notes = listed(machine)
    assert [d.index for d in devices] == [0, 1]
    assert any(note.startswith("1 KFD nodes have empty files") for note in notes)


def test_missing_figures_are_null_never_zero(machine: Any) -> None:
    machine.node(0, simd_count=416)
    (device,) = listed(machine)[0]
    assert device.model_dump(exclude={"vendor", "index", "supported"}, exclude_none=True) == {}
    machine.gpu(1)
    machine.write("sys/bus/pci/devices/0000:03:00.0/numa_node", "-1\n")
    device = listed(machine)[0][1]
    assert (device.partition, device.numa_node) == (None, None)
    machine.gpu(0, max_engine_clk_fcompute=0, simd_per_cu=0, num_xcc=0, location_id=0)
    device = listed(machine)[0][0]
    assert (device.clock_max_mhz, device.compute_units, device.xccs, device.pci) == (None, None, None, None)


def test_memory_is_that_of_the_heaps_or_else_local_mem_size_and_short_ids_are_padded(machine: Any) -> None:
    machine.node(1, bank=(0, 999), simd_count=4, local_mem_size=77, unique_id=0)
    machine.node(2, bank=(2, 555), simd_count=4, local_mem_size=77, unique_id=0xABC)
    assert [(d.memory_bytes, d.uuid) for d in listed(machine)[0]] == [(77, None), (555, "GPU-0000000000000abc")]


def test_sysfs_of_the_card_gives_partition_numa_product_and_driver(machine: Any) -> None:
    machine.gpu(1, location_id=0xC100)
    card = "sys/bus/pci/devices/0000:c1:00.0"
    machine.write(f"{card}/current_compute_partition", "SPX\n")
    machine.write(f"{card}/current_memory_partition", "NPS1\n")
    machine.write(f"{card}/numa_node", "3\n")
    machine.write(f"{card}/product_name", "AMD Instinct\u202e MI300X OAM\n")
    machine.write("sys/module/amdgpu/version", "6.10.5\n")
    (device,) = listed(machine)[0]
    assert (device.partition, device.numa_node, device.driver) == ("SPX/NPS1", 3, "amdgpu 6.10.5")
    assert device.name == "AMD Instinct MI300X OAM"


def test_the_link_is_that_of_the_slot_not_of_the_switch_on_the_card(machine: Any) -> None:
    machine.gpu(1, location_id=0xC100)
    slot = "sys/devices/pci0000:00/0000:00:01.1"
    card = f"{slot}/0000:c0:00.0/0000:c1:00.0"
    for port, rate, lanes in (
        (slot, "32.0 GT/s PCIe", 16),
        (f"{slot}/0000:c0:00.0", "16.0 GT/s PCIe", 8),
        (card, "32.0 GT/s PCIe", 16),
    ):
        machine.write(f"{port}/max_link_speed", f"{rate}\n")
        machine.write(f"{port}/current_link_width", f"{lanes}\n")
    listing = machine.base / "sys/bus/pci/devices"
    listing.mkdir(parents=True)
    (listing / "0000:c1:00.0").symlink_to(machine.base / card)
    (device,) = listed(machine)[0]
    assert (str(device.link), device.link.gbs) == ("PCIe 4.0 x8", 15.8)


@pytest.mark.parametrize(
    "rate, lanes", [("Unknown", "16"), ("16.0 GT/s PCIe", "0"), ("17 GT/s", "16"), ("32.0 GT/s", "9999")]
)
def test_a_link_that_cannot_be_is_not_known(machine: Any, rate: str, lanes: str) -> None:
    machine.gpu(1)
    machine.write("sys/bus/pci/devices/0000:03:00.0/max_link_speed", f"{rate}\n")
    machine.write("sys/bus/pci/devices/0000:03:00.0/current_link_width", f"{lanes}\n")
    (device,) = listed(machine)[0]
    assert device.link is None


@pytest.mark.parametrize("partition_bits", ["high", "function"])
def test_each_partition_is_a_device_of_its_own_on_the_same_card(machine: Any, partition_bits: str) -> None:
    machine.write("sys/bus/pci/devices/0000:c1:00.0/current_compute_partition", "CPX\n")
    for part in range(8):
        location = 0xC100 | (part << 28 if partition_bits == "high" else part)
        machine.gpu(1 + part, simd_count=152, num_xcc=1, location_id=location, drm_render_minor=128 + part)
    devices, notes = listed(machine)
    assert {(d.compute_units, d.pci, d.partition) for d in devices} == {(38, "0000:c1:00.0", "CPX")}
    assert len(devices) == 8 and any("0000:c1:00.0 (8)" in note for note in notes)


def test_a_gpu_on_the_bus_without_its_driver_is_told(machine: Any) -> None:
    machine.write("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n")
    machine.write("sys/bus/pci/devices/0000:03:00.0/class", "0x120000\n")
    devices, notes = listed(machine)
    assert not devices and "0000:03:00.0" in notes[0] and "amdgpu driver is not loaded" in notes[0]


def test_nothing_and_garbage_in_the_files_are_survived(machine: Any) -> None:
    assert listed(machine) == ([], [])
    folder = machine.base / "sys/class/kfd/kfd/topology/nodes"
    machine.write("sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count four\nsimd_per_cu\n\n  \nnum_xcc -1\n")
    (folder / "2").mkdir()
    (folder / "2" / "properties").write_bytes(b"\xff\xfe simd_count 4\n\x00\n")
    (folder / "3").mkdir()
    (folder / "3" / "properties").mkdir()
    (folder / "x").mkdir()
    assert listed(machine)[0] == []
