"""The list of packages is whole, and no foreign folder of the same name gets in their way."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from rooflens.tests import ROOT

LAYERS = ("api", "server", "tools", "analysis", "prompts")


def test_the_list_of_packages_equals_the_folders() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = ["rooflens"]
    for layer in LAYERS:
        inits = sorted((ROOT / layer).rglob("__init__.py"))
        found += [".".join(("rooflens", *init.parent.relative_to(ROOT).parts)) for init in inits]
    assert sorted(listed) == sorted(found)


def test_foreign_tools_and_analysis_folders_change_nothing(tmp_path: Path) -> None:
    for name in LAYERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('foreign package imported')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-m", "rooflens", "tools"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "compute_metrics" in done.stdout
