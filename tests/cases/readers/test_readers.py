"""Every case below tests/cases/readers gives the rows, or the refusal, that its folder states."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.cases.readers.case import ReaderCase, reader_cases


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in reader_cases()])
def test_a_profile_gives_the_stated_rows(case: ReaderCase, tmp_path: Path) -> None:
    store = Store(tmp_path)
    outcome = case.outcome(store)
    assert outcome == case.expected
    assert len(store.scan()[0]) == (outcome.refused is None)
    assert not [*(tmp_path / "tmp").glob("*")], "a draft is left"
    assert [text for text in case.said if text not in outcome.text] == [], outcome.text


TEXTS = (".csv", ".json", ".txt")
ONE_OF_EACH = {case.folder.parent.name: case for case in reader_cases() if case.expected.rows}
"""Format -> a case that is not refused."""


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ONE_OF_EACH.values()])
def test_a_profile_of_packed_text_files_gives_the_same_rows(case: ReaderCase, tmp_path: Path) -> None:
    packed = ReaderCase(Path(shutil.copytree(case.folder, tmp_path / "case")))
    for file in (packed.folder / "profile").rglob("*"):
        if file.is_file() and not file.is_symlink() and file.suffix in TEXTS:
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    assert packed.outcome(Store(tmp_path / "store")) == case.expected
