"""With every reason and note in other words, every number, status, verdict and code of an answer stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rooflens.analysis.base.notes import Note, Reason
from rooflens.analysis.store.store import Store
from rooflens.server.mcp import toolbox
from rooflens.server.rendering import render
from rooflens.tests.recorded_answers.cases import CASES, SAMPLES, Case
from rooflens.tests.recorded_answers.facts import facts
from rooflens.tests.recorded_answers.recording import answers

_WORDS = "description doubt evidence note notes reason reasons summary tried undecided warnings why"
PROSE = frozenset(_WORDS.split())
"""Fields and columns that hold words of reasons and notes."""
OF_SAMPLES = [case for case in CASES if case.name.startswith(("sample-", "pair-yax", "pair-other"))]


def counting(answer: dict[str, Any]) -> dict[str, Any]:
    """What counts in an answer beside those words, of notes their number."""
    return {**facts(answer, PROSE), "notes": len(answer.get("notes", ()))}


def reworded(kind: type) -> Callable[..., None]:
    """An initialiser that turns every text around."""
    plain = kind.__init__

    def initialise(self: Any, code: str, text: str, *others: Any, **more: Any) -> None:
        plain(self, code, "x" + text[::-1], *others, **more)

    return initialise


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in OF_SAMPLES])
def test_other_words_give_the_same_answers(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = answers(case, tmp_path / "usual")
    for kind in (Reason, Note):
        monkeypatch.setattr(kind, "__init__", reworded(kind))
    other = answers(case, tmp_path / "other")
    assert list(usual) == list(other)
    for question, answer in usual.items():
        before, after = counting(answer), counting(other[question])
        changed = {path: (before.get(path), after.get(path)) for path in before | after}
        assert not {path: pair for path, pair in changed.items() if pair[0] != pair[1]}, question


def test_the_words_really_were_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    toolbox.call(store, "import_profile", {"path": str(SAMPLES / "yax_before"), "name": "yax_before"})

    def reasons() -> list[str | None]:
        table = render.structured_content(
            toolbox.call(store, "compute_metrics", {"workload": "yax_before", "metrics": ["*"]})
        )["table"]
        return [row[table["columns"].index("reason")] for row in table["rows"]]

    usual = reasons()
    monkeypatch.setattr(Reason, "__init__", reworded(Reason))
    pairs = [(before, after) for before, after in zip(usual, reasons(), strict=True) if before is not None]
    assert pairs and all(after and after.startswith("x") and after != before for before, after in pairs)
