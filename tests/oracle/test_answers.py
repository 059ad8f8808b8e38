"""The tools answer over further recorded profiles as they did when their answers were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests.cases.answers.cases import Case
from rooflens.tests.cases.answers.test_answers import FURTHER, check_answers


@pytest.mark.parametrize("case", FURTHER)
def test_answers_are_those_that_were_recorded(case: Case, tmp_path: Path) -> None:
    check_answers(case, tmp_path)
