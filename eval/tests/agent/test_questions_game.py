"""The questions: their truths come from the recordings, the ideal player reaches all of them, a bad one does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.store.store import Store
from rooflens.eval.agent.games import asking, recorded, scores
from rooflens.eval.agent.games.server import serving
from rooflens.eval.agent.players.script import SilentPlayer
from rooflens.eval.agent.players.turn import Call

ALL = asking.questions()
YES = sum(q.right.check == "yes_no" and q.right.answer is True for q in ALL)
WITH_TRUTH = [q for q in ALL if q.truth]


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    with recorded.tables() as database:
        yield database


def test_there_are_sixty_questions_over_all_heights_and_each_says_how_its_truth_is_known() -> None:
    assert len(ALL) == 60
    assert len({q.ask for q in ALL}) == len(ALL)
    assert set(Counter(q.level for q in ALL)) == set(asking.LEVELS)
    assert all(bool(q.truth) != bool(q.fact) for q in ALL)
    assert all(q.difficulty in (1, 2, 3) and set(q.about) <= set(recorded.recordings()) for q in ALL)
    assert sum(q.right.check == "untold" for q in ALL) >= 6
    assert sum(q.right.check == "yes_no" and q.right.answer is False for q in ALL) >= 2


@pytest.mark.parametrize("question", WITH_TRUTH, ids=lambda q: q.ask)
def test_the_stated_answer_follows_from_the_raw_recording(
    tables: duckdb.DuckDBPyConnection, question: asking.Question
) -> None:
    rows = tables.execute(str(question.truth)).fetchall()
    assert len(rows) == 1
    found, right = rows[0][0], question.right
    expected: Any = right.answer
    if right.check == "number":
        assert math.isclose(found, expected, rel_tol=max(right.tolerance / 2, 1e-12))
    elif right.check == "names":
        assert sorted(found) == sorted(expected)
    elif right.check == "yes_no":
        assert bool(found) is expected
    else:
        assert found == expected


def test_an_untold_question_is_asked_like_the_others() -> None:
    def wanted(question: asking.Question) -> str:
        kind = question.prompt.partition("Wanted: ")[2]
        return kind.split(",")[0].split(".")[0]

    told = {wanted(q) for q in ALL if q.right.check != "untold"}
    assert {wanted(q) for q in ALL if q.right.check == "untold"} <= told


@pytest.mark.anyio
async def test_the_ideal_player_answers_all_with_at_most_three_calls(tmp_path: Path) -> None:
    asking.load(Store(tmp_path / "store"))
    async with serving(tmp_path / "store") as tools:
        done = await asking.play(asking.ideal(ALL), ALL, tools, tmp_path)
    assert [(a.question.ask, a.given, a.problem) for a in done if not a.right] == []
    assert max(a.cost.calls for a in done) <= 3
    assert not any(a.cost.failed_calls for a in done)
    assert len(list(tmp_path.glob("*.jsonl"))) == len(ALL)


@pytest.mark.anyio
async def test_the_server_of_the_questions_neither_writes_nor_runs_programs(tmp_path: Path) -> None:
    async with serving(tmp_path) as tools:
        offered = {offer.name for offer in tools.offers}
        assert offered.isdisjoint({"profile_command", "import_profile", "run_peak_benchmarks", "cancel_run", "plot"})
        refused = await tools.call(Call("1", "profile_command", {"command": ["true"]}))
        assert refused.failed and "no tool" in refused.text
        wrong = await tools.call(Call("2", "compute_metrics", {"workload": "none such", "nonsense": 1}))
        assert wrong.failed and wrong.text
        deep: Any = []
        for _ in range(5_000):
            deep = [deep]
        odds = ({"workload": "\ud800"}, {"workload": deep}, {"workload": 10**400}, {"\0": float("nan")})
        for number, odd in enumerate(odds):
            answer = await tools.call(Call(f"odd{number}", "compute_metrics", odd))
            assert answer.failed and answer.text
        file = await tools.call(Call("3", "compute_occupancy", {"code_object": "/etc/passwd"}))
        assert file.failed and "reads no files" in file.text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("words", "right", "made_up"),
    [("ANSWER: 42", 0, 9), ("ANSWER: cannot be told", 9, 0), ("I cannot say.", 0, 0), ("ANSWER: yes", YES, 9)],
)
async def test_a_player_that_knows_nothing_scores_badly(words: str, right: int, made_up: int) -> None:
    found = scores.of_questions(await asking.play(SilentPlayer(words), ALL, None))
    assert found["right"] == right
    assert found["untold"]["made_up"] == made_up
    assert found["calls"] == 0 and found["tokens"] > 0 and found["tokens_estimated"]
    table = scores.table({"without tools": found})
    assert f"{right} of 60" in table and "(estimated)" in table
