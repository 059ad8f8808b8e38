"""The four arms are played alike: same rounds, the same prompts but for the profile, and only right versions count."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rooflens.eval.agent import arms
from rooflens.eval.agent.arms import ArmGame, Limits

HIDDEN = """
import time
def make(seed, small): return seed
def check(case, result, device): return None if result == case + 1 else "another sum"
"""
JUDGE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("main", sys.argv[2] + "/main.py")
main = importlib.util.module_from_spec(spec); spec.loader.exec_module(main)
print(json.dumps({"right": main.run(3) == 4, "problem": None, "seconds": main.SECONDS}))
"""
PLAYER = """
import sys
prompt = sys.stdin.read()
open(sys.argv[1], "a").write("." if "Profile:\\n\\nhints" in prompt else "-")
second = "round 1" in prompt
body = "SECONDS = %s\\ndef run(x): return x + %d" % ((0.1, 2) if second else (0.5, 1))
print("Try:\\n```python path=main.py\\n" + body + "\\n```")
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    (folder / "sum" / "original").mkdir(parents=True)
    (folder / "judge.py").write_text(JUDGE)
    (folder / "sum" / "hidden.py").write_text(HIDDEN)
    (folder / "sum" / "program.toml").write_text('title = "Sum"\ncauses = ["secret"]\n')
    (folder / "sum" / "original" / "main.py").write_text("SECONDS = 1.0\ndef run(x): return x + 1\n")
    (tmp_path / "player.py").write_text(PLAYER)
    monkeypatch.setattr(arms, "PROGRAMS", folder)
    return folder


def test_a_wrong_version_does_not_count_however_fast_it_is(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def hints(arm: str, *_: Any) -> str:
        seen.append(arm)
        return "hints" if arm == "rooflens" else ""

    monkeypatch.setattr(arms, "feedback", hints)
    player = [sys.executable, str(tmp_path / "player.py"), str(tmp_path / "prompts")]
    games = [arms.play(player, "sum", arm, 1, Limits(rounds=2), tmp_path / "out") for arm in ("none", "rooflens")]
    assert [(g.speedup, g.rounds, g.right_rounds) for g in games] == [(2.0, 2, 1)] * 2
    assert (tmp_path / "prompts").read_text() == "--.." and seen == ["none", "none", "rooflens", "rooflens"]
    lines = [json.loads(line) for line in (tmp_path / "out" / "sum.none.1.jsonl").read_text().splitlines()]
    assert [line["what"] for line in lines] == ["original", "round", "round", "game"]
    assert "secret" not in lines[1]["prompt"] and not lines[2]["report"]["right"]


def test_files_outside_of_the_folder_are_not_written() -> None:
    reply = "```python path=../up.py\nx\n```\n```python path=/etc/x.py\nx\n```\n```python path=a/main.py\ny = 1\n```\n"
    assert arms.files_of(reply) == {"a/main.py": "y = 1\n"}


def test_the_summary_has_a_geometric_mean_with_an_interval_for_each_arm() -> None:
    games = [ArmGame("p", "none", n, 4.0, best, 3, 2, 100) for n, best in ((1, 1.0), (2, 4.0), (3, None))]
    told = arms.summary([*games, ArmGame("p", "raw", 1, None, None, 3, 0, 100)])
    assert told["none"]["speedup"] == pytest.approx(4 ** (1 / 3))
    assert 1 <= told["none"]["low"] <= told["none"]["speedup"] <= told["none"]["high"] <= 4
    assert told["raw"]["speedup"] is None and told["none"]["tokens"] == 300


def test_code_is_run_only_if_that_is_allowed(tmp_path: Path) -> None:
    assert arms.main(["--program", "cat", "--out", str(tmp_path)]) == 2
