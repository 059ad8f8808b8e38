"""The package installs from any folder, ships its data, and no foreign folder of the same name gets in its way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("api", "server", "tools", "analysis", "prompts")


def test_the_list_of_packages_equals_the_folders() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = ["rooflens"]
    for layer in LAYERS:
        inits = sorted((ROOT / layer).rglob("__init__.py"))
        found += [".".join(("rooflens", *init.parent.relative_to(ROOT).parts)) for init in inits]
    assert sorted(listed) == sorted(found)


@pytest.mark.parametrize("how", ["path", "cwd"])
def test_foreign_tools_and_analysis_folders_change_nothing(tmp_path: Path, how: str) -> None:
    for name in LAYERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('foreign package imported')")
    environment = {**os.environ, **({"PYTHONPATH": str(tmp_path)} if how == "path" else {})}
    done = subprocess.run(
        [sys.executable, "-m", "rooflens", "tools"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "compute_metrics" in done.stdout


def test_an_install_from_an_oddly_named_folder_has_all_data_and_one_top_level_name(tmp_path: Path) -> None:
    source = tmp_path / "my-checkout 2"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".venv", ".git", "*.egg-info", "__pycache__", ".*_cache", "build")
    )
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(source)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    names = {p.name for p in target.iterdir() if not p.name.endswith(".dist-info")} - {"bin"}
    assert names == {"rooflens"}
    assert not (target / "rooflens" / "pyproject.toml").exists()
    assert (target / "rooflens" / "py.typed").exists(), "checkers of users read our types"
    code = (
        "import sys, rooflens; assert rooflens.__file__.startswith(sys.argv[1]);"
        # What it measures last is no data of the package, and would wait for others who measure.
        "from rooflens.server import demo; demo._ceilings = lambda store: None;"
        "from rooflens.server.page.build import page; assert 'openAsApp' in page(None);"
        "from rooflens.server.cli import main; main(['demo'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(target)},
    )
    assert done.returncode == 0, done.stderr
    assert "l2.hit_rate_pct" in done.stdout
