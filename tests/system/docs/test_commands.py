"""Every command, query and program in the documents does what the page says, in a fresh folder with a fresh store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.system.docs.reader import ROOT, Block, Reader, Wrong, blocks, pages

PAGES = pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LONG = (
    "docs/explanation/rooflines.md",
    "docs/explanation/timelines.md",
    "docs/how-to/ask_in_sql.md",
    "docs/how-to/find_the_hot_line.md",
    "docs/how-to/many_ranks.md",
    "docs/how-to/notebooks.md",
    "docs/how-to/see_where_the_wall_time_goes.md",
    "docs/how-to/team_store.md",
    "docs/how-to/use_from_scripts.md",
    "docs/tutorial/on_a_laptop.md",
)
"""Pages that take long, with commands that other tests call too; tests/oracle follows them."""
SHELLS = ("", "bash", "sh", "shell", "text")
LISTED = re.compile(r"rooflens \S.* {3,}\S")
"""A line of a list of commands: the command, and what it is for."""


def _read(page: Path) -> list[Block]:
    return blocks(page.read_text(encoding="utf-8"))


def _command(line: str) -> bool:
    return re.match(r"\$ |rooflens ", line) is not None and not LISTED.match(line)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LONG])
def test_a_page_can_be_followed_from_its_top(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: Store
) -> None:
    Reader(tmp_path, monkeypatch, samples).follow(_read(ROOT / name))


def test_commands_stand_where_they_are_run_and_what_is_not_run_says_why() -> None:
    for page in PAGES:
        for block in _read(page):
            unseen = block.language in SHELLS and any(map(_command, block.text.splitlines()))
            assert not unseen, f"{page}, line {block.line}: commands stand in a block ```console, each behind '$ '"
            told = block.runs or block.before.strip()
            assert told, f"{page}, line {block.line}: say before it why nobody runs it here"


def test_a_wrong_page_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: Store) -> None:
    reader = Reader(tmp_path, monkeypatch, samples)
    for page in (
        "```console\n$ rooflens call list_workload\n```",
        "```console\n$ rooflens --version\nrooflens 99\n```",
        "```console\n$ false\n```",
        "```console fails\n$ true\n```",
        "```console\nrooflens --version\n```",
        "```sql\nSELECT no_such_column FROM counters\n```",
    ):
        with pytest.raises(Wrong):
            reader.follow(blocks(page))
        reader.status = 0
