"""Values as Nsight Compute prints them: the number in a cell, and the factor that turns it into base units."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

INSTANCES = r"\s*[\(\[{].*$"
"""Regular expression of what follows the total where --print-metric-instances was given."""
_NS_PER_S = 1e9


def number(cell: str) -> float | None:
    """The number in a cell such as ``2,230`` or ``12 (5; 7)``, where instances follow the total; None for text."""
    try:
        return float(re.sub(INSTANCES, "", cell).replace(",", ""))
    except ValueError:
        return None


@cache
def scale(unit: str) -> float | None:
    """The factor from ``unit`` to base units: ns, byte, Hz, %, things counted, and rates per second of all these.

    None where the unit is not known. ``scale("Kbyte/block")`` is 1000, ``scale("sector/ns")`` is 1e9. A prefix
    multiplies wherever it stands, as in ncu itself: it prints 2614 %/byte as 2.614 %/Kbyte.
    """
    above, *below = unit.strip().split("/")
    factor = _of(above)
    if factor is None:
        return None
    if above in _table()["seconds"]:
        factor *= _NS_PER_S
    for part in below:
        found = _of(part) if part else None
        if found is None:
            return None
        factor = factor / found if part in _table()["seconds"] else factor * found
    return factor


def _of(part: str) -> float | None:
    """One factor of a unit, times in s; an empty one is a plain number."""
    table = _table()
    if part == "" or part in table["counted"]["names"]:
        return 1.0
    if part in table["seconds"]:
        return float(table["seconds"][part])
    prefix = table["prefixes"].get(part[0])
    return float(prefix) if prefix is not None and part[1:] in table["counted"]["names"] else None


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("units.toml").read_text())
