"""Where NVIDIA's Python library for reports is: the package ncu-report, else the copy that Nsight Compute brings."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from ...device.machine.model import Roots
from ...device.machine.profilers import PROGRAMS
from ...device.machine.programs import find

_NAME = "ncu_report"
_EXTRAS = "extras/python"
"""Below the folder of ncu."""
_WRAPPED = "nsight-compute-*/extras/python"
"""Below the toolkit whose bin/ncu is a script that starts the real one."""


def folder(roots: Roots) -> Path | None:
    """The folder to put on the search path of modules; None where the library is nowhere."""
    spec = importlib.util.find_spec(_NAME)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent.parent
    return next((place for place in _candidates(roots) if (place / f"{_NAME}.py").is_file()), None)


def _candidates(roots: Roots) -> Iterator[Path]:
    places = next(program.places for program in PROGRAMS if program.name == "ncu")
    for program in find("ncu", roots, places):
        real = program.resolve()
        yield real.parent / _EXTRAS
        yield from sorted(real.parent.parent.glob(_WRAPPED), reverse=True)
