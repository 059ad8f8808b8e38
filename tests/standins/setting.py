"""What an installed stand-in pretends to be: version, GPU, kernels launched, and what goes wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .launches import DEFAULT, Launch, launch

TROUBLES = {
    "refused": "the hardware refuses the counters: abort at the first launch",
    "unknown": "the profiler does not know the last counter and leaves it out with a warning",
}
"""Names of what can go wrong. ``name@text`` does so only where the output folder has ``text`` in its path."""


@dataclass(frozen=True)
class Setting:
    """Read from ``standin.json`` in the folder above the program's."""

    version_text: str = "1.0.0"
    target: str = "gfx90a"
    trouble: str = ""
    launches: tuple[Launch, ...] = tuple(DEFAULT)

    @property
    def version(self) -> tuple[int, int, int]:
        major, minor, patch = self.version_text.split(".")
        return int(major), int(minor), int(patch)

    def has(self, trouble: str, folder: Path) -> bool:
        """Whether this goes wrong in the run that writes to ``folder``."""
        assert trouble in TROUBLES, trouble
        name, _, where = self.trouble.partition("@")
        return name == trouble and where in str(folder)


def load(folder: Path) -> Setting:
    """The setting written beside an installed stand-in."""
    facts: dict[str, Any] = json.loads((folder / "standin.json").read_text(encoding="utf-8"))
    launched = facts.pop("launches", None)
    if launched is not None:
        facts["launches"] = tuple(launch(one.pop("kernel"), **one) for one in launched)
    return Setting(**facts)
