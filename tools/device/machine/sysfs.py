"""Read small text files in /sys and /proc, which may be missing, empty or not readable."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ....analysis.store.manifest import PcieLink, generation_of, link
from .model import Roots

_LONGEST = 1 << 20
_NAME = 120


def read(path: Path) -> str | None:
    """Return the stripped text of a file, at most 1 MiB; None if it is missing, unreadable or empty."""
    try:
        with path.open("rb") as handle:
            text = handle.read(_LONGEST).decode("utf-8", "replace").strip()
    except OSError:
        return None
    return text or None


def properties(path: Path) -> dict[str, int]:
    """Return the integers in a file of ``name value`` lines; empty if it cannot be read."""
    numbers = {}
    for line in (read(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdecimal():
            numbers[name] = int(value)
    return numbers


def fields(path: Path) -> dict[str, str]:
    """Return the values of a file of ``name: value`` lines; empty if it cannot be read."""
    lines = (line.partition(":") for line in (read(path) or "").splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def memory_bytes(meminfo: Path, name: str) -> int | None:
    """Return an amount that /proc/meminfo states in KiB, or None."""
    kib = whole_number(fields(meminfo).get(name, "").partition(" ")[0])
    return None if kib is None else kib * 1024


def whole_number(text: str | None) -> int | None:
    """Return a non-negative integer, else None."""
    return int(text) if text is not None and text.isdecimal() else None


def path_exists(path: Path) -> bool:
    """Whether a path exists and can be reached; Path.exists raises if a parent folder is not accessible."""
    return os.access(path, os.F_OK)


def listing(folder: Path) -> list[Path]:
    """Return the entries of a folder by name; empty if it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def clean(text: str, longest: int = _NAME) -> str:
    """Return untrusted text as one line without control and invisible characters, at most ``longest`` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_PORTS = 16
VENDORS = {"amd": "0x1002", "nvidia": "0x10de"}
_ACCELERATORS = ("0x0302", "0x0380", "0x1200")
"""3D controller, other display controller, processing accelerator: data-center GPUs; graphics cards are 0x0300."""


def address(domain: int, location_id: int) -> str:
    """Return ``domain:bus:device.function`` for KFD's location_id, whose bits 31:28 number a partition of the card."""
    return f"{domain:04x}:{location_id >> 8 & 0xFF:02x}:{location_id >> 3 & 0x1F:02x}.{location_id & 7}"


def known_address(roots: Roots, domain: int, location_id: int) -> str:
    """Like ``address``, but with function 0 if the kernel wrote a partition number into the function bits."""
    own = address(domain, location_id)
    card = address(domain, location_id & ~7)
    return card if not path_exists(_folder(roots, own)) and path_exists(_folder(roots, card)) else own


def normalize_address(bus_id: str) -> str | None:
    """Convert NVML's ``00000000:41:00.0`` to the kernel's form, ``0000:41:00.0``; None for anything else."""
    hit = re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])", bus_id.strip())
    return f"{int(hit[1], 16):04x}:{hit[2]}:{hit[3]}.{hit[4]}".lower() if hit else None


def attribute(roots: Roots, where: str | None, name: str) -> str | None:
    """Return one sysfs attribute of the device at a PCI address."""
    return read(_folder(roots, where) / name) if where else None


def link_of(roots: Roots, where: str | None) -> PcieLink | None:
    """Return the link to the host: the lowest maximum rate and the fewest active lanes of all ports on the way.

    A GPU may be behind a switch on its own card, whose internal link does not show the slot's rate.
    """
    if not where:
        return None
    folder = _folder(roots, where).resolve()
    ports = [p for p in (folder, *list(folder.parents)[:_PORTS]) if re.fullmatch(_ADDRESS, p.name)]
    rates, widths = [], []
    for port in ports:
        rate = re.match(r"(\d+(?:\.\d+)?) GT/s", read(port / "max_link_speed") or "")
        if rate and (generation := generation_of(float(rate[1]))):
            rates.append(generation)
        if lanes := whole_number(read(port / "current_link_width")):
            widths.append(lanes)
    return link(min(rates, default=None), min(widths, default=None))


def numa_node(roots: Roots, where: str | None) -> int | None:
    """Return the NUMA node of a device; None if the kernel does not know it (-1)."""
    return whole_number(attribute(roots, where, "numa_node"))


def on_bus(roots: Roots, vendor: str) -> list[str]:
    """Return the addresses of a vendor's GPUs on the PCI bus, whether or not a driver is loaded."""
    folders = listing(roots.at("sys/bus/pci/devices"))
    return [
        folder.name
        for folder in folders
        if read(folder / "vendor") == VENDORS[vendor] and (read(folder / "class") or "").startswith(_ACCELERATORS)
    ]


def _folder(roots: Roots, where: str) -> Path:
    return roots.at("sys/bus/pci/devices", where)
