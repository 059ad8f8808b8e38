"""Sources of the kernels with known work, and the macros with which they are compiled."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ....analysis.counter_check.known_kernels import KnownLaunch
from ..benchmarks import specs

_KERNELS = Path(__file__).parent / "kernels"


def text(source: str) -> str:
    """A source with its headers: of the kernels here, else of the micro-benchmarks."""
    return specs.text(source, _KERNELS) if (_KERNELS / source).is_file() else specs.text(source)


def define(launches: Iterable[KnownLaunch], source: str) -> dict[str, str]:
    """Macros that give the kernels of the micro-benchmarks the names by which they are told from others here."""
    return {one.original: one.name for one in launches if one.source == source and one.original}
