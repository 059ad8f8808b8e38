"""Regular expressions of callers: quick whatever they are, and told what is wrong with them."""

from __future__ import annotations

import pytest

from rooflens.analysis.base import kernel_names
from rooflens.analysis.base.kernel_names import PATTERN_LENGTH, matching, select_names
from rooflens.analysis.base.problems import BadArgument, LimitExceeded, NotFound, near
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.waiting import at_most
from rooflens.tools.compute_metrics import compute_metrics

NAMES = ["void gemm<float, 64>(float*, int)", "copy(double const*, double*) [tail]", "_Z4axpyPfS_f", "naïve"]


def test_a_pattern_is_searched_anywhere_in_the_name_and_keeps_the_order() -> None:
    assert matching("", NAMES) == NAMES
    assert matching("gemm|axpy", NAMES) == [NAMES[0], NAMES[2]]
    assert matching(r"^copy\(.*\] *$|(?i)NAÏVE", NAMES) == [NAMES[1], NAMES[3]]
    assert matching("absent", NAMES) == matching("x", []) == []


TENTHS = [
    "kernel_10(float*)",
    "kernel_1(float*) [clone .kd]",
    "void ns::kernel_2<4, float>(int)",
    "kernel_12",
    "ns::kernel_20(int)",
]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("kernel_1", [1]),
        ("kernel_12", [3]),
        ("ns::kernel_2", [2]),
        ("kernel_2|kernel_1", [1, 2]),
        ("kernel_1,kernel_2", [1, 2]),
        ("kernel_1.", [0, 1, 3]),
        ("kernel_(1|2)", [0, 1, 2, 3, 4]),
        ("kernel", [0, 1, 2, 3, 4]),
        ("kernel_1,absent", []),
    ],
)
def test_an_exact_name_is_no_pattern_alone_or_among_alternatives(written: str, meant: list[int]) -> None:
    assert select_names(written, TENTHS) == [TENTHS[i] for i in meant]


def test_a_short_name_of_several_kernels_is_a_pattern() -> None:
    names = ["gemm<float>(float*)", "gemm<double>(double*)", "gemm_tail(float*)"]
    assert select_names("gemm", names) == names
    assert select_names("gemm<float>", names) == names[:1]


@pytest.mark.parametrize("pattern", ["(.|.|.)*!Z", r"(\w+[ ,*]*)+\)x", "(.*)(.*)(.*)(.*)(.*)=!"])
def test_patterns_that_backtrack_for_ever_answer_at_once(samples: Store, pattern: str) -> None:
    names = [f"{'a' * 60}(float const*, {'int, ' * 20}{i})" for i in range(500)]
    with at_most(2):
        assert matching(pattern, names) == []
    with at_most(2), pytest.raises(NotFound, match="No kernel"):
        compute_metrics(samples, "yax_before", kernel=pattern)


def test_a_pattern_that_is_slow_on_much_text_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_names, "_MOST_S", 0.001)
    names = ["ab" * 2000 + str(i) for i in range(1000)]
    with pytest.raises(LimitExceeded, match="takes too long.*of 1000 names"):
        matching("(((a|b)?){30}){30}c", names)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(?=void)", r"\(\?="),
        ("(?<!x)y", r"\(\?<"),
        (r"(a)\1", r"\\1"),
        ("(", "missing"),
        ("[z-a]", "z-a"),
        ("\ud800", "surrogate"),
        ("(" * 2000 + ")" * 2000, f"4,000 characters, and a regular expression may have {PATTERN_LENGTH}"),
        ("x" * 10_000_000, "10,000,000 characters"),
    ],
)
def test_what_cannot_be_used_is_named(pattern: str, told: str) -> None:
    with pytest.raises(BadArgument, match=told) as caught:
        matching(pattern, NAMES)
    assert len(caught.value.text) < 1000


def test_an_exact_name_may_be_longer_than_a_pattern() -> None:
    long = "k(" + "int, " * 700 + "int)"
    workload = Workload(Store("nowhere"), None)  # type: ignore[arg-type]
    assert workload._kernels_named(long, ["other", long]) == [long]


def test_near_names_of_huge_texts_and_many_names_cost_no_time() -> None:
    with at_most(3):
        assert near("gem", ["gemm", "copy"]) == "Near names: gemm"
        near("x" * 60_000_000, ["x" * 1000 + str(i) for i in range(50)])
        near("x" * 100, ["y" * 60_000_000, "x"])
        near("abcdefgh" * 20, ("hgfedcba" * 20 + str(i) for i in range(200_000)))
