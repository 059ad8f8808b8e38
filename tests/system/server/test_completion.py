"""Completion in a real shell: subcommands, options, tools, workloads, and no name that a shell would act on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.commands import NAMES
from rooflens.tests.support.comparisons import launches, workload
from rooflens.tests.support.waiting import END_S


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a command `rooflens`, and a store with names of all kinds."""
    folder = tmp_path_factory.mktemp("completion")
    command = folder / "rooflens"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rooflens "$@"\n')
    command.chmod(0o755)
    store = Store(folder / "store")
    for name in ("step_one", "step_two", "step $(touch pwned)", "step;touch pwned", "step`touch pwned`"):
        workload(store, launches("k", [1e6]), name=name, tags=["main", "x|y"])
    return folder


def in_bash(place: Path, *lines: str) -> list[list[str]]:
    """What bash offers at the end of each line."""
    asked = "".join(f"ask '{line}'; " for line in lines)
    ask = 'COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMPREPLY=(); _python_argcomplete rooflens'
    script = f'eval "$(rooflens completion bash)"; ask() {{ {ask}; echo "=" "${{COMPREPLY[@]}}"; }}; {asked}'
    environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "ROOFLENS_STORE": str(place / "store")}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=END_S, env=environment, cwd=place
    )
    assert done.returncode == 0, done.stderr
    return [part.split() for part in " ".join(done.stdout.split()).split("=")[1:]]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_options_tools_and_workloads_that_are_plain_words(place: Path) -> None:
    lines = ("", "show step", "diagnose --ker", "plot roof", "call compare_", "gate tag")
    found = in_bash(place, *(f"rooflens {line}" for line in lines))
    assert set(found[0]) == set(NAMES)
    offered = found[1:4]
    assert sorted(offered.pop(0)) == ["step_one", "step_two"] and offered == [["--kernel"], ["roofline"]]
    assert found[4:] == [["compare_workloads"], ["tag:main"]]
    assert not (place / "pwned").exists()


def test_a_script_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "_ARGCOMPLETE" in capsys.readouterr().out
