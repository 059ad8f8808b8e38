"""The programs by the name under which they were started."""

from __future__ import annotations

from pathlib import Path

from . import devices, rocprof_v1, rocprof_v2, rocprofv3
from .setting import load


def start(program: str, folder: Path, argv: list[str]) -> int:
    """Run the program that is installed below ``folder``."""
    setting = load(folder)
    if program == "rocprofv3":
        return rocprofv3.main(setting, argv)
    if program == "rocprof":
        return rocprof_v1.main(setting, folder, argv)
    if program == "rocprofv2":
        return rocprof_v2.main(setting, argv)
    print(devices.rocminfo(setting.target), end="")
    return 0
