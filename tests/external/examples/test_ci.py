"""The example for a CI is a workflow that GitHub can read, and its commands do what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.commands.verbs import command
from rooflens.server.terminal import outcome
from rooflens.tests import ROOT
from rooflens.tests.support.comparisons import launches, workload

yaml = pytest.importorskip("yaml", reason="needs PyYAML")
WORKFLOW = ROOT / "examples" / "ci" / "github-actions.yml"


def read() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return found


def commands() -> list[list[str]]:
    """Every rooflens command of the workflow in words, without what the shell makes of it."""
    text = "\n".join(step.get("run", "") for job in read()["jobs"].values() for step in job["steps"])
    joined = text.replace("\\\n", " ").replace("$TAG", "candidate")
    return [shlex.split(line.strip())[1:] for line in joined.splitlines() if line.strip().startswith("rooflens ")]


def test_its_profiles_are_commands_that_the_tool_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(command, "call_and_print", lambda _, verb, given, *rest: asked.append((verb.tool, given)) or 0)
    monkeypatch.chdir(tmp_path)
    assert main(next(words for words in commands() if "profile" in words)) == 0
    wanted = {"command": ["./app"], "metrics": [], "name": "candidate", "tags": ["candidate"]}
    assert asked == [("profile_command", wanted)]


def test_it_installs_only_what_a_person_named_and_no_verdict_is_let_pass() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    assert re.findall(r"(?:pip|pipx|uv|uvx)\b.*install (\S+)", text) == ["./rooflens"]
    assert "--inconclusive" not in text


@pytest.mark.parametrize(("factor", "status"), [(1.0, outcome.OK), (1.1, outcome.REGRESSED)])
def test_its_gate_passes_what_did_not_change_and_fails_what_did(
    factor: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for tag, ns in (("main", 1e6), ("candidate", 1e6 * factor)):
        for _ in range(3):
            times = list(ns * np.exp(rng.normal(0, 0.004, 20)))
            workload(Store(tmp_path / "store"), launches("k", times), name=tag, tags=[tag])
    gate = next(words for words in commands() if "gate" in words)
    assert main(gate) == status
    assert "rooflens gate" in (tmp_path / "summary.md").read_text()
