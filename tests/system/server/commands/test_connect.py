"""`rooflens connect`: prints every way, writes on request, and starts the program that will still be there."""

from __future__ import annotations

import json
import sys
import tomllib
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


@pytest.mark.parametrize(
    ("words", "file", "started"),
    [
        (["cursor", "--command", "uvx 'rooflens[cuda]'"], ".cursor/mcp.json", ["uvx", "rooflens[cuda]", "serve"]),
        (["claude-code", "--project", "{home}"], ".mcp.json", ["rooflens", "serve"]),
        (["gemini", "--allow-exec"], ".gemini/settings.json",
         [sys.executable, "-m", "rooflens", "serve", "--allow-exec"]),
        (["cursor", "--store", "s3://bucket/team"], ".cursor/mcp.json",
         [sys.executable, "-m", "rooflens", "serve", "--store", "s3://bucket/team"]),
    ],
    ids=["a command of several words", "no path of this machine for a project", "this program", "an address"],
)  # fmt: skip
def test_what_it_writes_starts_the_server_as_asked(
    home: Path, words: list[str], file: str, started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connect", "--write", *(word.format(home=home) for word in words)]) == 0
    assert str(home / file) in capsys.readouterr().out
    entry = json.loads((home / file).read_text())["mcpServers"]["rooflens"]
    assert [entry["command"], *entry["args"]] == started


def test_a_command_that_is_none_is_refused(home: Path) -> None:
    for wrong in ("", "'"):
        assert main(["connect", "cursor", "--command", wrong]) == 1


def test_a_program_made_for_one_run_is_not_written_down_and_one_that_lasts_is(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for prefix in (".cache/uv/archive-v0/x", ".cache/pipx/53e5cd09a811e94", ".local/pipx/.cache/x"):
        monkeypatch.setattr(sys, "prefix", str(home / prefix))
        assert main(["connect", "cursor", "--write"]) == 1
        assert "uv tool install" in capsys.readouterr().err
        assert list(home.iterdir()) == []
    lasting = (".local/share/pipx/venvs/rooflens", ".local/share/uv/tools/rooflens", ".cache/pypoetry/virtualenvs/mine")
    for prefix in lasting:
        monkeypatch.setattr(sys, "prefix", str(home / prefix))
        assert main(["connect", "cursor", "--write"]) == 0


def _clients_program(home: Path, name: str, patch: pytest.MonkeyPatch) -> Path:
    """Put a program of a client on the PATH that records its arguments; the file with them, one JSON list per call."""
    calls, program = home / "calls", home / "bin" / name
    program.parent.mkdir()
    record = f"import json, sys; open({str(calls)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')"
    program.write_text(f"#!{sys.executable}\n{record}\n")
    program.chmod(0o755)
    patch.setenv("PATH", str(program.parent))
    return calls


def test_a_client_that_alone_writes_its_file_is_asked_to_do_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = _clients_program(home, "claude", monkeypatch)
    assert main(["connect", "claude", "--write", "--command", "rooflens", "--store", "s3://bucket/team"]) == 0
    (words,) = [json.loads(line) for line in calls.read_text().splitlines()]
    assert words[:-1] == ["mcp", "add-json", "--scope", "user", "rooflens"]
    assert json.loads(words[-1])["args"] == ["serve", "--store", "s3://bucket/team"]
    # The next time, its file has the entry: it is replaced, and the options are kept.
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"rooflens": json.loads(words[-1])}}))
    assert main(["connect", "claude-code", "--write", "--command", "rooflens", "--allow-exec"]) == 0
    removed, added = [json.loads(line) for line in calls.read_text().splitlines()[1:]]
    assert removed == ["mcp", "remove", "--scope", "user", "rooflens"]
    assert json.loads(added[-1])["args"] == ["serve", "--store", "s3://bucket/team", "--allow-exec"]
    assert "Kept from the earlier entry: --store s3://bucket/team" in capsys.readouterr().out


def test_without_the_clients_program_the_way_on_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(home))
    for name in ("claude-code", "vscode"):
        assert main(["connect", name, "--write", "--command", "rooflens"]) == 1
        assert "select one project with --project" in capsys.readouterr().err
    assert list(home.iterdir()) == []


def test_the_store_of_the_environment_is_part_of_the_entry(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLENS_STORE", str(home / "mine"))
    assert main(["connect", "gemini", "--write", "--command", "rooflens"]) == 0
    entry = json.loads((home / ".gemini" / "settings.json").read_text())["mcpServers"]["rooflens"]
    assert entry["args"] == ["serve", "--store", str(home / "mine")]


def test_a_shared_stores_variables_are_named_without_their_values(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROOFLENS_STORE", "s3://bucket/team")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "confidential")
    for name in ("codex", "cursor"):
        assert main(["connect", name, "--write", "--command", "rooflens"]) == 0
        assert "AWS_SECRET_ACCESS_KEY" in capsys.readouterr().out
    codex = (home / ".codex" / "config.toml").read_text()
    cursor = (home / ".cursor" / "mcp.json").read_text()
    assert "AWS_SECRET_ACCESS_KEY" in tomllib.loads(codex)["mcp_servers"]["rooflens"]["env_vars"]
    stated = json.loads(cursor)["mcpServers"]["rooflens"]["env"]
    assert stated["AWS_SECRET_ACCESS_KEY"] == "${env:AWS_SECRET_ACCESS_KEY}"
    assert "confidential" not in codex + cursor


@pytest.mark.parametrize("name", ["codex", "cursor"])
def test_remove_takes_the_entry_out_and_leaves_the_others(home: Path, name: str) -> None:
    file = home / str(clients()[name].user)
    file.parent.mkdir()
    other = '[mcp_servers.other]\ncommand = "x"\n' if name == "codex" else '{"mcpServers": {"other": {"command": "x"}}}'
    file.write_text(other)
    loads = tomllib.loads if name == "codex" else json.loads
    assert main(["connect", name, "--write", "--command", "rooflens", "--store", "s3://bucket/team"]) == 0
    assert "rooflens" in file.read_text()
    assert main(["connect", name, "--remove"]) == 0
    assert loads(file.read_text()) == loads(other)
    assert main(["connect", name, "--remove"]) == 0
    assert main(["connect", name, "--remove", "--write"]) == 1
