"""The profiles that come with rooflens, for trying things out."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "server" / "samples"


def samples() -> dict[str, Path]:
    """Every shipped profile: name -> a path that ``import_profile`` reads. A README beside them says what they are."""
    return {entry.name: entry for entry in sorted(_FOLDER.iterdir()) if entry.is_dir()}
