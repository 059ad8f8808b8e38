"""Every command, query and program in the documents does what the page says, in a fresh folder with a fresh store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.system.docs.reader import ROOT, Block, Reader, Wrong, agrees, blocks, commands, pages

PAGES = pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SHELLS = ("", "bash", "sh", "shell", "text")
LISTED = re.compile(r"rooflens \S.* {3,}\S")
"""A line of a list of commands: the command, and what it is for."""


def _read(page: Path) -> list[Block]:
    return blocks(page.read_text(encoding="utf-8"))


def _command(line: str) -> bool:
    return re.match(r"\$ |rooflens ", line) is not None and not LISTED.match(line)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_page_can_be_followed_from_its_top(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: Store
) -> None:
    Reader(tmp_path, monkeypatch, samples).follow(_read(page))


def test_commands_stand_where_they_are_run_and_what_is_not_run_says_why() -> None:
    for page in PAGES:
        for block in _read(page):
            unseen = block.language in SHELLS and any(map(_command, block.text.splitlines()))
            assert not unseen, f"{page}, line {block.line}: commands stand in a block ```console, each behind '$ '"
            told = block.runs or block.before.strip()
            assert told, f"{page}, line {block.line}: say before it why nobody runs it here"


def _follow(text: str, tmp_path: Path, patch: pytest.MonkeyPatch, samples: Store) -> int:
    return Reader(tmp_path, patch, samples).follow(blocks(text))


@pytest.mark.parametrize(
    "page",
    [
        "```console\n$ rooflens call list_workload\n```",
        "```console\n$ rooflens --version\nrooflens 99\n```",
        "```console\n$ false\n```",
        "```console fails\n$ true\n```",
        "```console\nrooflens --version\n```",
        "```sql\nSELECT no_such_column FROM counters\n```",
    ],
    ids=["unknown tool", "other output", "status", "no failure", "no command", "unknown column"],
)
def test_a_wrong_page_is_found_out(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: Store) -> None:
    with pytest.raises(Wrong):
        _follow(page, tmp_path, monkeypatch, samples)


def test_a_page_is_one_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: Store) -> None:
    page = """
```console
$ export KEPT=here
$ echo $KEPT > file
$ cat file
here
$ rooflens call import_profile '{"path": "server/samples/clover",
  "name": "c"}'
{... "arch": "gfx90a" ... "kernels": 1, ...}
$ rooflens call query_counters '{"sql": "SELECT 1 FROM nothing"}'
There is no ...
$ echo $?
1
```

```sql
SELECT kernel FROM dispatches
```

```python
import rooflens
```

Needs a GPU:

```console no-run
$ never
```
"""
    assert _follow(page, tmp_path, monkeypatch, samples) == 8


def test_three_dots_stand_for_anything() -> None:
    assert agrees("a ... c", "a b\n c\n") and agrees("...", "") and agrees("1.2...", "1.23") and agrees("a\nb", " a b")
    assert not agrees("a", "a b") and not agrees("a ... d", "a b c") and not agrees("a...b...c", "a c b")


def test_a_command_goes_on_after_a_backslash_and_within_quotes() -> None:
    text = "```console\n$ one \\\n  two 'three\nfour'\nshown\n$ five\n```"
    assert [*commands(blocks(text)[0])] == [("one \\\n  two 'three\nfour'", "shown"), ("five", "")]


def test_a_heading_is_no_reason_and_a_paragraph_is() -> None:
    block = "```console no-run\n$ never\n```\n"
    assert [blocks(f"# Title\n\n{words}\n\n{block}")[0].before for words in ("", "Needs a GPU:")] == [
        "",
        "Needs a GPU:",
    ]
