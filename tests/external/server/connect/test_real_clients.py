"""The clients themselves, where they are installed, take what `rooflens connect` says and reach the server with it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rooflens.server.cli import main
from rooflens.server.connect.clients import StartCommand, client
from rooflens.tests.support.waiting import END_S

LAUNCH = StartCommand((sys.executable, "-m", "rooflens", "serve", "--read-only"))
_PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}
_TRIES = 3
_QUICK_S = 2.0
"""A start that takes longer may be too slow for a client that waits some five seconds for the first answer."""
_TRUSTING = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home and a project of the test's own, and an environment that names no other."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    # Nothing that these programs would send or fetch belongs into a test.
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C.UTF-8", **quiet}


def _installed(name: str) -> str:
    program = _PROGRAMS[name]
    return shutil.which(program) or pytest.skip(f"needs the client's own program, {program}, on PATH")


def _run(words: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=END_S)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", list(_PROGRAMS))
def test_its_own_command_is_taken_and_its_list_reaches_the_server(name: str, here: dict[str, str]) -> None:
    program = _installed(name)
    _run([program, *shlex.split(client(name).own_command(LAUNCH) or "")[1:]], here)
    _reaches(name, program, here)


@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_the_file_that_write_leaves_is_read(name: str, here: dict[str, str]) -> None:
    program = _installed(name)
    assert main(["connect", name, "--write", "--read-only"]) == 0
    _reaches(name, program, here)


def _reaches(name: str, program: str, here: dict[str, str]) -> None:
    """The client starts the server and gets its answer."""
    if name == "codex":
        return _codex_sees_the_tools(program, here)
    shown = ""
    for _ in range(_TRIES):
        shown = _run([program, "mcp", "list"], {**here, **_TRUSTING})
        assert shlex.join(LAUNCH.words) in shown
        if re.search(r"rooflens: .* Connected$", shown, re.MULTILINE):
            return None
    if (took := _start_s(here)) > _QUICK_S:
        pytest.skip(f"a start takes {took:.1f} s on this busy machine, and the client waits only some seconds")
    pytest.fail(shown)


def _start_s(here: dict[str, str]) -> float:
    """How long the server takes to start, answer and end."""
    begun = time.monotonic()
    subprocess.run(LAUNCH.words, env=here, input=b"", capture_output=True, timeout=END_S, check=True)
    return time.monotonic() - begun


def _codex_sees_the_tools(program: str, here: dict[str, str]) -> None:
    """Codex lists servers without starting them; the server behind its editors does start them."""
    assert "rooflens" in _run([program, "mcp", "list", "--json"], here)
    asked = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "rooflens-tests", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "mcpServerStatus/list", "params": {}},
    ]
    with subprocess.Popen(
        [program, "app-server"], env=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdin and process.stdout
            for message in asked:
                process.stdin.write(json.dumps(message).encode() + b"\n")
                process.stdin.flush()
            answers = (json.loads(line) for line in process.stdout)
            found = next(answer for answer in answers if answer.get("id") == 2)["result"]["data"][0]
        finally:
            process.kill()
    assert found["name"] == "rooflens" and {"list_workloads", "diagnose_bottleneck"} <= set(found["tools"])
