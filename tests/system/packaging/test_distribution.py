"""The wheel and the sdist hold what they must and nothing else, and what is installed from them works anywhere."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from rooflens import __version__
from rooflens.tests import ROOT
from rooflens.tests.support.waiting import END_S

EPOCH = 1_700_000_000
"""Seconds; when everything in the wheel says that it was written."""
_STATED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
_FOLDERS = {name.split(".")[1] for name in _STATED["packages"] if "." in name}
_PATTERNS = _STATED["package-data"].get("rooflens", ())
_FILES = {"__init__.py", "__main__.py", *(p.relative_to(ROOT).as_posix() for o in _PATTERNS for p in ROOT.glob(o))}
"""What of the repository becomes the package."""
_ASIDE = shutil.ignore_patterns(".venv", ".git", "*.egg-info", "__pycache__", ".*_cache", "build", "dist")


def _setuptools_is_new() -> bool:
    from importlib.metadata import version

    return int(version("setuptools").split(".")[0]) >= 77


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel built from it, and what that wheel installs; made once for all workers."""
    if importlib.util.find_spec("build") is None or not _setuptools_is_new():
        pytest.skip("needs the packages build and setuptools>=77 (pip install '.[test]')")
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "distribution"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "site").is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            source = folder / "my-checkout 2"
            shutil.copytree(ROOT, source, ignore=_ASIDE)
            environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
            make = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(source)]
            subprocess.run(make, check=True, capture_output=True, timeout=END_S, env=environment)
            (wheel,) = (folder / "dist").glob("*.whl")
            put = ["--quiet", "--no-deps", "--no-compile", "--target", str(folder / "draft"), str(wheel)]
            subprocess.run([sys.executable, "-m", "pip", "install", *put], check=True, timeout=END_S)
            (folder / "draft").rename(folder / "site")
    return folder


def _wheel(built: Path) -> Path:
    (wheel,) = (built / "dist").glob("*.whl")
    return wheel


def test_the_wheel_built_from_the_sdist_holds_every_file_of_the_code_and_no_other(built: Path) -> None:
    with zipfile.ZipFile(_wheel(built)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    there = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT).as_posix() for path in there if "__pycache__" not in path.parts}
    assert names == {f"rooflens/{name}" for name in {*wanted, *_FILES}}


def test_the_sdist_holds_no_tests(built: Path) -> None:
    (sdist,) = (built / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        tops = {name.split("/")[1] for name in opened.getnames() if "/" in name}
    assert tops >= {"LICENSE", "README.md", "pyproject.toml", *_FOLDERS} and "tests" not in tops


def test_nothing_in_the_wheel_tells_where_or_when_it_was_built(built: Path) -> None:
    with zipfile.ZipFile(_wheel(built)) as wheel:
        assert {entry.date_time[:3] for entry in wheel.infolist()} == {(2023, 11, 14)}
        content = b"".join(wheel.read(name) for name in wheel.namelist())
    assert b"my-checkout" not in content and str(ROOT).encode() not in content


def test_indexes_take_both(built: Path) -> None:
    if importlib.util.find_spec("twine") is None:
        pytest.skip("needs the package twine (pip install '.[test]')")
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, (built / "dist").iterdir())]
    done = subprocess.run(check, capture_output=True, text=True, timeout=END_S)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, f"{done.stdout}{done.stderr}"


def test_the_metadata_says_what_users_ask(built: Path) -> None:
    (information,) = (built / "site").glob("rooflens-*.dist-info")
    text = (information / "METADATA").read_text()
    assert f"Version: {__version__}\n" in text and "License-Expression: MIT\n" in text
    assert "Classifier: Operating System :: POSIX :: Linux\n" in text and "Requires-Python: >=3.11\n" in text
    assert (information / "licenses" / "LICENSE").is_file()
    assert "rooflens = rooflens.server.cli:main" in (information / "entry_points.txt").read_text()


def test_an_install_has_all_data_and_one_top_level_name(built: Path, tmp_path: Path) -> None:
    site = built / "site"
    assert {p.name for p in site.iterdir() if not p.name.endswith(".dist-info")} - {"bin"} == {"rooflens"}
    code = (
        "import sys, rooflens; assert rooflens.__file__.startswith(sys.argv[1]);"
        "from rooflens.server.page.build import page; assert 'openAsApp' in page(None);"
        "from rooflens.server.mcp.resources import skills; assert len(skills()) == 5;"
        "from rooflens.server import cli, demo; cli.main(['connect']);"
        "cli.main(['import', str(demo.SAMPLES / 'yax_after')]);"
        "cli.main(['metrics', 'latest', 'l2.hit_rate_pct'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(site), "ROOFLENS_STORE": str(tmp_path / "store")},
    )
    assert done.returncode == 0, done.stderr
    assert "l2.hit_rate_pct" in done.stdout and "claude-code" in done.stdout


def test_a_bundle_around_the_wheel_starts_the_server(built: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "rooflens.mcpb"
    pack = [sys.executable, str(ROOT / "packaging" / "bundle.py"), str(_wheel(built)), str(bundle)]
    subprocess.run(pack, check=True, capture_output=True, timeout=END_S)
    first = bundle.read_bytes()
    subprocess.run(pack, check=True, capture_output=True, timeout=END_S)
    assert bundle.read_bytes() == first
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(bundle) as opened:
        opened.extractall(unpacked)
    manifest = json.loads((unpacked / "manifest.json").read_text())
    wheel = re.search(r'path = "([^"]+)"', (unpacked / "pyproject.toml").read_text())
    assert wheel and (unpacked / wheel[1]).is_file()
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize})
    # uv would have installed the wheel; here it is installed already.
    done = subprocess.run(
        [sys.executable, str(unpacked / manifest["server"]["entry_point"])],
        input=message + "\n",
        capture_output=True,
        text=True,
        timeout=END_S,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(built / "site"), "ROOFLENS_BUNDLE_STORE": str(tmp_path / "store")},
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["version"] == manifest["version"], done.stderr
