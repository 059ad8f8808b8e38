"""The programs by the name under which they were started."""

from __future__ import annotations

import sys
from pathlib import Path

from . import devices, rocprof_v1, rocprof_v2, rocprofv3
from .extra import plain
from .launches import over_limit
from .setting import Setting, load


def start(program: str, folder: Path, argv: list[str]) -> int:
    """Run the program that is installed below ``folder``."""
    setting = load(folder)
    if program == "rocprofv3":
        return rocprofv3.main(setting, argv)
    if program == "rocprofv3-avail":
        return _available(setting, argv)
    if program == "rocprof":
        return rocprof_v1.main(setting, folder, argv)
    if program == "rocprofv2":
        return rocprof_v2.main(setting, argv)
    print(devices.rocminfo(setting.target), end="")
    return 0


def _available(setting: Setting, argv: list[str]) -> int:
    """``pmc-check [-d DEVICE] COUNTER...``: whether the counters fit into one pass."""
    if not argv or argv[0] != "pmc-check":
        sys.stderr.write("stand-in for rocprofv3-avail: only pmc-check is known\n")
        return 2
    words = argv[3:] if argv[1:2] == ["-d"] else argv[1:]
    found = [plain(setting.target, word) for word in words]
    if None in found:
        sys.stderr.write(f"Counter not found: {words[found.index(None)]}\n")
        return 1
    if over := over_limit({slot for counter in found if counter for slot in counter.slots}):
        sys.stderr.write(f"Counters cannot be collected together: {over}\n")
        return 1
    print("Counters can be collected together")
    return 0
