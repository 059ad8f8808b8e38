"""The wording of notes on rooflines and their ceilings (wording.toml)."""

from __future__ import annotations

from pathlib import Path

from ..base.wording import Wordings

_WORDINGS = Wordings(Path(__file__).with_suffix(".toml"))
note, sentence = _WORDINGS.note, _WORDINGS.sentence
