"""The linter's verdict is a property of the files, not of the folder into which somebody cloned them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from rooflens.tests import ROOT


def _ruff(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", *arguments, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_a_clone_of_any_name_passes_the_linter(tmp_path: Path) -> None:
    clone = tmp_path / "main"
    linted_files = [Path(line).relative_to(ROOT) for line in _ruff(ROOT, "--show-files").stdout.splitlines()]
    assert Path("tests/system/project/test_lint.py") in linted_files
    for file in linted_files:
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, clone / file)
    done = _ruff(clone)
    assert done.returncode == 0, done.stdout[-2000:]


def test_wrongly_sorted_imports_fail_in_a_clone_of_any_name(tmp_path: Path) -> None:
    for name in ("rooflens", "main"):
        clone = tmp_path / name
        clone.mkdir()
        shutil.copyfile(ROOT / "pyproject.toml", clone / "pyproject.toml")
        (clone / "__init__.py").write_text(
            "import pytest\nfrom rooflens.api import open\n\n__all__ = ['open', 'pytest']\n"
        )
        assert "I001" in _ruff(clone).stdout, name
