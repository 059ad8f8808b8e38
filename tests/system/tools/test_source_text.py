"""Source text is shown from the folders that the user allowed, and from nowhere else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.mcp.calls import Call, Calls, Reply
from rooflens.tests import DATA
from rooflens.tests.made.rocprofv3_samples import as_json
from rooflens.tools.answers.source_text import SourceText, allowing, roots_of, source_lines
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.import_profile import import_profile
from rooflens.tools.isolation.fork_server import ForkServer

OBJECTS = DATA / "code_objects"
TEXT = "int a;\nint b;\nint c;\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder app/ with sources, and secrets beside it."""
    for name in ("app/src/a.hip", "other/a.hip", "secret.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TEXT if name.startswith("app") else "secret\n")
    return tmp_path


def shown(root: Path, file: object, line: int = 2, context: int = 0) -> SourceText:
    with allowing(roots_of([str(root)])):
        return source_lines(str(file), line, context)


def test_lines_around_one_of_an_allowed_file(tree: Path) -> None:
    assert shown(tree / "app", tree / "app/src/a.hip").lines == {2: "int b;"}
    assert shown(tree / "app", tree / "app/src/a.hip", 3, 1).lines == {2: "int b;", 3: "int c;"}
    assert shown(tree / "app", tree / "app/src/a.hip", 1, 10**9).lines == dict(enumerate(TEXT.splitlines(), 1))


def test_without_a_root_nothing_is_shown(tree: Path) -> None:
    told = source_lines(str(tree / "app/src/a.hip"), 1)
    assert not told.lines and "--source-root" in told.reason


def test_a_file_that_was_built_elsewhere_is_found_by_the_end_of_its_path(tree: Path) -> None:
    for named in ("/build/host/app/src/a.hip", "src/a.hip", "./src/a.hip", "/x/a.hip/src/a.hip"):
        assert shown(tree / "app", named).lines == {2: "int b;"}, named
    assert not shown(tree / "app", "/build/host/app/lib/a.hip").lines


@pytest.mark.parametrize(
    "named",
    [
        "{0}/secret.h", "{0}/other/a.hip", "{0}/app/../secret.h", "../secret.h", "src/../../secret.h", "/etc/passwd",
        "{0}/app/src/link.hip", "link.hip", "{0}/app/folder/a.hip", "folder/a.hip", "{0}/app/pipe.hip",
        "/proc/self/environ",
        "{0}/app/.env", ".env", "{0}/app/src", "", "/", "a\0.hip", "x/" * 5000, "~/.ssh/id_rsa", "{0}/app/loop.hip",
        "{0}/application/a.hip",
    ],
)  # fmt: skip
def test_no_name_leads_out_of_the_folder_or_to_what_is_no_source(tree: Path, named: str) -> None:
    (tree / "app/src/link.hip").symlink_to(tree / "secret.h")
    (tree / "app/folder").symlink_to(tree / "other")
    (tree / "app/loop.hip").symlink_to(tree / "app/loop.hip")
    os.mkfifo(tree / "app/pipe.hip")
    (tree / "app/.env").write_text("secret\n")
    (tree / "application").mkdir()
    (tree / "application/a.hip").write_text("secret\n")
    told = shown(tree / "app", named.format(tree), 1)
    assert not told.lines and told.reason
    assert "secret" not in told.reason.replace("secret.h", "")


def test_a_link_within_the_folder_is_followed(tree: Path) -> None:
    (tree / "app/again.hip").symlink_to(tree / "app/src/a.hip")
    assert shown(tree / "app", tree / "app/again.hip").lines == {2: "int b;"}


def test_large_binary_and_shorter_files_are_refused_with_a_reason(tree: Path) -> None:
    big, binary = tree / "app/big.hip", tree / "app/binary.hip"
    with big.open("wb") as file:
        file.truncate((4 << 20) + 1)
    binary.write_bytes(b"\x7fELF\0\n" * 3)
    assert "MiB" in shown(tree / "app", big).reason
    assert "not a text file" in shown(tree / "app", binary).reason
    assert "has 3 lines" in shown(tree / "app", "src/a.hip", 4).reason
    assert shown(tree / "app", "src/a.hip", -1).reason and shown(tree / "app", "src/a.hip", 10**30).reason


def test_hidden_characters_are_made_visible_and_long_lines_cut(tree: Path) -> None:
    file = tree / "app/odd.hip"
    file.write_bytes("\ta\u202eb\u200bc\x1b[31m\u2028d é 中\r\n".encode() + b"\xff\n" + b"x" * 100_000)
    assert shown(tree / "app", file, 1).lines == {1: "    a[U+202E]b[U+200B]c[U+001B][31m[U+2028]d é 中"}
    assert len(shown(tree / "app", file, 3).lines[3]) == 400


@pytest.mark.parametrize("folder", ["{0}/none", "{0}/secret.h", "/", "a\0b"])
def test_what_is_no_folder_is_refused_at_the_start(tree: Path, folder: str) -> None:
    with pytest.raises(BadArgument, match="--source-root"):
        roots_of([folder.format(tree)])


@pytest.fixture
def sampled(tmp_path: Path) -> Store:
    """A store with one profile, whose hot line is in sources/."""
    store = Store(tmp_path / "store")
    import_profile(store, str(as_json(tmp_path / "1_results.json")))
    (tmp_path / "sources").mkdir()
    shutil.copy(OBJECTS / "lines.hip", tmp_path / "sources")
    return store


HOT = "sum += a[k * 64 + i] * b[k];"


def test_find_hotspots_shows_allowed_text_and_says_why_other_is_not_shown(sampled: Store, tmp_path: Path) -> None:
    def texts(found: Any) -> list[object]:
        return [dict(zip(found.hotspots.columns, row, strict=True)).get("source") for row in found.hotspots.rows]

    hidden = find_hotspots(sampled)
    assert texts(hidden) == [None, None]
    assert any("--source-root" in note for note in hidden.notes)
    with allowing(roots_of([str(tmp_path / "sources")])):
        told = find_hotspots(sampled, context=1)
    assert texts(told) == [HOT, None]
    assert [text for _, text in told.source.rows] == [
        "for (int k = 0; k < n; k++)", HOT, "out[i] = outer<3>(sum);"
    ]  # fmt: skip


def test_the_option_of_the_command_line_and_of_a_server_reaches_the_tool(
    sampled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["call", "--store", str(sampled.root), "find_hotspots"]
    assert main(words) == 0 and HOT not in capsys.readouterr().out
    assert main([*words[:1], "--source-root", str(tmp_path / "sources"), *words[1:]]) == 0
    assert HOT in capsys.readouterr().out
    assert main([*words[:1], "--source-root", str(tmp_path / "none"), *words[1:]]) == 1
    forks = ForkServer()
    try:
        for roots, expected in (((), False), ((tmp_path / "sources",), True)):
            calls = Calls(forks, source_roots=roots)
            reply = anyio.run(calls.reply, Call(str(sampled.root), True, False, "find_hotspots", {}), _nothing)
            assert isinstance(reply, Reply) and (HOT in str(reply.result)) is expected
    finally:
        forks.close()


async def _nothing(_: str) -> None:
    pass
