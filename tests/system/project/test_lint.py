"""The linter's verdict is a property of the files, not of the folder into which somebody cloned them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.tests import ROOT


def _ruff(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", *arguments, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def linted_files() -> list[Path]:
    """Every file that ruff checks, relative to the root of the project."""
    listed = _ruff(ROOT, "--show-files").stdout.splitlines()
    files = [Path(line).relative_to(ROOT) for line in listed]
    assert Path("tests/system/project/test_lint.py") in files
    return files


@pytest.mark.parametrize("name", ["rooflens", "main", "x"])
def test_a_clone_of_any_name_passes_the_linter(name: str, linted_files: list[Path], tmp_path: Path) -> None:
    clone = tmp_path / name
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
