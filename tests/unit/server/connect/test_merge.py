"""A client's file gets the entry and loses nothing, or stays as it was."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflens.analysis.base.problems import BadInput, LimitExceeded, NotAllowed, Problem, StoreProblem
from rooflens.server.connect.clients import _LARGEST, BACKUP, StartCommand, client, write

LAUNCH = StartCommand(("rooflens", "serve"))
CURSOR, CODEX = client("cursor"), client("codex")
ENTRY = {"command": "rooflens", "args": ["serve"]}


@pytest.mark.parametrize("name", ["cursor", "codex"])
@pytest.mark.parametrize("before", [None, "", "\n"])
def test_a_new_or_empty_file_gets_the_snippet(tmp_path: Path, name: str, before: str | None) -> None:
    file = tmp_path / "below" / "file"
    if before is not None:
        file.parent.mkdir()
        file.write_text(before)
    one = client(name)
    done = write(one, LAUNCH, file)
    assert done.changed and file.read_text() == one.snippet(LAUNCH)
    again = write(one, LAUNCH, file)
    assert not again.changed and again.backup is None


def test_everything_else_in_a_json_file_stays_and_a_copy_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    before = '{\n    "mcpServers": {"other": {"command": "x", "args": []}},\n    "später": [1, 2.5, null, "é"]\n}\n'
    file.write_text(before)
    file.chmod(0o600)
    done = write(CURSOR, LAUNCH, file)
    assert done.backup == tmp_path / f"mcp.json{BACKUP}" and done.backup.read_text() == before
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(done.backup.stat().st_mode) == 0o600
    text = file.read_text()
    assert "é" in text and '\n    "mcpServers"' in text  # as it was indented
    stated = json.loads(text)
    assert stated.pop("mcpServers") == {"other": {"command": "x", "args": []}, "rooflens": ENTRY}
    assert stated == {"später": [1, 2.5, None, "é"]} and next(iter(json.loads(text))) == "mcpServers"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mcp.json", f"mcp.json{BACKUP}"]


def test_an_older_entry_is_renewed_and_keeps_what_the_user_added(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"rooflens": {"command": "old", "args": ["serve"], "env": {"A": "b"}}}}))
    write(CURSOR, LAUNCH, file)
    assert json.loads(file.read_text()) == {"mcpServers": {"rooflens": {**ENTRY, "env": {"A": "b"}}}}


def test_comments_and_other_tables_of_a_toml_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        'model = "m" # mine\n\n[mcp_servers.rooflens]\n# slow disk\nstartup_timeout_sec = 30\ncommand = "old"\n'
        'args = []\n\n[mcp_servers.rooflens.env]\nA = "b"\n\n[mcp_servers.other]\ncommand = "x"\n'
    )
    write(CODEX, LAUNCH, file)
    text = file.read_text()
    assert 'model = "m" # mine' in text and "# slow disk" in text
    assert tomllib.loads(text) == {
        "model": "m",
        "mcp_servers": {"rooflens": {**ENTRY, "startup_timeout_sec": 30, "env": {"A": "b"}}, "other": {"command": "x"}},
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cursor", '// mine\n{"mcpServers": {}}'),
        ("cursor", '{"a": 1, "a": 2}'),
        ("cursor", '{"a": NaN}'),
        ("cursor", '{"a": 1e999}'),
        ("cursor", "[]"),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", '{"mcpServers": {"rooflens": 3}}'),
        ("cursor", "[" * 100_000),
        ("codex", "model = "),
        ("codex", 'mcp_servers = { other = { command = "x" } }'),
        ("codex", "mcp_servers = 3"),
        ("codex", '[mcp_servers.rooflens]\ncommand = "old"\nargs = [\n  "serve",\n]\n'),
        ("codex", '[mcp_servers]\nrooflens = { command = "old" }\n'),
        ("codex", 'text = """\n[mcp_servers.rooflens]\ncommand = 1\n"""\n[mcp_servers."rooflens"]\ncommand = "old"\n'),
    ],
)
def test_a_file_that_cannot_be_changed_without_loss_is_left_alone(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(BadInput, match="by hand"):
        write(client(name), LAUNCH, file)
    assert file.read_text() == text and list(tmp_path.iterdir()) == [file]


def test_a_huge_file_a_folder_and_bytes_are_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as opened:
        opened.truncate(_LARGEST + 1)
    with pytest.raises(LimitExceeded):
        write(CURSOR, LAUNCH, huge)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{")
    with pytest.raises(BadInput, match="UTF-8"):
        write(CURSOR, LAUNCH, tmp_path / "bytes")
    with pytest.raises(StoreProblem):
        write(CURSOR, LAUNCH, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_leave_to_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreProblem):
        write(CURSOR, LAUNCH, tmp_path / "mcp.json")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}")
    link = tmp_path / "mcp.json"
    link.symlink_to(kept)
    write(CURSOR, LAUNCH, link)
    assert link.is_symlink() and json.loads(kept.read_text()) == {"mcpServers": {"rooflens": ENTRY}}


def test_a_backup_is_written_through_no_link(tmp_path: Path) -> None:
    file, other = tmp_path / "mcp.json", tmp_path / "other"
    file.write_text('{"a": 1}')
    other.write_text("mine")
    (tmp_path / f"mcp.json{BACKUP}").symlink_to(other)
    with pytest.raises(NotAllowed, match="is a link"):
        write(CURSOR, LAUNCH, file)
    assert other.read_text() == "mine" and file.read_text() == '{"a": 1}'


def test_a_second_change_keeps_the_backup_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"a": 1}')
    first = write(CURSOR, LAUNCH, file).backup
    again = write(CURSOR, StartCommand(("rooflens", "serve", "--read-only")), file)
    assert again.changed and again.backup is None
    assert first is not None and first.read_text() == '{"a": 1}'


@pytest.mark.parametrize("below", [".cursor", ".cursor/mcp.json"])
def test_links_of_a_project_lead_to_no_file_outside(tmp_path: Path, below: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    (outside / "mcp.json").write_text("{}")
    link = project / below
    link.parent.mkdir(parents=True)
    link.symlink_to(outside if below == ".cursor" else outside / "mcp.json")
    with pytest.raises(NotAllowed, match="outside the project"):
        write(CURSOR, LAUNCH, project / ".cursor" / "mcp.json", within=project)
    assert (outside / "mcp.json").read_text() == "{}" and len(list(outside.iterdir())) == 1


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None)
@given(rest=st.dictionaries(st.text(), _VALUES, max_size=4), indent=st.sampled_from([None, 2, 4, "\t"]))
def test_any_json_object_is_kept_or_refused(
    tmp_path_factory: pytest.TempPathFactory, rest: dict[str, object], indent: int | str | None
) -> None:
    file = tmp_path_factory.mktemp("any") / "mcp.json"
    before = json.dumps(rest, indent=indent)
    file.write_text(before)
    try:
        write(CURSOR, LAUNCH, file)
    except Problem:
        assert file.read_text() == before
    else:
        assert json.loads(file.read_text()) == {
            **rest, "mcpServers": {**rest.get("mcpServers", {}), "rooflens": ENTRY}  # type: ignore[dict-item]
        }  # fmt: skip
