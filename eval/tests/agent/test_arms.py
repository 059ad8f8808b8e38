"""The four arms are played alike: same rounds, the same prompts but for the profile, and only right versions count."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from rooflens.eval.agent import arms, feedback
from rooflens.eval.agent.arms import Game

JUDGE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("main", sys.argv[2] + "/main.py")
main = importlib.util.module_from_spec(spec); spec.loader.exec_module(main)
print(json.dumps({"right": main.run(3) == 4, "problem": None, "seconds": main.SECONDS}))
"""
PLAYER = """
import sys
prompt = sys.stdin.read()
second = "round 1" in prompt
body = "SECONDS = %s\\ndef run(x): return x + %d" % ((0.1, 2) if second else (0.5, 1))
print("Try:\\n```python path=main.py\\n" + body + "\\n```")
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One program with a judge that believes the version's own time, and feedback for one arm."""
    folder = tmp_path / "programs"
    (folder / "sum" / "original").mkdir(parents=True)
    (folder / "judge.py").write_text(JUDGE)
    (folder / "sum" / "hidden.py").write_text("")
    (folder / "sum" / "program.toml").write_text('title = "Sum"\nruns = 2\ncauses = ["secret"]\n')
    (folder / "sum" / "original" / "main.py").write_text("SECONDS = 1.0\ndef run(x): return x + 1\n")
    (tmp_path / "player.py").write_text(PLAYER)
    monkeypatch.setattr(arms, "PROGRAMS", folder)
    monkeypatch.setattr(feedback, "PROGRAMS", folder)

    def hints(arm: str, version: Any, *_: Any) -> str:
        return f"hints for {version.folder.name}" if arm == "rooflens" else ""

    monkeypatch.setattr(arms, "feedback", hints)
    return folder


def played(tmp_path: Path, *words: str) -> dict[str, Any]:
    """The games of two arms after one call of the script."""
    options = ["--run-code", "--seeds", "1", "--rounds", "2", "--arm", "none", "--arm", "rooflens"]
    assert arms.main([*options, "--out", str(tmp_path / "out"), *words]) == 0
    found: dict[str, Any] = json.loads((tmp_path / "out" / "arms.json").read_text())
    return found


def test_a_wrong_version_does_not_count_however_fast_it_is(programs: Path, tmp_path: Path) -> None:
    found = played(tmp_path, "--program", f"{sys.executable} {tmp_path / 'player.py'}", "--gpus", "0,1")
    assert [(g["speedup"], [r["right"] for r in g["rounds"]]) for g in found["games"]] == [(2.0, [True, False])] * 2
    prompts = {arm: tmp_path / "out" / f"sum.{arm}.1" / "prompt-2.md" for arm in ("none", "rooflens")}
    with_profile = prompts["rooflens"].read_text()
    assert "SECONDS = 0.5" in with_profile and with_profile.endswith("hints for v1"), "it begins from the best version"
    assert prompts["none"].read_text() == with_profile.replace("hints for v1", "none")
    assert "secret" not in with_profile and found["summary"]["none"]["right_rounds"] == 1


def test_games_wait_for_replies_and_go_on_with_them(programs: Path, tmp_path: Path) -> None:
    assert [g["rounds"] for g in played(tmp_path)["games"]] == [[], []]
    game = tmp_path / "out" / "sum.none.1"
    (game / "reply-1.md").write_text("```python path=main.py\nSECONDS = 0.25\ndef run(x): return x + 1\n```\n")
    speedups = [g["speedup"] for g in played(tmp_path)["games"]]
    assert speedups == [4.0, None] and (game / "prompt-2.md").is_file() and not (game / "round-2.json").exists()


def test_files_outside_of_the_folder_are_not_written() -> None:
    reply = "```python path=../up.py\nx\n```\n```python path=/etc/x.py\nx\n```\n```python path=a/main.py\ny = 1\n```\n"
    reply += "```sh path=toolchain\nA=1\n```\n```python other.py\nz\n```\n```python\nno name\n```\n"
    assert arms.reply_files(reply) == {"a/main.py": "y = 1\n", "toolchain": "A=1\n", "other.py": "z\n"}


def test_the_summary_has_a_geometric_mean_with_an_interval_for_each_arm(tmp_path: Path) -> None:
    games = []
    for number, (arm, original, best) in enumerate(
        [("none", 4.0, 1.0), ("none", 4.0, 4.0), ("none", 4.0, None), ("raw", None, None)]
    ):
        game = Game("p", arm, number, tmp_path / f"p.{arm}.{number}")
        game.folder.mkdir()
        report = {"right": best is not None, "seconds": best, "original_s": original}
        game.file("round", 1).write_text(json.dumps(report))
        game.file("prompt", 1).write_text("four")
        games.append(game)
    found = arms.summary(games)
    assert found["none"]["speedup"] == pytest.approx(4 ** (1 / 3))
    assert 1 <= found["none"]["low"] <= found["none"]["speedup"] <= found["none"]["high"] <= 4
    assert found["raw"]["speedup"] is None and found["none"]["tokens"] == 3


def test_the_vendor_arm_counts_the_kernels_that_torch_profiler_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    class Recorded(feedback.Machine):
        def output(self, command: Any, limit_s: float | None = None) -> str:
            commands.append(list(command))
            return "tables\nFunctions of the longest kernels: gemm_f32, add\n" if len(commands) % 2 else "counters"

    version = feedback.Version(tmp_path, tmp_path / "v0", tmp_path)
    text = feedback.feedback("vendor", version, None, Recorded(), 200)
    assert text.startswith("tables") and text.endswith("counters")
    assert commands[0][2].endswith("profiled.py") and "regex:^(gemm_f32|add)$" in commands[1]


def test_a_command_that_takes_too_long_leaves_no_process_behind() -> None:
    seconds = "61.0625"  # nobody else's
    started = f"import subprocess; subprocess.run(['sh', '-c', 'sleep {seconds} & wait'])"
    text = feedback.Machine().output([sys.executable, "-c", started], 1.0)
    left = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]
    assert text.endswith("took longer than 1 s") and not left


def test_code_is_run_only_if_that_is_allowed(tmp_path: Path) -> None:
    assert arms.main(["--program", "cat", "--out", str(tmp_path)]) == 2
