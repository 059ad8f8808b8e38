"""Every program states its causes for readers, has hidden tests, and an original and an expert's version."""

from __future__ import annotations

import ast
import filecmp
import tomllib
from pathlib import Path

import pytest

from rooflens.eval.agent.arms import PROGRAMS

FOLDERS = sorted(path.parent for path in PROGRAMS.glob("*/hidden.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_a_program_is_complete_and_its_versions_differ(folder: Path) -> None:
    stated = tomllib.loads((folder / "program.toml").read_text(encoding="utf-8"))
    assert 3 <= len(stated["causes"]) <= 6 and list(stated)[-1] == "causes", "players see what comes before them"
    tree = ast.parse((folder / "hidden.py").read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    entry = "build.sh" if "build" in functions else "main.py"
    assert {"make", "check"} <= functions
    texts = [(folder / version / entry).read_text(encoding="utf-8") for version in ("original", "expert")]
    assert texts[0] != texts[1]
    changed = [path.relative_to(folder / "expert") for path in (folder / "expert").rglob("*.*") if path.is_file()]
    same = filecmp.cmpfiles(folder / "original", folder / "expert", map(str, changed), shallow=False)[0]
    assert not same, "a version has the files that differ from the original's"
    for path in folder.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_there_are_at_least_six_programs() -> None:
    assert len(FOLDERS) >= 6
