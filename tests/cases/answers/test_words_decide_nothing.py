"""With every reason and note in other words, every number, status, verdict and code of an answer stays as it is.

The recorded answers were made with the code of each reason and note in the place of its words. Here the words are the
usual ones: whatever differs apart from sentences was decided by words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.notes import Reason
from rooflens.tests.cases.answers.cases import CASES, Case
from rooflens.tests.cases.answers.facts import codes_for_words, facts
from rooflens.tests.cases.answers.recording import answers, recorded

SAMPLES = ("sample-matmul_fp64", "sample-four_ranks", "pair-yax")
"""Kernels, a timeline and a pair."""
SENTENCE = "~"
"""How the facts of an answer mark a sentence."""


def without_sentences(value: Any) -> Any:
    """A value of the facts in which every sentence is the same, and no checksum of a column that has some."""
    if isinstance(value, str):
        return SENTENCE if value.startswith(SENTENCE) else value
    if isinstance(value, list):
        return [without_sentences(inner) for inner in value]
    if isinstance(value, dict):
        plain = {without_sentences(key): without_sentences(inner) for key, inner in value.items()}
        if SENTENCE in plain.get("cells", ()):
            plain.pop("checksum", None)
        return plain
    return value


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.name in SAMPLES])
def test_the_usual_words_give_the_answers_that_were_recorded_with_codes_for_words(case: Case, tmp_path: Path) -> None:
    with_codes = recorded(case)
    usual = answers(case, tmp_path)
    assert list(usual) == list(with_codes)
    for question, answer in usual.items():
        before, after = without_sentences(with_codes[question]), without_sentences(facts(answer))
        changed = {path: (before.get(path), after.get(path)) for path in before | after}
        assert not {path: pair for path, pair in changed.items() if pair[0] != pair[1]}, question


def test_the_words_really_are_others() -> None:
    reason = Reason("no_counter", "A counter is missing.")
    with codes_for_words():
        assert "A counter" not in reason.text and "no_counter" in reason.text
    assert reason.text == "A counter is missing."
