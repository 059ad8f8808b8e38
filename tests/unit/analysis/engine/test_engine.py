"""The engine's rules: aggregation, missing inputs, zero denominators, status, filters, passes."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, BadInput, NotFound
from rooflens.analysis.engine.evaluation import Figure
from rooflens.analysis.store.store import Store
from rooflens.tests.support.comparisons import workload
from rooflens.tests.support.figures import evaluate

FACTS = {"cu_per_gpu": 104.0, "num_xcd": 1.0, "max_sclk": 1700.0, "total_l2_chan": 32.0, "num_hbm_channels": 32.0}


def build(
    root: Path,
    rows: list[dict[str, float | str | None]],
    *,
    arch: str | None = "gfx90a",
    facts: dict[str, float] = FACTS,
) -> Store:
    """A store with one workload; each row names a kernel, a duration and counters."""
    store = Store(root)
    workload(store, rows, arch=arch, facts=facts)
    return store


def dispatch(
    hits: float | None, requests: float | None, *, kernel: str = "k", ns: float | None = 1000.0, **more: float
) -> dict[str, float | str | None]:
    misses = None if hits is None or requests is None else requests - hits
    return {"kernel": kernel, "duration_ns": ns, "TCC_HIT_sum": hits, "TCC_MISS_sum": misses, "TCC_REQ_sum": requests,
            "SQ_WAVES": 64.0, **more}  # fmt: skip


def one(store: Store, name: str, **options: object) -> Figure:
    (figure,) = evaluate(store, "w", [name], **options)  # type: ignore[arg-type]
    return figure


def test_sum_ratio_weighs_dispatches_by_their_work_and_mean_does_not(tmp_path: Path) -> None:
    store = build(tmp_path, [dispatch(90, 100), dispatch(0, 10)])
    assert one(store, "l2.hit_rate_pct").value == pytest.approx(100 * 90 / 110)
    assert one(store, "l2.hit_rate_pct", aggregation="mean").value == pytest.approx(45)
    assert one(store, "l2.hit_rate_pct").n == 2


def test_a_missing_counter_is_null_and_named(tmp_path: Path) -> None:
    figure = one(build(tmp_path, [dispatch(1, 2)]), "l2.write_req")
    assert (figure.value, figure.status) == (None, "not_collected")
    assert str(figure.reason) == "counter TCC_WRITE_sum missing"


def test_the_missing_counter_is_named_as_the_target_spells_it(tmp_path: Path) -> None:
    figure = one(build(tmp_path, [dispatch(1, 2)], arch="gfx942"), "fabric.read_latency_cycles")
    assert "TCC_EA0_RDREQ" in str(figure.reason)


def test_a_zero_denominator_is_null_with_a_reason_and_zero_is_not_null(tmp_path: Path) -> None:
    empty, zero = (
        one(build(tmp_path / "a", [dispatch(0, 0)]), "l2.hit_rate_pct"),
        one(build(tmp_path / "b", [dispatch(0, 5)]), "l2.hit_rate_pct"),
    )
    assert (empty.value, empty.status) == (None, "undefined")
    assert empty.reason is not None and empty.reason.code == "nothing_there"
    assert empty.reason.text == f"the denominator is zero in all dispatches: {empty.metric.den}"
    assert (zero.value, zero.status) == (0.0, "ok")


def test_a_dispatch_without_timing_has_no_rate_but_the_others_do(tmp_path: Path) -> None:
    figure = one(build(tmp_path, [dispatch(1, 100, ns=None), dispatch(1, 100)]), "l2.bw_gbs")
    assert figure.value == pytest.approx(12.8)
    assert figure.n == 1


def test_above_100_percent_is_reported_not_clamped(tmp_path: Path) -> None:
    store = build(tmp_path, [dispatch(1, 100, GRBM_GUI_ACTIVE=100.0, TCC_BUSY_sum=50_000.0, TCC_CYCLE_sum=1000.0)])
    figure = one(store, "l2.utilization_pct")
    assert figure.value is not None and figure.value > 100
    assert figure.status == "impossible" and "limit" in str(figure.reason)


def test_a_negative_count_is_impossible(tmp_path: Path) -> None:
    store = build(tmp_path, [{**dispatch(1, 2), "TCC_REQ_sum": -5.0}])
    assert one(store, "l2.req").status == "impossible"


def test_an_unknown_clock_leaves_the_value_and_takes_the_peak(tmp_path: Path) -> None:
    facts = {k: v for k, v in FACTS.items() if k != "max_sclk"}
    figure = one(
        build(tmp_path, [dispatch(1, 100, TCP_TOTAL_CACHE_ACCESSES_sum=100.0)], facts=facts), "vl1d.sol_bw_gbs"
    )
    assert figure.value is not None and figure.peak is None and figure.pct_of_peak is None
    assert "max_sclk" in str(figure.reason)


@pytest.mark.parametrize(("normalization", "den", "unit"), [
    ("per_kernel", 1, "req/kernel"), ("per_wave", 64, "req/wave"), ("per_cycle", 500, "req/cycle"),
    ("per_second", 1e-6, "req/s")])  # fmt: skip
def test_each_normalisation_divides_by_its_own_count(tmp_path: Path, normalization: str, den: float, unit: str) -> None:
    store = build(tmp_path, [dispatch(1, 100, GRBM_GUI_ACTIVE=500.0)])
    figure = one(store, "l2.req", normalization=normalization)
    assert (figure.value, figure.unit) == (pytest.approx(100 / den), unit)


def test_by_kernel_orders_by_total_time_and_rank_selects(tmp_path: Path) -> None:
    store = build(
        tmp_path, [dispatch(1, 100, kernel="short(int)", ns=10.0), dispatch(1, 300, kernel="long(int)", ns=99.0)]
    )
    found = evaluate(store, "w", ["l2.req"], by_kernel=True)
    assert [(f.kernel, f.value) for f in found] == [("long(int)", 300.0), ("short(int)", 100.0)]
    assert one(store, "l2.req", kernel="#2").value == 100.0
    assert one(store, "l2.req", kernel="sho.t").value == 100.0
    assert one(store, "l2.req", kernel="long(int)").value == 300.0, "a full name is taken as it is, not as a pattern"


def test_dispatches_are_chosen_by_id_as_list_or_text(tmp_path: Path) -> None:
    store = build(tmp_path, [dispatch(1, n) for n in (10, 20, 30, 40)])
    assert one(store, "l2.req", dispatches=[1, 3]).value == 30.0
    assert one(store, "l2.req", dispatches="0,2-3").value == pytest.approx(80 / 3)


@pytest.mark.parametrize(("options", "text"), [
    ({"kernel": "nothing"}, "No kernel of 'w' matches"), ({"kernel": "#9"}, "rank #9"),
    ({"kernel": "a("}, "not a valid regular expression"), ({"dispatches": [99]}, "No dispatch"),
    ({"dispatches": "1;2"}, "cannot be read"), ({"dispatches": []}, "empty"),
    ({"normalization": "per_day"}, "per_kernel"), ({"aggregation": "median"}, "sum_ratio or mean")])  # fmt: skip
def test_bad_selections_say_what_is_allowed(tmp_path: Path, options: dict[str, object], text: str) -> None:
    store = build(tmp_path, [dispatch(1, 2)])
    with pytest.raises((BadArgument, NotFound), match=text.replace("(", r"\(")):
        evaluate(store, "w", ["l2.req"], **options)  # type: ignore[arg-type]


def test_a_metric_of_another_target_says_where_it_exists(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="gfx950"):
        evaluate(build(tmp_path, [dispatch(1, 2)]), "w", ["l2.bypass_req"])


def test_a_profile_without_a_known_gpu_asks_for_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="gpu="):
        evaluate(build(tmp_path, [dispatch(1, 2)], arch=None), "w", ["l2.req"])


def test_a_level_metric_takes_both_parts_from_its_own_pass(tmp_path: Path) -> None:
    level = {"SQ_INST_LEVEL_VMEM_ACCUM": 900.0, "SQ_INSTS_VMEM@SQ_INST_LEVEL_VMEM": 10.0, "SQ_INSTS_VMEM": 12.0}
    assert one(build(tmp_path, [dispatch(1, 2, **level)]), "latency.vmem_cycles").value == pytest.approx(90)


def test_any_float_in_a_counter_gives_valid_json(tmp_path: Path) -> None:
    from rooflens.tools.compute_metrics import compute_metrics
    from rooflens.tools.rendering import render

    odd = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7976931348623157e308, -1e308)
    pairs = itertools.product(odd, odd)
    store = build(tmp_path, [dispatch(hits, asked, kernel=f"k{i}") for i, (hits, asked) in enumerate(pairs)])
    wanted = ["l2.hit_rate_pct", "l2.req", "l2.bw_gbs"]
    result = render.structured_content(compute_metrics(store, "w", wanted, by_kernel=True, detail="full", limit=200))
    assert result["table"]["total_rows"] == len(wanted) * len(odd) ** 2
    assert json.loads(json.dumps(result, allow_nan=False))


def test_a_profile_without_device_facts_says_which_one_a_figure_needs(tmp_path: Path) -> None:
    row = dispatch(90, 100, SQ_BUSY_CU_CYCLES=100.0, GRBM_GUI_ACTIVE=50.0)
    store = build(tmp_path, [row], facts={})
    figure = one(store, "occupancy.sol_active_cus")
    assert (figure.value, figure.status) == (None, "not_collected")
    assert figure.reason and figure.reason.code == "no_fact" and "cu_per_gpu" in figure.reason.text


def test_zero_where_the_numerator_is_missing_is_not_collected(tmp_path: Path) -> None:
    row = dispatch(0, 0) | {"TCC_HIT_sum": None}
    (figure,) = evaluate(build(tmp_path, [row]), "w", ["l2.hit_rate_pct"])
    assert (figure.value, figure.status) == (None, "not_collected")
