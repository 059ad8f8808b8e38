"""Sources of the kernels with known work, and the macros with which they are compiled."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...analysis.checking.known import Launch
from ..benchmarks import table

_KERNELS = Path(__file__).parent / "kernels"


def text(source: str) -> str:
    """A source with its headers: of the kernels here, else of the micro-benchmarks."""
    return table.text(source, _KERNELS) if (_KERNELS / source).is_file() else table.text(source)


def define(launches: Iterable[Launch], source: str) -> dict[str, str]:
    """Macros that give the kernels of the micro-benchmarks the names by which they are told from others here."""
    return {one.original: one.name for one in launches if one.source == source and one.original}
