"""Versions that are faster because they do less are contradicted by their profiles; honest changes never are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rooflens.analysis.comparison.claims import ResultClaim, contradicted_claims, judge_claims
from rooflens.analysis.comparison.compare import compare
from rooflens.analysis.comparison.experiment_log import entries
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import flop, launches, opened, traffic, workload
from rooflens.tests.support.figures import sql_rows
from rooflens.tools.compare_workloads import compare_workloads

REQUESTS = {"TCP_TOTAL_ACCESSES_sum": 1e9, "SQ_INSTS_VMEM": 1e7, "TCP_TOTAL_WRITE_sum": 2e8}
STORED = {"TCC_EA_WRREQ_sum": 4e6, "TCC_EA_WRREQ_64B_sum": 4e6, "TCC_ATOMIC_sum": 0.0}
WORK = flop(1e10) | REQUESTS | traffic(1) | STORED
"""At 2 ms: 5 TFLOP/s and 500 GB/s, which an MI250X can do in half of the time."""

BASELINE: dict[str, Any] = {"rows": launches("k", [2e6] * 6, **WORK), "name": "baseline", "command": "./v0 -n 8"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("claims"))
    opened(made, **BASELINE)
    return made


def judged(
    store: Store,
    counters: Mapping[str, float] = WORK,
    *,
    kernel: str = "k",
    times: int = 6,
    ms: float = 1.0,
    arguments: str = "-n 8",
    **launch: int,
) -> dict[str, ResultClaim]:
    """The claims of a version against a baseline of six launches of ``k`` that take 2 ms each."""
    rows: list[dict[str, Any]] = [row | launch for row in launches(kernel, [ms * 1e6] * times, **counters)]
    after = workload(store, rows, command=f"./v1 {arguments}")
    comparison = compare(opened(store, **BASELINE), Workload(store, after))
    return {claim.claim: claim for claim in judge_claims(comparison)}


def halves(counters: Mapping[str, float]) -> dict[str, float]:
    """The same operations as FP16 instead of FP64."""
    return {**counters, "SQ_INSTS_VALU_ADD_F64": 0.0, "SQ_INSTS_VALU_ADD_F16": 1e10 / 64}


UNWRITTEN = {"TCP_TOTAL_WRITE_sum": 10.0, "TCC_EA_WRREQ_sum": 50.0, "TCC_EA_WRREQ_64B_sum": 50.0}
LIBRARY = "Cijk_Ailk_Bljk_DB_MT64x64x16_MI16x16x4x1_SN"
CHEATS: dict[str, tuple[str, dict[str, Any]]] = {
    "a tenth of the operations": ("same_work", {"counters": {**WORK, **flop(1e9)}}),
    "FP16 instead of FP64": ("same_types", {"counters": halves(WORK)}),
    "nothing is written": ("output_written", {"counters": {**WORK, **UNWRITTEN}}),
    "results of the first call are kept": ("every_call_works", {"times": 1}),
    "the time does not contain the work": ("possible_rates", {"ms": 0.01}),
    "more LDS than there is": ("existing_lds", {"lds_bytes": 1 << 20}),
}
HONEST: dict[str, dict[str, Any]] = {
    "a quarter of the requests by wider loads": {"counters": {**WORK, **{n: v / 4 for n, v in REQUESTS.items()}}},
    "tiles in LDS": {"counters": {**WORK, "TCP_TOTAL_ACCESSES_sum": 1e8, "SQ_INSTS_VMEM": 1e6}, "lds_bytes": 32768},
    "half of the launches, each with twice the work": {
        "counters": {n: 2 * v for n, v in WORK.items()}, "times": 3, "ms": 2.0,
    },
    "results by atomics": {"counters": {**WORK, **UNWRITTEN, "TCC_ATOMIC_sum": 1e6}},
    "results by other units than those of stores": {"counters": {**WORK, "TCP_TOTAL_WRITE_sum": 0.0}},
    "fewer rounds, as the command says": {"times": 3, "arguments": "-n 4"},
}  # fmt: skip


@pytest.mark.parametrize(("claim", "version"), CHEATS.values(), ids=CHEATS.keys())
def test_a_version_that_cheats_is_contradicted_claims(store: Store, claim: str, version: dict[str, Any]) -> None:
    claims = judged(store, **version)
    assert claims[claim].verdict == "contradicted", claims


@pytest.mark.parametrize("version", HONEST.values(), ids=HONEST.keys())
def test_an_honest_version_is_not_accused(store: Store, version: dict[str, Any]) -> None:
    claims = judged(store, **version)
    assert contradicted_claims(list(claims.values())) == [] and claims["own_kernels"].verdict == "holds"


def test_a_slower_library_that_is_launched_more_often_is_named_and_not_accused(store: Store) -> None:
    claims = judged(store, kernel=LIBRARY, times=12, ms=3.0)
    assert contradicted_claims(list(claims.values())) == []
    assert claims["own_kernels"].verdict == "not_shown" and "library of the vendor" in claims["own_kernels"].why
    assert all(sql_rows(store, claim.sql) for claim in claims.values()), "over both versions"


def claims_of(store: Store, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, ResultClaim]:
    """The claims of a version against another, of ``k`` in 2 and in 1 ms unless the rows are given."""
    made = [
        opened(store, **{"name": name, "rows": launches("k", [ms * 1e6] * 6, **WORK), **side})
        for name, ms, side in (("before", 2, before), ("after", 1, after))
    ]
    comparison = compare(*made)
    return {claim.claim: claim for claim in judge_claims(comparison)}


RUN = ("kernel", "k", 0, 1_000_000)
WAITED = [RUN, ("sync", "hipDeviceSynchronize", 10_000, 1_010_000)]
ENDS_LATE = [RUN, ("sync", "hipEventSynchronize", 10_000, 200_000)]
COPIED = [("sync", "hipEventSynchronize", -9_000, -5_000), RUN, ("copy", "hipMemcpyDtoH", 1_000_000, 1_020_000)]
PIPELINE = [
    RUN, ("kernel", "k", 100_000, 1_900_000), ("sync", "hipStreamSynchronize", 20_000, 1_000_500),
    ("sync", "hipDeviceSynchronize", 1_100_000, 1_900_500),
]  # fmt: skip


def test_work_that_ends_after_everything_that_is_waited_for_is_contradicted(store: Store) -> None:
    told = claims_of(store, {"events": WAITED}, {"events": ENDS_LATE})["waits_for_its_work"]
    assert told.verdict == "contradicted" and sql_rows(store, told.sql)


def test_a_copy_to_the_host_waits_and_a_pipeline_of_streams_is_not_accused(store: Store) -> None:
    assert claims_of(store, {"events": WAITED}, {"events": COPIED})["waits_for_its_work"].verdict == "holds"
    told = claims_of(store, {"events": WAITED}, {"events": PIPELINE})["waits_for_its_work"]
    assert told.verdict == "not_shown" and "time the whole program" in told.why
    assert claims_of(store, {"events": PIPELINE}, {"events": PIPELINE})["waits_for_its_work"].verdict == "holds"


def harness(ms: float, name: str = "reference") -> list[dict[str, Any]]:
    return [*launches("k", [1e6] * 6, **WORK), *launches(name, [ms * 1e6] * 6, **WORK)]


def test_a_slower_harness_is_contradicted_only_where_a_filter_says_what_the_harness_is(store: Store) -> None:
    filtered = {"kernel_filter": "^k$"}
    slower = claims_of(store, {"rows": harness(0.3), **filtered}, {"rows": harness(0.9), **filtered})["same_harness"]
    assert slower.verdict == "contradicted" and "reference" in slower.why
    assert claims_of(store, {"rows": harness(0.3)}, {"rows": harness(0.9)})["same_harness"].verdict == "not_shown"
    warm = claims_of(store, {"rows": harness(0.3), **filtered}, {"rows": harness(0.33), **filtered})["same_harness"]
    assert warm.verdict == "holds"


def test_less_than_the_stated_work_is_contradicted_and_the_baseline_may_state_it(store: Store) -> None:
    """Six launches of 1 GB and 1e10 operations."""
    stated = ["work.bytes=6e9", "work.flop=6e10"]
    assert claims_of(store, {}, {"tags": stated})["stated_work"].verdict == "holds"
    few = launches("k", [1e6] * 6, **{**WORK, **flop(1e9)})
    told = claims_of(store, {"tags": stated}, {"rows": few})["stated_work"]
    assert told.verdict == "contradicted" and "flop" in told.why
    empty = launches("k", [1e6] * 6, **{**WORK, **traffic(0.1)})
    assert claims_of(store, {"tags": ["work.bytes=6e9"]}, {"rows": empty})["stated_work"].verdict == "contradicted"
    assert "stated_work" not in claims_of(store, {"tags": ["v2"]}, {})


def test_a_kernel_that_vanishes_without_a_successor_is_told_but_not_accused(store: Store) -> None:
    both = [*launches("k", [2e6] * 6, **WORK), *launches("sum", [1e5] * 6, **WORK)]
    told = claims_of(store, {"rows": both}, {"rows": launches("sum", [1e5] * 6, **WORK)})["launches_kernels"]
    assert told.verdict == "not_shown" and told.why.startswith("k is no longer launched")
    assert "launches_kernels" not in claims_of(store, {"rows": both}, {"rows": both})


def test_fused_kernels_whose_results_are_kept_are_contradicted(store: Store) -> None:
    three = [row for name in ("a", "b", "c") for row in launches(name, [1e6] * 6, **WORK)]
    fused = {name: 3 * value for name, value in WORK.items()}
    made = [
        opened(store, three, command="./v0 -n 8"),
        opened(store, launches("abc", [2e6], **fused), command="./v1 -n 8"),
        opened(store, launches("abc", [2e6] * 6, **fused), command="./v1 -n 8"),
    ]
    group = {"abc": ["a|b|c", "abc"]}
    for after, verdict in ((made[1], "contradicted"), (made[2], "holds")):
        comparison = compare(made[0], after, groups=group)
        claims = {claim.claim: claim for claim in judge_claims(comparison)}
        assert claims["every_call_works"].verdict == verdict, claims


def test_what_a_profile_contradicts_is_said_first_and_not_called_improved(store: Store) -> None:
    after = workload(store, launches("k", [1e6] * 6, **halves(WORK)), command="./v1 -n 8")
    result = compare_workloads(store, "baseline", after.id, detail="full", change="halves")
    assert result.answer and result.answer.startswith("The profile contradicts same_types: operations have 16 bits")
    assert result.verdict == "inconclusive"
    assert "Not to be published" in result.answer and "May be" not in result.answer
    assert result.claims is not None and ["same_types", "contradicted"] in [row[:2] for row in result.claims.rows]
    (outcome,) = entries(store)[-1].outcomes
    assert outcome.verdict == "inconclusive" and "bits" in outcome.why and outcome.speedup == pytest.approx(2)
