"""The sentences about a timeline, whose wording is data (sentences.toml)."""

from __future__ import annotations

from pathlib import Path

from ..base.wording import Wordings

sentence = Wordings(Path(__file__).with_name("sentences.toml")).sentence
