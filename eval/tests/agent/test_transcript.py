"""Transcripts hold what was said and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflens.eval.agent.games.transcript import BLOT, Scrubber, Transcript

ENVIRONMENT = {"MY_API_KEY": "correct-horse-battery", "HF_TOKEN": "short", "PATH": "/usr/bin:/usr/local/bin"}


@pytest.mark.parametrize(
    "secret",
    ["correct-horse-battery", f"sk-{'a1B2' * 6}", "Bearer abcdefghijklmnop", f"hf_{'a1B2' * 6}"],
)
def test_keys_are_blotted_out_wherever_they_stand(tmp_path: Path, secret: str) -> None:
    with Transcript(tmp_path, "../a task", Scrubber(ENVIRONMENT)) as transcript:
        transcript.write("tools", results=[{"text": f"x {secret} y", secret: 1}], plain="/usr/bin:/usr/local/bin short")
    (path,) = tmp_path.iterdir()
    line = json.loads(path.read_text())
    assert secret.removeprefix("Bearer ") not in path.read_text() and BLOT in line["results"][0]["text"]
    assert line["plain"] == "/usr/bin:/usr/local/bin short"
    assert path.name == "_a_task.jsonl"


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    with Transcript(None, "task", Scrubber({})) as transcript:
        transcript.write("game", text="x")
    assert list(tmp_path.iterdir()) == []
