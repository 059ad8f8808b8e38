"""What a run leaves beside the files of a pass that counted a few launches of each launch configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

SAMPLE = "sample.json"
_LEVELS = 3
"""Folders of profilers (host, process) between that of the step and the files."""
_MOST_BYTES, _MOST_SKIPPED = 4096, 2**31


@dataclass(frozen=True)
class Sampled:
    """How the launches that a pass counted are found among all."""

    skip: int | None = None
    """Launches of each configuration that were passed over before the first counted one; None where the profiler
    names launches as in the run for times."""

    def text(self) -> str:
        """As it is written."""
        return json.dumps({"skip": self.skip})


def sampled(source: Path) -> Sampled | None:
    """How a pass was sampled, told by a file beside ``source`` or in a folder around it; None for a whole pass."""
    for folder in list(source.parents)[:_LEVELS]:
        path = folder / SAMPLE
        if path.is_file() and path.stat().st_size < _MOST_BYTES:
            try:
                skip = json.loads(path.read_bytes())["skip"]
            except (ValueError, LookupError, TypeError, RecursionError):
                return None
            known = skip is None or (isinstance(skip, int) and 0 <= skip < _MOST_SKIPPED)
            return Sampled(skip) if known else None
    return None
