"""Commands that are refused before anything runs, each with what to write instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rooflens.analysis.problems import BadArgument, NotAllowed, NotFound, Problem
from rooflens.tools.runner.program import checked

PATH = {"PATH": os.environ["PATH"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with one program and one file that is none."""
    (tmp_path / "matmul").write_text("#!/bin/sh\n")
    (tmp_path / "matmul").chmod(0o755)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "build").mkdir()
    return tmp_path


def test_a_program_by_path_or_on_the_search_path_is_accepted(folder: Path) -> None:
    assert checked(["./matmul", "-n", "8"], str(folder), {}, PATH) == str(folder)
    assert checked([str(folder / "matmul")], "/", {}, PATH) == "/"
    assert checked(["sh", "-c", ":"], None, {}, PATH) == str(Path.cwd())
    assert checked(["matmul"], "/", {"PATH": str(folder)}, PATH) == "/"


@pytest.mark.parametrize("argument", ["; rm -rf x", "$(id)", "a\nb", "--", "-o", "", "'", "*"])
def test_arguments_may_be_anything_but_nul(folder: Path, argument: str) -> None:
    assert checked(["./matmul", argument], str(folder), {}, PATH) == str(folder)


@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        ([], BadArgument, "The command is empty"),
        ([" "], BadArgument, "The command is empty"),
        (["-o", "x"], BadArgument, "begins with a dash"),
        (["--output=/etc/passwd"], BadArgument, "begins with a dash"),
        (["./matmul", "a\0b"], BadArgument, "NUL"),
        (["./matmull"], NotFound, "does not exist.*Near names: matmul"),
        (["matmul"], NotFound, "./matmul is in"),
        (["pythn3"], NotFound, "Near names: .*python3"),
        (["./matmul -n 8"], NotFound, "does not exist"),
        (["matmul -n 8"], NotFound, "no shell splits it"),
        (["./notes.txt"], NotAllowed, "chmod \\+x"),
        (["./build"], NotAllowed, "no executable file"),
        (["~/app"], BadArgument, "shell's spelling"),
    ],
)
def test_commands_that_cannot_be_run_are_refused(
    folder: Path, command: list[str], kind: type[Problem], words: str
) -> None:
    with pytest.raises(kind, match=words):
        checked(command, str(folder), {}, PATH)


def test_a_relative_folder_is_refused_with_the_absolute_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(BadArgument, match=f"perhaps {folder}/build is meant"):
        checked(["sh"], "build", {}, PATH)


def test_a_folder_that_does_not_exist_gets_near_names(folder: Path) -> None:
    with pytest.raises(NotFound, match="Near names: build"):
        checked(["sh"], str(folder / "buildd"), {}, PATH)
    with pytest.raises(NotFound):
        checked(["sh"], str(folder / "notes.txt"), {}, PATH)


@pytest.mark.parametrize("given", [{"A=B": "x"}, {"": "x"}, {"A B": "x"}, {"A": "x\0"}])
def test_variables_that_no_system_accepts_are_refused(folder: Path, given: dict[str, str]) -> None:
    with pytest.raises(BadArgument):
        checked(["sh"], str(folder), given, PATH)


def test_a_relative_entry_of_the_search_path_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(NotFound):
        checked(["matmul"], "/", {"PATH": ".:"}, PATH)
