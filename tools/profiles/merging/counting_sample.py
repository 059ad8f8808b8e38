"""What a run leaves beside the files of a pass that counted a few launches of each launch configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

SAMPLE = "sample.json"
_LEVELS = 3
"""Folders of profilers (host, process) between that of the step and the files."""
_MOST_BYTES, _MOST_SKIPPED = 1 << 20, 2**31
_LARGEST = 2**63


@dataclass(frozen=True)
class CountingSample:
    """How the launches that a pass counted are found among all."""

    skip: int | None = None
    """Launches of each configuration that were passed over before the first counted one; None where the profiler
    names launches as in the run for times."""
    expected: tuple[int, ...] = ()
    """Numbers in the run for times of the launches that were to be counted, in order; empty where ``skip`` says all."""

    def text(self) -> str:
        """As it is written."""
        more = {"expected": list(self.expected)} if self.expected else {}
        return json.dumps({"skip": self.skip, **more})


def read_counting_sample(source: Path) -> CountingSample | None:
    """How a pass was sampled, told by a file beside ``source`` or in a folder around it; None for a whole pass."""
    for folder in list(source.parents)[:_LEVELS]:
        path = folder / SAMPLE
        if path.is_file() and path.stat().st_size < _MOST_BYTES:
            try:
                content = json.loads(path.read_bytes())
                skip, expected = content["skip"], tuple(content.get("expected", ()))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                return None
            known = skip is None or (isinstance(skip, int) and 0 <= skip < _MOST_SKIPPED)
            return CountingSample(skip, expected) if known and all(map(_is_number, expected)) else None
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < _LARGEST
