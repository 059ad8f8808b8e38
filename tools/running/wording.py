"""The wording of notes and problems about runs (wording.toml)."""

from __future__ import annotations

from pathlib import Path

from ...analysis.base.wording import Wordings

_WORDINGS = Wordings(Path(__file__).with_suffix(".toml"))
note, problem, sentence = _WORDINGS.note, _WORDINGS.problem, _WORDINGS.sentence
