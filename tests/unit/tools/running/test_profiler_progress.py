"""Following a program: its streams and a file of its profiler, read seldom and told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tools.running import profiler_progress
from rooflens.tools.running.profiler_progress import Follower, ProfilerProgress


def _number(text: str) -> ProfilerProgress | None:
    words = text.split()
    return ProfilerProgress("k", launch=int(words[-1])) if words and words[-1].isdecimal() else None


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    monkeypatch.setattr(profiler_progress, "_EVERY_S", 0.0)
    return []


def test_both_streams_are_heard_and_what_did_not_change_is_not_told_again(told: list[int | None]) -> None:
    follower = Follower(_number, lambda news: told.append(news.launch))
    for stream, piece in ((0, b"1 "), (1, b"x 2"), (0, b"2"), (0, b" and more"), (1, b" 3")):
        follower.hear(stream, piece)
        follower.read_news()
    assert told == [1, 2, 3]


def test_a_file_is_read_from_its_end_while_it_grows(tmp_path: Path, told: list[int | None]) -> None:
    log = tmp_path / "log"
    follower = Follower(_number, lambda news: told.append(news.launch), log)
    follower.read_news()
    log.write_text("y" * 100_000 + " 7")
    follower.read_news()
    follower.read_news()
    with log.open("a") as file:
        file.write(" 8")
    follower.read_news()
    assert told == [7, 8]


def test_a_flood_is_looked_at_seldom_and_keeps_no_more_than_its_end() -> None:
    looks: list[int] = []
    follower = Follower(lambda text: looks.append(len(text)), lambda _: None)  # type: ignore[func-returns-value]
    for _ in range(2000):
        follower.hear(0, b"x" * 65_536)
        follower.read_news()
    assert len(looks) <= 3 and max(looks) <= 8192
