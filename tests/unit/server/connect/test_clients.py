"""What clients are told has the shape that their makers document, and starts this server."""

from __future__ import annotations

import base64
import json
import shlex
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.server.cli import parser
from rooflens.server.connect.clients import Client, StartCommand, client, clients

LAUNCH = StartCommand(("/opt/with space/rooflens", "serve", "--store", 'a"b\\c', "--allow-exec"))
EVERY = pytest.mark.parametrize("one", clients().values(), ids=lambda one: one.name)


@EVERY
def test_a_snippet_is_a_whole_file_with_one_server_that_starts_it(one: Client) -> None:
    text = one.snippet(LAUNCH)
    stated = tomllib.loads(text) if one.format == "toml" else json.loads(text)
    assert list(stated) == [one.servers] and list(stated[one.servers]) == ["rooflens"]
    entry = stated[one.servers]["rooflens"]
    assert (entry["command"], *entry["args"]) == LAUNCH.words
    assert set(entry) == {"command", "args"} | ({"type"} if one.typed else set())
    assert parser().parse_args(entry["args"]).allow_exec


@EVERY
def test_its_own_command_carries_every_word_through_a_shell(one: Client) -> None:
    shown = one.own_command(LAUNCH)
    if one.name == "cursor":
        assert shown is None
        return
    words = shlex.split(shown or "")
    if one.name == "vscode":
        assert json.loads(words[-1]) == {"name": "rooflens", **one.entry(LAUNCH)}
    else:
        assert tuple(words[-len(LAUNCH.words) :]) == LAUNCH.words


def test_a_link_carries_the_entry() -> None:
    cursor, vscode = client("cursor"), client("vscode")
    asked = parse_qs(urlsplit(cursor.install_link(LAUNCH) or "").query)
    assert asked["name"] == ["rooflens"]
    assert json.loads(base64.b64decode(asked["config"][0])) == cursor.entry(LAUNCH)
    scheme, _, encoded = (vscode.install_link(LAUNCH) or "").partition("?")
    assert scheme == "vscode:mcp/install"
    assert json.loads(unquote(encoded)) == {"name": "rooflens", **vscode.entry(LAUNCH)}
    assert client("codex").install_link(LAUNCH) is None


def test_files_are_where_each_client_looks(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    codex = client("codex")
    assert codex.file(home, None, {}) == home / ".codex" / "config.toml"
    assert codex.file(home, None, {"CODEX_HOME": "/elsewhere"}) == Path("/elsewhere/config.toml")
    assert client("vscode").file(home, project, {}) == project / ".vscode" / "mcp.json"
    assert client("claude-code").file(home, None, {}) == home / ".claude.json"


def test_an_unknown_client_is_refused_with_near_names() -> None:
    with pytest.raises(NotFound, match="claude-code"):
        client("claudy")


@pytest.mark.parametrize("alias", ["claude", "Claude Code", "gemini-cli", "code", "VS Code"])
def test_a_client_answers_to_the_names_that_people_type(alias: str) -> None:
    assert client(alias).name in ("claude-code", "gemini", "vscode")
