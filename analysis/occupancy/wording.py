"""The wording of what limits an occupancy (wording.toml)."""

from __future__ import annotations

from pathlib import Path

from ..base.wording import Wordings
from ..catalogue.vocabulary import in_vendor_terms

sentence = Wordings(Path(__file__).with_suffix(".toml"), in_vendor_terms).sentence
