"""Every case below tests/cases gives the rows, or the refusal, that its folder states."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooflens.analysis.store.store import Store
from rooflens.tests.cases.case import ReaderCase, reader_cases


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in reader_cases()])
def test_a_profile_gives_the_stated_rows(case: ReaderCase, tmp_path: Path) -> None:
    assert case.outcome(Store(tmp_path)) == case.expected
