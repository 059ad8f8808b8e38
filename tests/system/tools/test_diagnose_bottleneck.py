"""diagnose_bottleneck through its tool: evidence that can be reproduced, short answers, literal next calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadInput, NotFound
from rooflens.analysis.catalogue.metrics import SUBSYSTEMS
from rooflens.analysis.comparison import experiment_log
from rooflens.analysis.store.store import Store
from rooflens.server.mcp.toolbox import call
from rooflens.tests import DATA, ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.timelines import Made, publish
from rooflens.tools.diagnose_bottleneck import DiagnosisResult, diagnose_bottleneck
from rooflens.tools.rendering import render
from rooflens.tools.sql import unlimited_query

SAMPLES = ROOT / "server" / "samples"
SHORT_ANSWER_CHARACTERS = 8_000
"""About 2,000 tokens."""


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("diagnosis"))
    stored(store, SAMPLES / "h200_kernels" / "kernels.csv.gz", "h200")
    stored(store, DATA / "h200_frameworks.csv.gz", "frameworks")
    for name in ("yax_before", "matmul_fp64", "clover"):
        stored(store, SAMPLES / name, name)
    return store


def query(store: Store, sql: str) -> list[tuple[Any, ...]]:
    """The rows that SQL gives over all workloads."""
    columns = unlimited_query.query(store, store.scan()[0], sql).columns
    return list(zip(*(values.tolist() for values in columns.values()), strict=True))


def reproduced(store: Store, result: DiagnosisResult) -> int:
    """Run the SQL of every piece of evidence, all in one query; the number of figures that were there."""
    findings = [f for one in result.kernels for f in one.findings]
    figures = [e for f in findings for e in (*f.evidence, *f.contradicting)]
    (row,) = query(store, "SELECT " + ", ".join(f"ARRAY({figure.sql})" for figure in figures))
    for figure, (value,) in zip(figures, row, strict=True):
        assert value == (None if figure.value is None else pytest.approx(figure.value)), figure.sql
    return sum(figure.value is not None for figure in figures)


def test_the_sql_of_evidence_yields_its_value_on_nvidia(profiles: Store) -> None:
    kernels = "yax_problem|atomic_contention"
    assert reproduced(profiles, diagnose_bottleneck(profiles, "h200", kernel=kernels, top_n=2, detail="full")) > 10


def test_the_sql_of_evidence_yields_its_value_on_amd(profiles: Store) -> None:
    assert reproduced(profiles, diagnose_bottleneck(profiles, "yax_before", detail="full")) >= 3
    assert reproduced(profiles, diagnose_bottleneck(profiles, "matmul_fp64", top_n=6, detail="full")) >= 1


@pytest.mark.parametrize("workload", ["frameworks"])
def test_an_answer_is_short_and_within_the_vocabulary(workload: str, profiles: Store) -> None:
    result = diagnose_bottleneck(profiles, workload)
    assert len(render.text(result)) < SHORT_ANSWER_CHARACTERS
    for one in result.kernels:
        assert one.verdict.subsystem in SUBSYSTEMS
        assert {f.subsystem for f in one.findings} <= set(SUBSYSTEMS)
        assert len(one.findings) <= 3
        if one.findings:
            assert one.findings[0].subsystem == one.verdict.subsystem
            assert one.findings[0].evidence and one.findings[0].advice and one.findings[0].falsify


def test_missing_counters_are_asked_for_in_a_call_that_works(profiles: Store) -> None:
    result = diagnose_bottleneck(profiles, "yax_before")
    assert result.kernels[0].verdict.confidence < 0.5
    asked = next(c for c in result.next if c.tool == "plan_profile")
    planned = call(profiles, asked.tool, asked.arguments)
    assert "yax" not in json.dumps([c.model_dump() for c in result.next]), "names come from the profile"
    assert "SQ_WAVE" in json.dumps(planned.model_dump(mode="json"))
    assert any("Not certain" in note for note in result.notes)


def test_findings_are_a_table(profiles: Store) -> None:
    of_workload = f"workload = '{profiles.resolve('h200').id}'"
    ((subsystem, severity, claim, evidence, advice, verdict, confidence),) = query(
        profiles,
        "SELECT subsystem, severity, claim, evidence, advice, verdict, confidence FROM findings "
        f"WHERE {of_workload} AND kernel LIKE 'shared_conflict%' AND subsystem = verdict",
    )
    assert (subsystem, verdict) == ("lds", "lds") and severity > 90 and confidence > 0.9
    assert "Bank conflicts cost 30.8 extra cycles" in claim and "lds.bank_conflicts_per_access = 30.8" in evidence
    assert "Pad the rows" in advice
    assert query(profiles, f"SELECT count(DISTINCT kernel) FROM findings WHERE {of_workload}") == [(44,)]


def noted(store: Store, kernel: str, change: str, verdict: str, *, hypothesis: str = "") -> None:
    outcome = experiment_log.ExperimentOutcome(kernel=kernel, verdict=verdict, speedup=2.0)
    entry = experiment_log.ExperimentEntry(
        kind="comparison", workload=store.resolve("h200").id, change=change, hypothesis=hypothesis, outcomes=[outcome]
    )
    experiment_log.record(store, entry)


def test_what_was_last_tried_on_a_kernel_is_said_whatever_its_words_are(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    stored(store, SAMPLES / "h200_kernels" / "kernels.csv.gz", "h200")
    kernel = diagnose_bottleneck(store, "h200", kernel="transpose_lds").kernels[0].kernel
    noted(store, kernel, "pad rows of the tile by one element", "improved")
    noted(store, "fp64_fma(double*)", "quite another kernel", "regressed")
    findings = diagnose_bottleneck(store, "h200", kernel="transpose_lds", detail="full").kernels[0].findings
    assert findings[0].tried == ["tried before: 'pad rows of the tile by one element': improved, 2 times as fast"]
    assert not any(f.tried for f in findings[1:])
    noted(store, kernel, "", "regressed", hypothesis="wholly unrelated words")
    assert diagnose_bottleneck(store, "h200", kernel="transpose_lds").kernels[0].findings[0].tried == [
        "tried before: 'wholly unrelated words': regressed, 2 times as fast"
    ]
    assert not diagnose_bottleneck(store, "h200", kernel="transpose_naive").kernels[0].findings[0].tried


def test_mistakes_are_explained(profiles: Store) -> None:
    with pytest.raises(BadInput, match="no counters"):
        diagnose_bottleneck(profiles, "clover")
    with pytest.raises(NotFound):
        diagnose_bottleneck(profiles, "h200", kernel="no_such_kernel")


def test_the_stored_sentence_on_the_application_has_the_digits_of_the_first_one(tmp_path: Path) -> None:
    ms, store, made = 1_000_000, Store(tmp_path), Made()
    for start in range(0, 70 * ms, 7 * ms):
        made.launch("gemm", (start, start + 5_000), (start + 10_000, start + 3_333_333))
    workload = publish(store, made).id
    first, second = (diagnose_bottleneck(store, workload).application for _ in range(2))
    assert list(store.root.glob(f"derived/*/{workload}/application-*.json"))
    assert first is not None and second == first and first.gpu_idle_pct != round(first.gpu_idle_pct, 1)
