"""Whether this machine runs on its battery, from /sys/class/power_supply."""

from __future__ import annotations

from .model import Roots
from .sysfs import listing, read


def on_battery(roots: Roots) -> bool:
    """Whether a battery of the machine itself is being emptied and no mains supply is there.

    Batteries of mice and the like (scope Device) do not count.
    """
    supplies = listing(roots.at("sys/class/power_supply"))
    kinds = [(read(p / "type"), read(p / "status"), read(p / "online"), read(p / "scope")) for p in supplies]
    own = [kind for kind in kinds if kind[3] != "Device"]
    mains = any(name in ("Mains", "USB") and online == "1" for name, _, online, _ in own)
    return not mains and any(name == "Battery" and status == "Discharging" for name, status, _, _ in own)
