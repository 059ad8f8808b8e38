"""What the usual run leaves out exists, and is proved by something that stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflens.tests import proved, selection, thorough
from rooflens.tests.thorough import Repetition, repetitions


@pytest.mark.parametrize("repetition", repetitions(), ids=lambda one: one.tests)
def test_every_pattern_names_tests_and_keeps_some_where_it_says_so(repetition: Repetition) -> None:
    file = repetition.tests.partition("::")[0]
    if not any(node_id.startswith(f"{file}::") for node_id in thorough.collected):
        pytest.skip(f"needs a run with {file}")
    function = re.escape(repetition.tests.partition("*")[0].partition("[")[0])
    known = [one for one in thorough.collected if re.match(function, one)]
    assert known, "no such test"
    if not any(map(repetition.covers, known)):
        pytest.skip("its data are not on this machine")
    if repetition.keep:
        assert not all(map(repetition.covers, known)), "keeps no test"


def test_a_repetition_covers_its_parameters_and_nothing_else() -> None:
    one = Repetition("tests/a.py::test_b*", "the first", ("*[first]",))
    assert one.covers("tests/a.py::test_b[second]")
    assert not one.covers("tests/a.py::test_b[first]")
    assert not one.covers("tests/a.py::test_c[second]")


def test_a_changed_file_is_proved_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proved, "ROOT", tmp_path)
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.cu").write_text("one")
    before = proved.digest.__wrapped__(("sources",))
    (tmp_path / "sources" / "a.cu").write_text("two")
    assert proved.digest.__wrapped__(("sources",)) != before
    (tmp_path / "sources" / "a.cu").write_text("one")
    assert proved.digest.__wrapped__(("sources",)) == before


def test_every_page_of_the_documents_is_followed_in_every_run() -> None:
    omitted = {one.tests for one in repetitions()} | selection.read_names(selection.RECORD)
    assert [name for name in omitted if name.startswith("tests/docs/")] == []
