"""The file that a run starts: found as the system finds it, and never a reason for a run to fail."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from rooflens.tools.running.program_revision import identify_binary


@pytest.fixture
def program(tmp_path: Path) -> Path:
    place = tmp_path / "train.py"
    place.write_bytes(b"print(1)\n")
    return place


def test_a_program_or_the_script_of_an_interpreter_is_told_by_path_and_content(program: Path, tmp_path: Path) -> None:
    found = identify_binary(["./train.py"], str(tmp_path), "")
    assert found is not None
    assert (found.path, found.size) == (str(program.resolve()), 9)
    assert found.sha256 == hashlib.sha256(program.read_bytes()).hexdigest()
    assert found.modified_ns == program.stat().st_mtime_ns
    found = identify_binary([sys.executable, "-u", "train.py", "--epochs", "1"], str(tmp_path), os.environ["PATH"])
    assert found is not None and found.path == str(program.resolve())


@pytest.mark.parametrize(
    "code", ["import time\n" * 1000, "a\0b", "x" * 300], ids=["long", "with a zero byte", "one name"]
)
def test_a_program_given_as_text_is_no_file_and_no_error(tmp_path: Path, code: str) -> None:
    found = identify_binary([sys.executable, "-c", code], str(tmp_path), os.environ["PATH"])
    assert found is not None and found.path == str(Path(sys.executable).resolve())


def test_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert identify_binary(["./pipe"], str(tmp_path), "") is None
    assert identify_binary(["./absent"], str(tmp_path), "") is None
    assert identify_binary(["absent"], str(tmp_path), "/nowhere") is None
