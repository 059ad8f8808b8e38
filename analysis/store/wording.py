"""The wording of problems of stores (wording.toml)."""

from __future__ import annotations

from pathlib import Path

from ..base.wording import Wordings

problem = Wordings(Path(__file__).with_suffix(".toml")).problem
