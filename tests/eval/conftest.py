"""The scripts of eval/ as modules, and one run of them for all tests."""

from __future__ import annotations

import sys
from pathlib import Path

EVAL = Path(__file__).resolve().parents[2] / "eval"
sys.path.insert(0, str(EVAL))
