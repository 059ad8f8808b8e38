"""The program that is installed, started below its folder."""

from __future__ import annotations

from pathlib import Path

from . import rocprofv3
from .setting import load


def start(folder: Path, argv: list[str]) -> int:
    """Run the rocprofv3 that is installed below ``folder``."""
    return rocprofv3.main(load(folder), argv)
