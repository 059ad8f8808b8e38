"""The labelled kernels: each is found, and the scores are what they say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import evaluate
import kernels
import pytest
from mcp.client import Client

from rooflens.analysis.store.store import Store
from rooflens.server.mcp import app

CASE = kernels.Labelled("w", "k", ("valu", "hbm"))


@pytest.fixture(scope="module")
async def store(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("eval"))


@pytest.fixture(scope="module")
async def client(store: Store) -> AsyncIterator[Client]:
    async with Client(app.build(store)) as connected:
        yield connected


@pytest.fixture(scope="module")
async def found(client: Client, store: Store) -> dict[str, Any]:
    return await evaluate.evaluated(client, store)


@pytest.mark.anyio
async def test_all_kernels_of_the_example_program_are_cases_and_what_is_absent_is_told(found: dict[str, Any]) -> None:
    cases = [kernels.Labelled(**case) for case in found["cases"]]
    assert sum(case.workload == "h200_kernels" for case in cases) == 44
    assert len(cases) >= 49 and all(label for case in cases for label in case.labels)
    assert len({case.workload for case in cases}) + len(found["skipped"]) == 9


@pytest.mark.anyio
async def test_a_case_that_fits_no_kernel_or_several_is_refused(client: Client, found: dict[str, Any]) -> None:
    workload = found["cases"][0]["workload"]
    with pytest.raises(ValueError, match="no_such_kernel"):
        await kernels.diagnosed(client, kernels.Labelled(workload, "no_such_kernel", ("hbm",)))


def made(said: str, confidence: float, *findings: str) -> kernels.Diagnosed:
    return kernels.Diagnosed(CASE, (said, *findings), confidence, 1000)


def test_scores_of_made_diagnoses() -> None:
    scores = kernels.scores(
        [made("valu", 0.9), made("hbm", 0.8, "lds"), made("lds", 0.4, "l2", "hbm"), made("l2", 1.0)]
    )
    assert (scores["kernels"], scores["right_first_pct"], scores["right_in_top_three_pct"]) == (4, 50.0, 75.0)
    assert scores["brier"] == pytest.approx((0.1**2 + 0.2**2 + 0.4**2 + 1.0**2) / 4)
    assert scores["tokens_per_answer"] == 1000 and scores["sure_and_wrong"] == 1
    bins = {c["confidence"]: (c["kernels"], c["right_first_pct"]) for c in scores["calibration"]}
    assert bins == {"0.00-0.50": (1, 0.0), "0.70-0.85": (1, 100.0), "0.85-1.00": (2, 50.0)}


def test_a_right_subsystem_in_the_fourth_place_does_not_count() -> None:
    assert not made("lds", 0.5, "l2", "vl1d", "hbm").top


@pytest.mark.anyio
async def test_the_whole_evaluation_reaches_its_floors(found: dict[str, Any]) -> None:
    assert evaluate.missed(found) == [], evaluate.report(found)
    assert found["questions"]["most_calls"] <= 3
    assert found["diagnosis"]["all"]["tokens_per_answer"] < 2_000
    assert all(half["median_bound_over_gain"] < 2 for half in found["interventions"]["halves"].values())


def test_the_verdict_unknown_counts_as_right_where_nothing_can_be_known_but_not_for_calibration() -> None:
    unknown = replace(made("unknown", 0.0), case=kernels.Labelled("w", "k", ("unknown",)))
    scores = kernels.scores([unknown, made("hbm", 0.9)])
    assert scores["right_first_pct"] == 100 and scores["brier"] == pytest.approx(0.01)
    assert [c["kernels"] for c in scores["calibration"]] == [1]


@pytest.mark.anyio
async def test_sure_verdicts_are_right_more_often_than_unsure_ones(found: dict[str, Any]) -> None:
    classes = found["diagnosis"]["all"]["calibration"]
    assert classes[-1]["right_first_pct"] == 100
    assert found["diagnosis"]["all"]["brier"] < 0.15


@pytest.mark.anyio
async def test_with_counters_taken_away_nothing_wrong_is_sure_and_the_counters_that_decide_are_named(
    found: dict[str, Any],
) -> None:
    thin = found["thinned"]
    assert (thin["kernels"], thin["misled"], thin["asks_for_counters_pct"]) == (44, 0, 100.0)
    assert thin["right_first_pct"] < found["diagnosis"]["h200_kernels"]["right_first_pct"]


@pytest.mark.anyio
async def test_the_report_names_what_was_wrong(found: dict[str, Any]) -> None:
    wrong = {"workload": "w", "kernel": "k", "labels": ("hbm",), "said": ("lds",), "confidence": 0.75}
    question = {"ask": "Why?", "given": 1, "answer": 2, "problem": None}
    broken = {**found, "wrong_first": [wrong], "questions": {**found["questions"], "wrong": [question]}}
    text = evaluate.report(broken)
    assert "w k: said lds with confidence 0.75; right: hbm" in text and "Why? given 1, right 2" in text
    worse = {**found["diagnosis"]["all"], "sure_and_wrong": 2, "right_first_pct": 50.0}
    broken["diagnosis"] = {**found["diagnosis"], "all": worse}
    broken["thinned"] = {**found["thinned"], "misled": 3}
    short = evaluate.missed(broken)
    assert [s.split(":")[0] for s in short] == ["question", "2 verdicts were wrong with a confidence of 0.85 or more",
                                                "3 wrong verdicts on too few counters were not reported as open",
                                                "right_first_pct"]  # fmt: skip
