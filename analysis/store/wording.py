"""The wording of problems of stores (wording.toml)."""

from __future__ import annotations

from pathlib import Path

from ..base.wording import Wordings

WORDINGS = Wordings(Path(__file__).with_suffix(".toml"))
problem = WORDINGS.problem
