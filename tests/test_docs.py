"""What the documents say is what the project does."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rooflens import __version__
from rooflens.server.cli import parser
from rooflens.server.toolbox import TOOLS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "server" / "guide.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}: run `make docs`"


def test_every_command_in_the_readme_exists() -> None:
    commands = set(parser()._subparsers._group_actions[0].choices)  # type: ignore[union-attr]
    shown = r"^(?:    |\$ |claude mcp add rooflens -- )rooflens (?:--store \S+ )?([a-z][a-z-]*)"
    used = set(re.findall(shown, (ROOT / "README.md").read_text(), re.MULTILINE))
    assert used and used <= commands


def test_every_tool_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [t.name for t in TOOLS if t.name not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_local_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_every_promise_of_security_names_tests_that_exist() -> None:
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| ")]
    promises = [line for line in rows if line != "| promise | held by |"]
    assert len(promises) > 15
    for promise in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", promise)
        assert named, f"no test holds: {promise}"
        for file, test in named:
            text = (ROOT / file).read_text()
            assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), f"{file}::{test}"


def test_one_version_everywhere() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
