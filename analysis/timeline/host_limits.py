"""What a recording of the host's stacks cannot say: codes of warnings, which answers about the host repeat in words."""

from __future__ import annotations

from pathlib import Path

import tomli

from ..store.manifest import Manifest

LIMITS: dict[str, str] = tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Text by code; ``{source}`` is the program that recorded the stacks."""


def host_limits(manifest: Manifest) -> list[str]:
    """Return what the recordings of a workload cannot say about the host."""
    return [warning.text for warning in manifest.warnings if warning.code in LIMITS]
