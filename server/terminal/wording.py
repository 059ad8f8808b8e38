"""The problems that commands report, by the codes of wording.toml."""

from __future__ import annotations

from pathlib import Path

from ...analysis.base.wording import Wordings

problem = Wordings(Path(__file__).with_suffix(".toml")).problem
