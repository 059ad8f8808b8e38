"""Growth is paid for: no folder of the product exceeds its budget, and the budgets together never rise."""

from __future__ import annotations

import ast
import shutil
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from rooflens.tests import ROOT

FILE = "budgets.toml"
LAYERS = ("server", "api", "tools", "analysis")


class Size(NamedTuple):
    """Lines and syntax nodes of Python code, as measured or as allowed."""

    lines: int = 0
    nodes: int = 0

    def __add__(self, other: object) -> Size:
        assert isinstance(other, Size)
        return Size(self.lines + other.lines, self.nodes + other.nodes)


UNUSED = Size(20, 150)
"""A budget may exceed the code by this much. More has to be given up, or entered as room for what comes next."""


def count(source: str) -> Size:
    """The size of a module. Nodes are those of the syntax tree, without the contexts load, store and delete.

    Some versions of Python put empty texts into f-strings, which do not count.
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if not isinstance(node, ast.expr_context)]
    parts = [part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values]
    empty = [part for part in parts if isinstance(part, ast.Constant) and part.value == ""]
    return Size(source.count("\n"), len(nodes) - len(empty))


def measure(root: Path) -> dict[str, Size]:
    """The size of each folder: two levels deep, and the modules that lie flat in a layer together."""
    folders: dict[str, Size] = defaultdict(Size)
    for layer in LAYERS:
        for file in (root / layer).rglob("*.py"):
            if source := file.read_text(encoding="utf-8").strip("\n"):
                parts = file.relative_to(root).parts
                folders["/".join(parts[:2]) if len(parts) > 2 else f"{layer}/*.py"] += count(f"{source}\n")
    return dict(folders)


def read(text: str) -> tuple[dict[str, Size], Size]:
    """The budgets of a file by folder, and the room that is left for new code."""
    tables = tomllib.loads(text)
    return {name: Size(**entry) for name, entry in tables["folders"].items()}, Size(**tables["room"])


def total(text: str) -> Size:
    """What a file of budgets allows in all."""
    budgets, room = read(text)
    return sum(budgets.values(), room)


def violations(measured: dict[str, Size], budgets: dict[str, Size]) -> list[str]:
    """One sentence for each folder that exceeds its budget, or is so much smaller that the budget is to be lowered."""
    wrong = []
    for name in sorted(measured.keys() | budgets.keys()):
        size, budget = measured.get(name, Size()), budgets.get(name, Size())
        left = Size(budget.lines - size.lines, budget.nodes - size.nodes)
        entry = f'"{name}" = {{ lines = {size.lines}, nodes = {size.nodes} }}'
        if min(left) < 0:
            wrong.append(f"{name} exceeds its budget: {entry}, allowed {budget.lines} lines and {budget.nodes} nodes")
        elif name not in measured or left.lines > UNUSED.lines or left.nodes > UNUSED.nodes:
            wrong.append(f"{name} has become smaller, lower its budget: {entry}")
    return wrong


def earlier_budgets() -> list[str]:
    """The file of budgets as every commit left it; skips the test where git or the history is missing."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)

    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs the history of the repository")
    if (commits := git("log", "--format=%H", "--", FILE)).returncode:
        pytest.skip(f"git cannot read the history: {commits.stderr.strip()}")
    shown = (git("show", f"{commit}:{FILE}") for commit in commits.stdout.split())
    return [done.stdout for done in shown if done.returncode == 0]


def test_no_folder_exceeds_its_budget() -> None:
    budgets, room = read((ROOT / FILE).read_text(encoding="utf-8"))
    assert violations(measure(ROOT), budgets) == []
    assert min(room) >= 0


def test_the_budgets_together_are_never_raised() -> None:
    now = total((ROOT / FILE).read_text(encoding="utf-8"))
    for text in earlier_budgets():
        allowed = total(text)
        assert now.lines <= allowed.lines, "raise a budget only by as many lines as are deleted elsewhere"
        assert now.nodes <= allowed.nodes, "raise a budget only by as many syntax nodes as are deleted elsewhere"


def test_fifty_more_lines_in_a_folder_are_refused(tmp_path: Path) -> None:
    folder = "server/gate"
    shutil.copytree(ROOT / folder, tmp_path / folder)
    budgets, _ = read((ROOT / FILE).read_text(encoding="utf-8"))
    kept = {folder: budgets[folder]}
    assert violations(measure(tmp_path), kept) == []
    (tmp_path / folder / "more.py").write_text("MORE = 1\n" * 50)
    (refusal,) = violations(measure(tmp_path), kept)
    assert f"{folder} exceeds its budget" in refusal


def test_code_that_is_packed_into_fewer_lines_is_refused_by_its_nodes() -> None:
    loose = count("a = 1\nb = 2\nc = 3\n")
    packed = count("a, b, c, d, e = 1, 2, 3, 4, [5 for _ in range(6)]\n")
    assert packed.lines < loose.lines and "exceeds" in violations({"f": packed}, {"f": loose})[0]
