"""`rooflens connect`: prints every way, writes on request, and starts the program that will still be there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from rooflens.server.cli import main
from rooflens.server.connect.clients import clients


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path


def test_without_a_client_it_lists_them(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(clients())
    assert main(["connect", "--write"]) == 1


@pytest.mark.parametrize("name", list(clients()))
def test_it_prints_every_way_and_touches_nothing(home: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", name, "--read-only", "--store", "here"]) == 0
    out = capsys.readouterr().out
    assert "--read-only" in out and str(Path("here").absolute()) in out and clients()[name].project in out
    assert list(home.iterdir()) == []


def test_a_shared_store_is_named_by_its_address(home: Path) -> None:
    assert main(["connect", "cursor", "--write", "--store", "s3://bucket/team"]) == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["rooflens"]
    assert entry["args"][-3:] == ["serve", "--store", "s3://bucket/team"]


def test_it_writes_for_all_projects_with_the_whole_path_of_this_program(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connect", "gemini", "--write", "--allow-exec"]) == 0
    assert str(home / ".gemini" / "settings.json") in capsys.readouterr().out
    entry = json.loads((home / ".gemini" / "settings.json").read_text())["mcpServers"]["rooflens"]
    assert [entry["command"], *entry["args"]] == [sys.executable, "-m", "rooflens", "serve", "--allow-exec"]


def test_a_projects_file_names_no_path_of_this_machine(home: Path) -> None:
    assert main(["connect", "claude-code", "--write", "--project", str(home)]) == 0
    assert json.loads((home / ".mcp.json").read_text()) == {
        "mcpServers": {"rooflens": {"command": "rooflens", "args": ["serve"]}}
    }


def test_a_command_of_several_words_is_split_as_a_shell_does(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "cursor", "--write", "--command", "uvx 'rooflens[cuda]'"]) == 0
    assert json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["rooflens"] == {
        "command": "uvx",
        "args": ["rooflens[cuda]", "serve"],
    }
    for wrong in ("", "'"):
        assert main(["connect", "cursor", "--command", wrong]) == 1


@pytest.mark.parametrize("prefix", [".cache/uv/archive-v0/x", ".cache/pipx/53e5cd09a811e94", ".local/pipx/.cache/x"])
def test_a_program_made_for_one_run_is_not_written_down(
    home: Path, prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(home / prefix))
    assert main(["connect", "cursor", "--write"]) == 1
    assert "uv tool install" in capsys.readouterr().err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "prefix", [".local/share/pipx/venvs/rooflens", ".local/share/uv/tools/rooflens", ".cache/pypoetry/virtualenvs/mine"]
)
def test_an_environment_that_lasts_is(home: Path, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(home / prefix))
    assert main(["connect", "cursor", "--write"]) == 0


def test_what_a_client_keeps_to_itself_is_refused_with_a_way_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "claude-code", "--write"]) == 1
    assert "`rooflens connect claude-code` without --write" in capsys.readouterr().err
    assert list(home.iterdir()) == []
