"""The log tells every call's tool, outcome, time and size, and never what was asked or answered."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.mcp import toolbox
from rooflens.server.terminal import log
from rooflens.tests.support.given_tool import tool_of

LINE = re.compile(r"rooflens INFO (\w+) (\w+) in \d+\.\d{3} s, \d+ characters")


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    before = (list(log.logger.handlers), log.logger.level, log.logger.propagate)
    yield
    log.logger.handlers, log.logger.propagate = before[0], before[2]
    log.logger.setLevel(before[1])


def test_a_call_is_one_line_on_stderr_only_when_asked_for(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    words, asked = ["--store", str(samples.root), "call"], ["search_metrics", '{"query": "a secret"}']
    assert main([*words, *asked]) == main([*words, "--verbose", *asked]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    found = LINE.search(line)
    assert found and found.groups() == ("search_metrics", "ok") and "secret" not in line


def test_a_refusal_is_logged_by_its_kind_without_its_words(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--store", str(samples.root), "call", "-v", "list_workloads", '{"workload": "a-private-name"}']
    assert main(words) == 1
    line = next(line for line in capsys.readouterr().err.splitlines() if " INFO " in line)
    found = LINE.search(line)
    assert found and found.groups() == ("list_workloads", "NotFound") and "a-private-name" not in line


def test_a_bug_is_logged_with_its_traceback_and_told_without(
    samples: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(store: Store) -> toolbox.Result:
        raise RuntimeError("a detail")

    monkeypatch.setattr(toolbox, "tools", lambda **_: (tool_of(broken),))
    monkeypatch.setattr(log.logger, "propagate", True)
    with caplog.at_level(logging.ERROR, logger="rooflens"):
        problem = toolbox.answer(samples, "broken", {})
    assert "a detail" not in getattr(problem, "text", "a detail") and "RuntimeError: a detail" in caplog.text


def test_every_v_lowers_the_level() -> None:
    for verbose, level in ((0, logging.WARNING), (1, logging.INFO), (2, logging.DEBUG)):
        log.start(verbose)
        assert log.logger.level == level and len(log.logger.handlers) == 1
