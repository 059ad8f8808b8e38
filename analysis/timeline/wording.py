"""The sentences and problems of timelines, whose wording is data (sentences.toml)."""

from __future__ import annotations

from pathlib import Path

from ..base.wording import Wordings

_WORDINGS = Wordings(Path(__file__).with_name("sentences.toml"))
sentence, problem = _WORDINGS.sentence, _WORDINGS.problem
