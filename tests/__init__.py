"""The tests of rooflens; docs/decisions/067-four-suites.md says which folder holds what."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project, which is the package."""
SHARED = ROOT.parent / "shared"
"""Recorded profiles and expected values that are not part of the project."""
DATA = ROOT / "tests" / "data"
"""Files that tests read and that no profile of a case is."""
