"""The notebook and the script of examples/notebooks run as they are, with the shipped samples alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    nbformat = pytest.importorskip("nbformat", reason="needs the package nbclient")
    client = pytest.importorskip("nbclient", reason="needs the package nbclient")
    pytest.importorskip("ipykernel", reason="needs the package ipykernel")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    kernel = tmp_path / "JUPYTER_DATA_DIR" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=300, resources=resources).execute()
    shown = [_shown(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert all(shown), "every cell ends with something to see"
    assert any("image/png" in kinds for kinds in shown), "the roofline is drawn"
    assert sum("text/html" in kinds for kinds in shown) >= 8
    pages = "".join(kinds.get("text/html", "") for kinds in shown)
    assert "not like for like" in pages and "counter SQ_INSTS missing" in pages and "<script" not in pages


def _shown(cell: Any) -> dict[str, str]:
    return {kind: text for output in cell.outputs for kind, text in output.get("data", {}).items()}


def test_the_script_keeps_the_version_that_did_the_same_work(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(NOTEBOOKS / "loop.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "yax_before: vl1d (memory)" in done.stdout and "same work: no" in done.stdout
    assert "yax_before is kept" in done.stdout and "vl1d.hit_rate_pct" in done.stdout
