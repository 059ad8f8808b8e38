"""`rooflens plan --write`: scripts that bash runs with the profiler of the other machine, and nothing overwritten."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rooflens.server.cli import main
from rooflens.server.terminal.outcome import OK, REFUSED
from rooflens.tests.support.waiting import END_S

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
PROGRAM = ("--", "./app", "in put.dat")


def write(folder: Path, *words: str) -> int:
    return main(["plan", "--metrics", "overview", "--write", str(folder), *words, *PROGRAM])


def start(folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """The script, in its folder, as a job does it."""
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        [shutil.which("bash") or "bash", "profile.sh"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=END_S,
    )  # fmt: skip


def test_the_script_runs_every_command_with_its_input_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path / "job", "gpu=MI300X", "--json") == OK
    told = json.loads(capsys.readouterr().out)
    job = tmp_path / "job"
    assert os.access(job / "profile.sh", os.X_OK) and all((job / name).is_file() for name in told["files"])
    script = (job / "profile.sh").read_text()
    assert script.startswith("#!/bin/bash\n#SBATCH ") and "\nset -euo pipefail\n" in script
    assert "#SBATCH --gpus=1" in script and told["import"] == ["rooflens import rooflens_run"]
    assert "rooflens import rooflens_run" in (job / "profile-README.md").read_text()
    profiler = tmp_path / "bin" / "rocprofv3"
    profiler.parent.mkdir()
    profiler.write_text('#!/bin/bash\nprintf "%s|" "$@" >> calls\necho >> calls\n[ ! -e stop ]\n')
    profiler.chmod(0o755)
    path = f"{profiler.parent}:{os.environ['PATH']}"
    assert start(job, path).returncode == 0
    calls = (job / "calls").read_text().splitlines()
    assert len(calls) == told["application_runs"] == 5
    assert all(call.endswith("|--|./app|in put.dat|") for call in calls)
    (job / "stop").touch()
    (job / "calls").unlink()
    assert start(job, path).returncode != 0 and len((job / "calls").read_text().splitlines()) == 1, "it stops"


def test_the_script_says_what_is_missing(tmp_path: Path) -> None:
    assert write(tmp_path / "job", "gpu=MI300X") == OK
    usual = "/usr/bin:/bin"
    done = start(tmp_path / "job", usual)
    assert done.returncode == 1 and "rocprofv3 is not in PATH" in done.stderr
    profiler = tmp_path / "rocprofv3"
    profiler.write_text("#!/bin/sh\n")
    profiler.chmod(0o755)
    shutil.rmtree(tmp_path / "job" / "rooflens_run")
    done = start(tmp_path / "job", f"{tmp_path}:{usual}")
    assert done.returncode == 1 and "copy all files that rooflens wrote" in done.stderr


def test_existing_files_are_kept_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "profile.sh").write_text("mine")
    assert write(tmp_path, "gpu=H200") == REFUSED
    assert "--force" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["profile.sh"]
    assert (tmp_path / "profile.sh").read_text() == "mine"
    assert write(tmp_path, "gpu=H200", "--force") == OK
    assert "\nncu " in (tmp_path / "profile.sh").read_text()


def test_a_wrong_plan_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path / "job", "gpu=MI999") == REFUSED
    assert "MI999" in capsys.readouterr().err and not (tmp_path / "job").exists()
