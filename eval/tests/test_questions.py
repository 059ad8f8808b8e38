"""Every question has an answer that the tools give in few calls, and a wrong answer is noticed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import evaluate
import pytest
import questions
from mcp.client import Client

from rooflens.analysis.store.store import Store
from rooflens.server.mcp import app, toolbox

ALL = questions.questions()


@pytest.fixture(scope="module")
async def client(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    async with Client(app.build(Store(tmp_path_factory.mktemp("eval")))) as connected:
        await evaluate.load_samples(connected)
        ask, known = connected.call_tool, dict[str, Any]()

        async def once(name: str, arguments: dict[str, Any]) -> Any:
            """The same call of another test has the same answer."""
            key = json.dumps([name, arguments])
            if key not in known:
                known[key] = await ask(name, arguments)
            return known[key]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connected, "call_tool", once)
            yield connected


def test_there_are_enough_questions_and_each_is_asked_once() -> None:
    assert len(ALL) >= 30
    assert len({q.ask for q in ALL}) == len(ALL)
    assert all(q.ask.endswith("?") and q.source for q in ALL)
    sources = {q.source.split(":")[0] for q in ALL}
    assert sources <= {"program", "published", "definition", "recording"}


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.ask)
def test_no_question_needs_more_than_three_calls_or_a_tool_that_executes(question: questions.Question) -> None:
    safe = {tool.name for tool in toolbox.tools(allow_exec=False)}
    assert 1 <= len(question.calls) <= questions.MOST_CALLS
    assert {call.tool for call in question.calls} <= safe


@pytest.mark.anyio
@pytest.mark.parametrize("question", ALL, ids=lambda q: q.ask)
async def test_the_tools_give_the_answer(client: Client, question: questions.Question) -> None:
    outcome = await questions.answered(client, question)
    assert outcome.right, (outcome.given, outcome.problem)
    assert outcome.tokens < 2_000


@pytest.mark.anyio
async def test_another_answer_is_noticed(client: Client) -> None:
    for question in ALL:
        wrong: Any = not question.answer if isinstance(question.answer, bool) else (
            2 * question.answer if isinstance(question.answer, int | float) else f"{question.answer} and more"
        )  # fmt: skip
        assert not (await questions.answered(client, replace(question, answer=wrong))).right, question.ask


@pytest.mark.anyio
async def test_a_refused_call_is_a_wrong_answer_with_the_refusal(client: Client) -> None:
    call = questions.Call("compute_metrics", {"workload": "no such workload"})
    outcome = await questions.answered(client, replace(ALL[0], calls=(call,)))
    assert not outcome.right and "no such workload" in str(outcome.problem)


def test_reading_a_place_that_is_not_there_fails() -> None:
    content = {"table": {"columns": ["name", "value"], "rows": [["a", 1]]}}
    assert questions.read(content, {"column": "value", "where": {"name": "a"}}) == 1
    with pytest.raises(LookupError):
        questions.read(content, {"column": "value", "where": {"name": "b"}})
    with pytest.raises(LookupError):
        questions.read(content, {"field": "other"})


@pytest.mark.parametrize(
    ("given", "answer", "right"),
    [(100.4, 100, True), (101.0, 100, False), (None, 0, False), (0, None, False), (1, True, False), ("ab", "B", True)],
)
def test_what_counts_as_the_answer(given: Any, answer: Any, right: bool) -> None:
    assert questions.fits(given, answer, questions.TOLERANCE) is right
