"""Reports are read by the library that Nsight Compute brings where the package is not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rooflens.tools.device.machine.model import Roots
from rooflens.tools.profiles.ncu import report


def placed(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("home", ["opt/nvidia/nsight-compute/2025.3.1", "usr/local/cuda-13.0/nsight-compute-2025.3.1"])
def test_the_library_beside_ncu_is_found_also_behind_the_script_of_the_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    roots = Roots(base=tmp_path, search="", site=None)
    assert report.library_folder(roots) is None
    placed(tmp_path / home / "ncu")
    if home.startswith("usr"):
        placed(tmp_path / "usr" / "local" / "cuda-13.0" / "bin" / "ncu")
    assert report.library_folder(roots) is None
    library = placed(tmp_path / home / "extras" / "python" / "ncu_report.py", "")
    assert report.library_folder(roots) == library.parent


def test_an_installed_package_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if importlib.util.find_spec("ncu_report") is None:
        pytest.skip("needs the package ncu-report (extra cuda)")
    found = report.library_folder(Roots(base=tmp_path, search="", site=None))
    assert found is not None and (found / "ncu_report").is_dir()
