"""Two workloads as a whole: fused kernels as groups, other GPUs, other sizes, kernels in one only."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.analysis.comparison.compare import compare
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import flop, launches, workload


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("compared"))


def jittered(time_ns: float, n: int = 10) -> list[float]:
    return [time_ns * (1 + 0.001 * ((7 * i) % 5 - 2)) for i in range(n)]


def test_several_kernels_are_compared_with_one_fused_end_to_end(store: Store) -> None:
    split = [*launches("scale", jittered(1e6), **flop(1e9)), *launches("add", jittered(1e6), **flop(1e9)),
             *launches("relu", jittered(1e6), **flop(1e9)), *launches("copy", jittered(5e5), **flop(0))]  # fmt: skip
    fused = [*launches("fused", jittered(1.5e6), **flop(3e9)), *launches("copy", jittered(5e5), **flop(0))]
    before, after = workload(store, split), workload(store, fused)
    kernels = compare(Workload(store, before), Workload(store, after))
    assert {p.pair.label for p in kernels.pairs} == {"copy", "3 kernels -> fused"}, "without being asked"
    found = compare(Workload(store, before), Workload(store, after), groups={"layer": ["scale|add|relu", "fused"]})
    layer = found.pairs[0]
    assert layer.effect is not None and layer.effect.speedup == pytest.approx(2, rel=0.01)
    assert (layer.verdict, layer.work.answer, layer.rounds) == ("improved", "yes", (10, 10))
    assert layer.effect.low is not None and layer.effect.low > 1.9
    assert found.matching.only_before == found.matching.only_after == []
    assert sum(t.delta_ns for t in layer.terms) == pytest.approx(-1.5e6 * 10, rel=0.01)


def test_groups_launched_in_different_numbers_are_compared_as_whole_profiles(store: Store) -> None:
    before = workload(store, launches("a", jittered(1e6, 12)) + launches("b", jittered(1e6, 12)))
    after = workload(store, launches("ab", jittered(1e6, 10)))
    found = compare(Workload(store, before), Workload(store, after), groups={"ab": ["a|b", "ab"]}).pairs[0]
    assert found.rounds == (1, 1)
    assert found.effect is not None and found.effect.speedup == pytest.approx(24 / 10, rel=0.01)


def test_a_kernel_launched_in_several_sizes_is_compared_size_by_size(store: Store) -> None:
    def mixed(small: float, large: float) -> list[dict[str, float]]:
        rows = [{"grid": 64 * 1024, "duration_ns": t} for t in jittered(small, 30)]
        return [{"kernel": "k", **r} for r in rows + [{"grid": 1024, "duration_ns": t} for t in jittered(large, 10)]]

    found = compare(
        Workload(store, workload(store, mixed(1e6, 9e6))), Workload(store, workload(store, mixed(1e6, 3e6)))
    ).pairs[0]
    assert found.effect is not None and found.effect.speedup == pytest.approx(120 / 60, rel=0.01)
    assert found.effect.n == (10, 10)


def test_products_of_one_target_differ_by_their_units_and_the_same_product_by_nothing(store: Store) -> None:
    rows = launches("k", jittered(1e6))
    small = workload(store, rows, facts={"cu_per_gpu": 104.0}, device="MI210")
    large, same = (workload(store, rows, facts={"cu_per_gpu": 110.0}, device=d) for d in ("MI250X", "AMD MI250X"))
    other = compare(Workload(store, small), Workload(store, large)).other_gpu
    assert other is not None and other.text == "different GPUs (cu_per_gpu 104 and 110)"
    assert compare(Workload(store, large), Workload(store, same)).other_gpu is None


def test_a_renamed_kernel_is_found_by_likeness_and_nothing_else_is_taken(store: Store) -> None:
    before = workload(store, launches("transpose_naive", jittered(2e6)) + launches("transpose_rows", jittered(1e6)))
    after = workload(store, launches("transpose_naive2", jittered(1e6)) + launches("transpose_rows", jittered(1e6)))
    found = compare(Workload(store, before), Workload(store, after), kernel="^transpose_naive$")
    assert [p.pair.after for p in found.pairs] == [("transpose_naive2",)]
    assert found.pairs[0].pair.how in ("similar", "only")
    with pytest.raises(NotFound, match="gemm"):
        compare(Workload(store, before), Workload(store, after), kernel="gemm")


def test_launches_without_a_usable_time_are_no_samples(store: Store) -> None:
    rows = [*launches("k", jittered(1e6)), {"kernel": "k", "duration_ns": None}]
    before, after = workload(store, rows), workload(store, [{"kernel": "k", "duration_ns": None}])
    good = compare(Workload(store, before), Workload(store, before)).pairs[0]
    assert good.effect is not None and good.effect.n == (10, 10)
    bad = compare(Workload(store, before), Workload(store, after)).pairs[0]
    assert (bad.effect, bad.verdict, bad.why) == (None, "inconclusive", "no usable timing on both sides")


def test_many_launches_are_sampled_evenly(store: Store) -> None:
    drifting = [1e6 + 100 * i for i in range(3000)]
    made = workload(store, launches("k", drifting))
    found = compare(Workload(store, made), Workload(store, made)).pairs[0]
    assert found.effect is not None and found.effect.n == (3000, 3000)
    assert found.effect.baseline_ns == pytest.approx(1e6 + 100 * 1500, rel=0.001)


def test_an_unknown_target_is_compared_by_time_alone(store: Store) -> None:
    made = [workload(store, launches("k", jittered(t), SOME_COUNTER=1.0), arch=None) for t in (2e6, 1e6)]
    found = compare(*(Workload(store, m) for m in made)).pairs[0]
    assert (found.verdict, found.work.answer) == ("improved", "unknown")
    assert [t.name for t in found.terms] == ["unexplained"]
