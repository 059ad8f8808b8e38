"""Detect AMD GPUs from the topology that the kernel driver (KFD) publishes in sysfs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ....analysis.catalogue import targets
from . import sysfs
from .model import Device, Roots
from .sysfs import clean, listing, path_exists, properties, read

_LOCAL_HEAPS = (1, 2)
"""KFD heap types of the GPU's own memory: visible to the host, and not visible."""
_DATA_CACHE = 1
"""Bit of a KFD cache's type."""


@dataclass(frozen=True)
class Topology:
    """The GPU nodes in the driver's order with their properties, and the number of hidden nodes."""

    nodes: list[tuple[int, dict[str, int]]]
    hidden: int = 0
    """Number of nodes with empty or unreadable files, because a device cgroup hides their GPU from this process."""
    present: bool = False
    """Whether the driver publishes a topology at all."""

    @property
    def render_minors(self) -> list[int]:
        """Return the numbers of the GPUs' /dev/dri/renderD devices."""
        return sorted({values["drm_render_minor"] for _, values in self.nodes if values.get("drm_render_minor")})


def topology(roots: Roots) -> Topology:
    """Read every node. The folder is opened directly, because listing its parent fails in some sandboxes."""
    folder = roots.at("sys/class/kfd/kfd/topology/nodes")
    nodes, hidden = [], 0
    node_folders = sorted((int(p.name), p) for p in listing(folder) if p.name.isdecimal())
    for number, node in node_folders:
        values = properties(node / "properties")
        if not values:
            hidden += 1
        elif values.get("simd_count"):
            nodes.append((number, values))
    return Topology(nodes, hidden, bool(node_folders))


def devices(roots: Roots, tree: Topology) -> list[Device]:
    """Return one device per GPU node; each partition of a card (CPX, DPX, ...) is its own node."""
    driver = _driver(roots)
    return [_device(roots, index, number, values, driver) for index, (number, values) in enumerate(tree.nodes)]


def limits(roots: Roots, tree: Topology) -> dict[int, dict[str, int]]:
    """Return what the driver states of one unit of each GPU, by the index of the device: positive numbers only."""
    wanted = ("simd_per_cu", "max_waves_per_simd", "wave_front_size", "lds_size_in_kb", "num_xcc", "device_id")
    by_index = {}
    for index, (number, values) in enumerate(tree.nodes):
        stated = {name: values[name] for name in wanted if values.get(name)}
        folder = roots.at(f"sys/class/kfd/kfd/topology/nodes/{number}/caches")
        for cache in (properties(place / "properties") for place in listing(folder)):
            if cache.get("cache_line_size") and cache.get("level") in (1, 2) and cache.get("type", 0) & _DATA_CACHE:
                stated.setdefault(f"line_bytes_of_level_{cache['level']}", cache["cache_line_size"])
        for bank in _local_banks(roots, number)[:1]:
            stated |= {name: bank[name] for name in ("width", "mem_clk_max") if bank.get(name)}
        by_index[index] = stated
    return by_index


def notes(roots: Roots, tree: Topology, listed: list[Device]) -> list[str]:
    """Return notes that readers of the device list need to know about this machine's AMD GPUs."""
    sentences = []
    if tree.hidden:
        sentences.append(
            f"{tree.hidden} KFD nodes have empty files: a device cgroup (container, batch job) hides their GPUs."
        )
    if not listed and not tree.hidden and (bus := ", ".join(sysfs.on_bus(roots, "amd")[:8])):
        sentences.append(
            f"AMD GPUs on the PCI bus that the driver does not list: {bus}. Check dmesg."
            if tree.present
            else f"AMD GPUs on the PCI bus ({bus}), but no KFD topology in sysfs: the amdgpu driver is not loaded, or "
            "/sys is not visible here."
        )
    cards = Counter(d.pci for d in listed if d.pci)
    if shared := {card: n for card, n in cards.items() if n > 1}:
        parts = ", ".join(f"{card} ({n})" for card, n in list(shared.items())[:8])
        sentences.append(
            f"Cards split into compute partitions, each a separate device that shares the card's memory: {parts}."
        )
    return sentences


def arch(gfx_target_version: int) -> str | None:
    """Return the target's name: 90010 is gfx90a, 90402 is gfx942 (the stepping is hexadecimal)."""
    if not gfx_target_version:
        return None
    major, minor, step = gfx_target_version // 10000 % 100, gfx_target_version // 100 % 100, gfx_target_version % 100
    return f"gfx{major}{minor}{step:x}"


def _device(roots: Roots, index: int, number: int, values: dict[str, int], driver: str | None) -> Device:
    place = values.get("location_id")
    where = sysfs.known_address(roots, values.get("domain", 0), place) if place else None
    per_cu, unique = values.get("simd_per_cu", 0), values.get("unique_id", 0)
    modes = [sysfs.attribute(roots, where, f"current_{kind}_partition") for kind in ("compute", "memory")]
    return Device(
        vendor="amd",
        index=index,
        name=_name(roots, where, values.get("device_id", 0)),
        arch=arch(values.get("gfx_target_version", 0)),
        uuid=f"GPU-{unique:016x}" if unique else None,
        compute_units=values["simd_count"] // per_cu if per_cu else None,
        xccs=values.get("num_xcc") or None,
        clock_max_mhz=values.get("max_engine_clk_fcompute") or None,
        memory_bytes=_memory(roots, number, values),
        partition=clean("/".join(mode for mode in modes if mode), 40) or None,
        driver=driver,
        pci=where,
        numa_node=sysfs.numa_node(roots, where),
        link=sysfs.link_of(roots, where),
    )


def _name(roots: Roots, where: str | None, device_id: int) -> str | None:
    return clean(sysfs.attribute(roots, where, "product_name") or "") or targets.product_name(device_id)


def _memory(roots: Roots, number: int, values: dict[str, int]) -> int | None:
    """Return the bytes of device memory, preferably from the memory banks: some kernels set local_mem_size to 0."""
    local = sum(bank.get("size_in_bytes", 0) for bank in _local_banks(roots, number))
    return local or values.get("local_mem_size") or None


def _local_banks(roots: Roots, number: int) -> list[dict[str, int]]:
    """Return the banks of the GPU's own memory."""
    folder = roots.at(f"sys/class/kfd/kfd/topology/nodes/{number}/mem_banks")
    banks = (properties(bank / "properties") for bank in listing(folder))
    return [bank for bank in banks if bank.get("heap_type") in _LOCAL_HEAPS]


def _driver(roots: Roots) -> str | None:
    """Return amdgpu's version, or the kernel's release for the in-tree driver, which has no version of its own."""
    if version := read(roots.at("sys/module/amdgpu/version")):
        return clean(f"amdgpu {version}")
    release = read(roots.at("proc/sys/kernel/osrelease"))
    return clean(f"amdgpu of Linux {release}") if release and path_exists(roots.at("sys/module/amdgpu")) else None
