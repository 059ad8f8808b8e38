"""What the documents say is what the project does."""

from __future__ import annotations

import re
import runpy
import tomllib
from functools import cache
from pathlib import Path

import pytest

from rooflens import __version__
from rooflens.analysis.catalogue import metrics as catalog
from rooflens.server.commands import NAMES
from rooflens.server.mcp.toolbox import TOOLS
from rooflens.tests import ROOT
from rooflens.tools.profiles.registry import formats

FRONT = ROOT / "docs" / "index.md"
ELSEWHERE = re.compile(r"\]\((https?:[^)]*)\)")
LINK = re.compile(r"\]\((?!https?:|mailto:|[a-z]+://)([^)\s]+)\)")
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "server" / "mcp" / "guide.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_the_page_of_all_metrics_is_built_for_the_site() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "generate.py"))["metrics"]()
    named = {metric.name for target in catalog.targets_with_metrics() for metric in catalog.metrics(target)}
    assert len(named) > 500
    assert [name for name in named if name not in page] == []


def test_every_tool_and_command_is_in_the_reference() -> None:
    reference = ROOT / "docs" / "reference"
    tools, commands = ((reference / name).read_text() for name in ("tools.md", "commands.md"))
    assert [t.name for t in TOOLS if f"## {t.name}\n" not in tools] == []
    assert [name for name in NAMES if f"## rooflens {name}\n" not in commands] == []


OURS = re.compile(r"\b(?:install|uvx|pipx run)\s+(?:--?\S+\s+)*[\"']?rooflens\b(?!@)")
"""Commands that fetch rooflens by its name from an index, where the name is not ours yet."""


def test_nothing_that_is_shown_fetches_our_name_from_an_index() -> None:
    assert all(map(OURS.search, ("uvx rooflens demo", "pip install 'rooflens[s3]'", "uv tool install -q rooflens")))
    shown = [ROOT / "README.md", *(p for f in ("docs", "examples", "skills") for p in sorted((ROOT / f).rglob("*.*")))]
    pages = [p for p in shown if p.suffix in (".md", ".yml", ".py", ".ipynb") and "decisions" not in p.parts]
    assert [str(page) for page in pages if OURS.search(page.read_text(encoding="utf-8"))] == []


def test_every_format_that_can_be_named_is_in_its_page() -> None:
    page = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    assert [known.name for known in formats().values() if f"`{known.name}`" not in page] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_local_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists() and file.is_relative_to(ROOT), target
        assert not anchor or anchor in _anchors(file), target
    for url in ELSEWHERE.findall(document.read_text(encoding="utf-8")):
        assert re.fullmatch(r"https?://[\w-]+(\.[\w-]+)+(/\S*)?", url), url


@cache
def _anchors(document: Path) -> set[str]:
    """What a link may name within a document: its headings in small letters, with hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_page_of_the_documents_is_reached_from_the_front_page() -> None:
    entries = re.findall(r"^(?:tutorial|how-to|explanation|reference|decisions)/\S+$", FRONT.read_text(), re.MULTILINE)
    reached = {page for entry in entries for page in FRONT.parent.glob(f"{entry}.md")}
    assert {*FRONT.parent.rglob("*.md")} - reached == {FRONT}


def test_language_models_find_every_page(tmp_path: Path) -> None:
    runpy.run_path(str(FRONT.parent / "llms.py"))["write"](FRONT.parent, tmp_path)
    listed = re.findall(r"^- \[.+\]\((.+)\.html\): \S", (tmp_path / "llms.txt").read_text(), re.MULTILINE)
    pages = {str(p.relative_to(FRONT.parent).with_suffix("")) for p in FRONT.parent.rglob("*.md")}
    assert set(listed) == {page for page in pages if page != "index" and not page.startswith("decisions/")}
    whole = (tmp_path / "llms-full.txt").read_text()
    assert "<!-- tutorial/on_a_laptop.md" in whole and "<!-- reference/metrics.md" not in whole


def test_every_promise_of_security_names_tests_that_exist() -> None:
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| ")]
    promises = [line for line in rows if line != "| promise | tested by |"]
    assert len(promises) > 15
    for promise in promises:
        named = re.findall(r"`((?:eval/)?tests/[\w/]+\.py)(?:::(\w+))?`", promise)
        assert named, f"no test verifies: {promise}"
        for file, test in named:
            text = (ROOT / file).read_text()
            assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), f"{file}::{test}"


def test_one_version_everywhere() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
