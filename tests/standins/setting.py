"""What an installed stand-in pretends to be: version, GPU, kernels launched, and what goes wrong."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .launches import DEFAULT, Launch, launch

TROUBLES = {
    "exit": "the profiler ends with status 3 after the program ran, with its files written",
    "no_output": "the program runs, no file is written, status 0",
    "truncated": "the files stop in the middle",
    "hang": "the profiler never ends and ignores SIGTERM, as does the program's process",
    "refused": "the hardware refuses the counters: abort at the first launch",
    "unknown": "the profiler does not know the last counter and leaves it out with a warning",
    "reorder": "the launches come in another order",
    "extra_kernel": "one launch more than in the other runs, of another kernel (an autotuner)",
    "zeros": "every counter is zero",
}
"""Names of what can go wrong. ``name@text`` does so only where the output folder has ``text`` in its path."""
VARIABLE = "ROOFLENS_STANDIN_TROUBLE"


@dataclass(frozen=True)
class Setting:
    """Read from ``standin.json`` in the folder above the program's; ROOFLENS_STANDIN_TROUBLE has the last word."""

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
    trouble = os.environ.get(VARIABLE, facts.pop("trouble", ""))
    if trouble and trouble.partition("@")[0] not in TROUBLES:
        raise SystemExit(f"{VARIABLE}: no trouble is named {trouble!r}")
    if launched is not None:
        facts["launches"] = tuple(launch(one.pop("kernel"), **one) for one in launched)
    return Setting(**facts, trouble=trouble)
