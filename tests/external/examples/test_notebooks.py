"""The notebook and the script of examples/notebooks run as they are, with the shipped samples alone."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from rooflens.tests import ROOT

NOTEBOOKS = ROOT / "examples" / "notebooks"
NOTEBOOK = NOTEBOOKS / "samples.ipynb"


def test_the_notebook_is_kept_without_outputs_and_tidy() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    held = json.loads(text)
    assert text == json.dumps(held, indent=1, ensure_ascii=False) + "\n"
    for cell in held["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None and not cell["metadata"]


def test_the_notebook_runs_and_shows_tables_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    shown = []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            *before, last = ast.parse("".join(cell["source"])).body
            assert isinstance(last, ast.Expr), "every cell ends with something to see"
            exec(compile(ast.Module(before, []), "cell", "exec"), names)
            shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    assert sum(isinstance(value, Figure) for value in shown) == 1, "the roofline is drawn"
    pages = [value._repr_html_() for value in shown if not isinstance(value, Figure)]
    assert len(pages) >= 8 and all(pages)
    assert "not like for like" in "".join(pages) and "counter SQ_INSTS missing" in "".join(pages)
    assert "<script" not in "".join(pages)


def test_the_script_keeps_the_version_that_did_the_same_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runpy.run_path(str(NOTEBOOKS / "loop.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "yax_before: vl1d (memory)" in said and "same work: no" in said
    assert "yax_before is kept" in said and "vl1d.hit_rate_pct" in said
