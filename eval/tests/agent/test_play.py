"""The command line: players, scores on disk, and what it says where nothing can be played."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rooflens.eval.agent import play
from rooflens.eval.agent.games import asking
from rooflens.eval.agent.games.tasks import NoTask, tasks

PLAYER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    assert not asked["tools"]
    print(json.dumps({"text": "ANSWER: gfx90a", "usage": {"read": 10, "written": 2}}), flush=True)
"""


def test_a_local_program_plays_and_its_scores_and_transcripts_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "player.py").write_text(PLAYER)
    out = tmp_path / "results" / "first"
    words = ["questions", "--only", "device", "--tools", "without", "--out", str(out), "--json"]
    program = f"{sys.executable} -S {tmp_path / 'player.py'}"
    assert play.main([*words, "--player", "command", "--program", program]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((out / "questions.json").read_text())
    scores = found["without tools"]
    assert (scores["asked"], scores["right"], scores["calls"]) == (5, 1, 0)
    assert scores["tokens"] == 5 * 12 and not scores["tokens_estimated"]
    assert len(list((out / "questions" / "without_tools").glob("*.jsonl"))) == 5


def test_a_player_that_is_not_there_ends_the_game(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["questions", "--tools", "without", "--player", "command", "--program", "no_such_program_here"]
    assert play.main(words) == 2
    told = capsys.readouterr().err
    assert f"{asking.MOST_FAILURES} questions in a row" in told and "cannot be started" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["questions", "--only", "weather"], "levels: device"),
        (["kernels", "--run-code", "--only", "fortran"], "fortran"),
        (["kernels", "--run-code", "--tasks", "no/such/folder"], "not there"),
    ],
)
def test_what_cannot_be_played_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert play.main(words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("words", [["questions", "--player", "openai"], ["kernels", "--player", "command"], ["chess"]])
def test_a_player_that_is_not_described_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        play.main(words)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "stated", ["language = 'cobol'", "language = 'c'", "= 3", "language = 'c'\nbest = 'x'\nsong = 1"]
)
def test_a_task_of_another_shape_is_named(tmp_path: Path, stated: str) -> None:
    (tmp_path / "task.toml").write_text(stated)
    with pytest.raises(NoTask, match=r"task\.toml"):
        tasks(tmp_path)
