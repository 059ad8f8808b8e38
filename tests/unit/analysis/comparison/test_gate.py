"""The gate: fails what is slower for certain, passes what is not, and says where it cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.comparison.gate import PROGRAM, Gate, Item, gate
from rooflens.analysis.comparison.gate_limits import GateLimits, limits, metric_limit, percent
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.comparisons import launches, traffic, workload
from rooflens.tests.unit.analysis.comparison.gate_rates import Noise, of_recordings, simulated

THREE = limits()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def times(ns: float, n: int = 40, noise: float = 0.004, seed: int = 0) -> list[float]:
    """Run times around ``ns``."""
    return list(ns * np.exp(np.random.default_rng(seed).normal(0, noise, n)))


def made(store: Store, kernels: dict[str, Sequence[float]], **stated: Any) -> Manifest:
    return workload(store, [row for name, spent in kernels.items() for row in launches(name, spent)], **stated)


def decided(store: Store, before: Manifest, after: Manifest, allowed: GateLimits = THREE) -> Gate:
    return gate([Workload(store, before)], [Workload(store, after)], allowed)


def item(found: Gate, name: str) -> Item:
    return next(i for i in found.items if i.name == name)


def test_nothing_changed_passes_and_five_percent_fail_kernel_and_program(store: Store) -> None:
    before = made(store, {"a": times(1e6), "b": times(5e5, seed=1)})
    assert decided(store, before, made(store, {"a": times(1.01e6, seed=2), "b": times(5e5, seed=3)})).verdict == "pass"
    found = decided(store, before, made(store, {"a": times(1.05e6, seed=4), "b": times(5e5, seed=5)}))
    assert (found.verdict, item(found, "a").code, item(found, "b").status) == ("fail", "beyond", "pass")
    assert item(found, "a").change == pytest.approx(0.05, abs=0.005)
    assert item(found, PROGRAM).status in ("fail", "pass") and item(found, PROGRAM).change == pytest.approx(
        0.033, abs=0.005
    )


def test_a_smaller_limit_than_the_noise_is_inconclusive(store: Store) -> None:
    before, after = made(store, {"a": times(1e6)}), made(store, {"a": times(1.01e6, seed=1)})
    narrow = decided(store, before, after, limits(max_regression="0.5%"))
    assert narrow.verdict == "inconclusive" and item(narrow, "a").code == "uncertain"
    same = decided(store, before, made(store, {"a": times(1e6, seed=2)}), limits(max_regression="0.5%"))
    assert item(same, "a").code == "noise"


def test_a_few_noisy_launches_decide_nothing_unless_far_apart(store: Store) -> None:
    before = made(store, {"a": [1e6, 1.02e6]})
    assert item(decided(store, before, made(store, {"a": [1.01e6, 1e6]})), "a").code == "noise"
    assert item(decided(store, before, made(store, {"a": [1.09e6, 1.1e6]})), "a").code == "uncertain"
    assert item(decided(store, before, made(store, {"a": [2e6, 2.1e6]})), "a").status == "fail"
    assert item(decided(store, before, made(store, {"a": [5e5, 5.1e5]})), "a").status == "pass"


def test_pooled_runs_decide_what_one_run_cannot(store: Store) -> None:
    def runs(ns: float, first: int) -> list[Workload]:
        return [Workload(store, made(store, {"a": times(ns, seed=first + i)})) for i in range(3)]

    allowed = limits(max_regression="1.5%")
    before, same, slower = runs(1e6, 0), runs(1e6, 10), runs(1.02e6, 20)
    assert gate(before[:1], same[:1], allowed).verdict == "inconclusive"
    assert gate(before, same, allowed).verdict == "pass"
    found = gate(before, slower, allowed)
    assert found.verdict == "fail" and item(found, "a").launches == (120, 120)


def test_runs_of_other_programs_or_gpus_are_not_pooled(store: Store) -> None:
    stated = {"arch": "gfx90a", "device": "A", "format": "test", "command": "./app"}
    one, candidate = (Workload(store, made(store, {"a": times(1e6, seed=i)}, **stated)) for i in range(2))
    for other in ({"device": "B"}, {"command": "./other"}):
        strange = Workload(store, made(store, {"a": times(1e6, seed=9)}, **{**stated, **other}))
        for sides in (([one, strange], [candidate]), ([candidate], [one, strange])):
            with pytest.raises(BadArgument, match="not runs of one program"):
                gate(*sides, THREE)


def test_a_program_that_launches_twice_as_often_fails_though_no_launch_is_slower(store: Store) -> None:
    before, after = made(store, {"a": times(1e6)}), made(store, {"a": times(1e6, n=80, seed=1)})
    found = decided(store, before, after)
    assert (item(found, PROGRAM).status, item(found, "a").status) == ("fail", "pass")
    assert item(found, PROGRAM).change == pytest.approx(1, abs=0.01)


def test_a_pass_by_a_launch_of_half_the_size_is_told_where_nothing_counts_the_work(store: Store) -> None:
    before = made(store, {"a": times(1e6), "b": times(1e6)})
    half = [{**row, "grid": 32768} for row in launches("a", times(5e5, seed=1))]
    found = decided(store, before, workload(store, [*half, *launches("b", times(1e6, seed=2))]))
    told = [note.text for note in found.notes if note.code == "other_sizes"]
    assert len(told) == 1 and told[0].endswith(": a (65536 -> 32768 work-items).")
    assert "other_sizes" not in [note.code for note in decided(store, before, made(store, {"a": times(1e6)})).notes]


def test_other_work_gpu_profiler_and_clock_are_no_verdict(store: Store) -> None:
    @cache
    def one(ns: float, gb: float = 1, mhz: float | None = None, **stated: Any) -> Manifest:
        sampled = [{"t_ns": i, "step": "timing", "device_uuid": "u", "clock_mhz": mhz, "memory_clock_mhz": None,
                    "power_w": None, "temperature_c": None, "busy_pct": 100.0, "held_back": None}
                   for i in range(5 if mhz else 0)]  # fmt: skip
        rows = launches("a", times(ns), **traffic(gb), SQ_INSTS_VMEM=gb * 1e6)
        return workload(store, rows, samples=sampled, **stated)

    def code(before: Manifest, after: Manifest) -> str:
        found = decided(store, before, after)
        assert found.verdict == "inconclusive"
        return item(found, "a").code

    assert code(one(1e6), one(1.2e6, gb=4)) == "other_work"
    assert code(one(1e6), one(1.2e6, arch="gfx942")) == "other_gpu"
    assert code(one(1e6), one(1.2e6, format="other")) == "other_profiler"
    assert code(one(1e6, mhz=1700), one(1.2e6, mhz=1500)) == "clocks"
    assert code(one(1e6, mhz=1500), one(1e6, mhz=1700)) == "clocks"
    assert decided(store, one(1e6, mhz=1700), one(1e6, mhz=1500)).verdict == "pass", "slower clock, no slower kernel"
    assert decided(store, one(1e6, mhz=1500), one(1.2e6, mhz=1700)).verdict == "fail", "faster clock, slower kernel"


def test_new_vanished_small_and_ignored_kernels_are_named_and_do_not_decide(store: Store) -> None:
    before = made(store, {"a": times(1e6), "gone": times(1e5), "tiny": times(1e3), "warm_up": times(5e5)})
    after = made(store, {"a": times(1e6, seed=1), "fresh": times(1e5, seed=2), "tiny": times(3e3, seed=3),
                         "warm_up": times(9e5, seed=4)})  # fmt: skip
    file = store.root / "limits.toml"
    file.write_text('total = "50%"\n[[kernel]]\npattern = "^warm"\nignore = true\n')
    found = decided(store, before, after, limits(file))
    states = {i.name: (i.status, i.code) for i in found.items}
    assert states["gone"] == ("vanished", "vanished") and states["fresh"] == ("new", "new")
    assert states["tiny"] == ("ignored", "small") and states["warm_up"] == ("ignored", "ignored")
    assert found.verdict == "pass"


def test_a_program_that_lost_most_of_its_kernels_does_not_pass(store: Store) -> None:
    before = made(store, {"solve": times(1e6), "reduce": times(3e5), "copy": times(1e4)})
    crashed = made(store, {"copy": times(1e4, seed=1), "abort": times(1e3)})
    found = decided(store, before, crashed)
    assert (found.verdict, item(found, PROGRAM).code) == ("inconclusive", "other_kernels")
    assert "99% of the baseline's time" in item(found, PROGRAM).why
    file = store.root / "limits.toml"
    file.write_text('[[group]]\nname = "g"\nbaseline = "solve|reduce"\ncandidate = "fused"\n')
    fused = made(store, {"fused": times(1e6, seed=2), "copy": times(1e4, seed=3)})
    assert decided(store, before, fused, limits(file)).verdict == "pass", "a group is a counterpart"


def test_a_small_kernel_that_grew_large_is_judged(store: Store) -> None:
    before = made(store, {"a": times(1e6), "b": times(2e3)})
    found = decided(store, before, made(store, {"a": times(1e6, seed=1), "b": times(4e5, seed=2)}))
    assert item(found, "b").status == "fail"


def test_limits_of_kernels_groups_and_metrics(store: Store) -> None:
    def one(scale: float, gb: float) -> Manifest:
        rows = launches("gemm", times(1e6 * scale), **traffic(0.1 * gb), SQ_WAVES=1e3)
        rows += launches("attn_qk", times(4e5 * scale), **traffic(0.1), SQ_WAVES=1e3)
        return workload(store, rows + launches("attn_pv", times(4e5), **traffic(0.1), SQ_WAVES=1e3))

    file = store.root / "limits.toml"
    file.write_text(
        'max_regression = "3%"\ntotal = "20%"\nmetrics = {"hbm.bytes_per_wave" = "+10%"}\n'
        '[[kernel]]\npattern = "^gemm"\nmax_regression = "10%"\n'
        '[[group]]\nname = "attention"\nbaseline = "^attn"\nmax_regression = "5%"\n'
    )
    found = decided(store, one(1, 1), one(1.08, 1.15), limits(file))
    by = {(i.kind, i.name, i.metric): i for i in found.items}
    assert by["kernel", "gemm", None].status == "pass"
    assert by["kernel", "attn_qk", None].status == "fail"
    assert by["group", "attention", None].status == "pass"
    assert by["metric", "gemm", "hbm.bytes_per_wave"].status == "fail"
    assert by["metric", "attn_qk", "hbm.bytes_per_wave"].status == "pass"


def states_of(store: Store, before: Manifest, after: Manifest, *allowed: str) -> list[tuple[str, str]]:
    """What is said of metrics with these limits."""
    found = decided(store, before, after, limits(metrics=allowed))
    return [(i.status, i.code) for i in found.items if i.kind == "metric"]


def test_metrics_pass_fail_and_are_inconclusive_where_nothing_counted_them(store: Store) -> None:
    def one(gb: float) -> Manifest:
        return workload(store, launches("a", times(1e6), **traffic(gb), SQ_WAVES=100 * gb))

    sides, metric = (one(1), one(1.15)), "hbm.read_bw_gbs"
    allowed = [f"{metric}=+20%", f"{metric}=+10%", f"{metric}=-1%", "l2.hit_rate_pct=-2"]
    assert states_of(store, *sides, *allowed) == [
        ("pass", "within"), ("fail", "beyond"), ("pass", "within"), ("inconclusive", "no_figure"),
    ]  # fmt: skip
    with pytest.raises(BadArgument, match="matches 0 metrics|no metric|Unknown"):
        states_of(store, *sides, "nonsense.name=+1%")


def test_a_rise_from_zero_is_within_no_percentage(store: Store) -> None:
    before, after = (workload(store, launches("a", times(1e6), **traffic(gb), SQ_WAVES=100)) for gb in (0, 1e-11))
    allowed = [f"hbm.bytes_per_wave={limit}" for limit in ("+5%", "+5", "+0%", "-5%")]
    assert states_of(store, before, after, *allowed) == [
        ("inconclusive", "from_zero"), ("pass", "within"), ("fail", "beyond"), ("pass", "within"),
    ]  # fmt: skip


def test_many_noisy_kernels_are_judged_together(store: Store) -> None:
    """What is beyond doubt of one kernel alone is not, of the most conspicuous of thirty."""
    names = [f"k{i}" for i in range(30)]
    before = made(store, {n: times(1e6, 8, 0.03, i) for i, n in enumerate(names)})
    changed = {n: times(1e6 * (1.05 if n == "k3" else 1), 8, 0.03, 50 + i) for i, n in enumerate(names)}
    assert item(decided(store, before, made(store, changed)), "k3").code == "uncertain"
    alone = decided(store, made(store, {"k3": times(1e6, 8, 0.03, 3)}), made(store, {"k3": changed["k3"]}))
    assert item(alone, "k3").status == "fail"
    changed["k3"] = [2 * t for t in changed["k3"]]
    assert item(decided(store, before, made(store, changed)), "k3").status == "fail", "twice as slow is no noise"


def test_the_whole_program_is_all_of_its_kernels_however_short_each_is(store: Store) -> None:
    # Every tenth is a fifth slower and one in seven a tenth faster: the longest of each side would be others.
    spent = {f"k{i}": 1e6 + 100 * i for i in range(140)}
    factor = {name: 1.2 if i % 10 == 0 else 0.9 if i % 7 == 0 else 1.0 for i, name in enumerate(spent)}
    before = made(store, {name: times(ns, n=6, seed=i) for i, (name, ns) in enumerate(spent.items())})
    after = {name: times(ns * factor[name], n=6, seed=500 + i) for i, (name, ns) in enumerate(spent.items())}
    found = decided(store, before, made(store, after))
    truth = sum(ns * factor[name] for name, ns in spent.items()) / sum(spent.values()) - 1
    program = item(found, PROGRAM)
    assert 0 < truth < 0.015 and program.change == pytest.approx(truth, abs=0.003) and program.status == "pass"


def test_a_workload_on_both_sides_is_refused(store: Store) -> None:
    one = made(store, {"a": times(1e6)})
    with pytest.raises(BadArgument, match="on both sides"):
        decided(store, one, one)


@pytest.mark.parametrize("text", ["3", "-1%", "nan%", "1e3%", "", "9999%", "１%"])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="is not a limit"):
        percent(text)


def test_percentages_and_limits_of_metrics_are_read() -> None:
    assert (percent("3%"), percent(" 2.5 % "), percent("0%")) == (0.03, 0.025, 0.0)
    assert str(metric_limit("hbm.bytes=+5%")) == "hbm.bytes +5 %"
    assert str(metric_limit("l2.hit_rate_pct = -2")) == "l2.hit_rate_pct -2"
    assert metric_limit("x=-0%").down
    for text in ("x", "x=5%", "=+5%", "x=+", "x=+nan", "x=+1e9"):
        with pytest.raises(BadArgument, match="not a limit of a metric"):
            metric_limit(text)


@pytest.mark.parametrize(
    "text",
    [
        "max_regression = 3",
        'max_regresion = "3%"',
        "x = ",
        '[[kernel]]\npattern = "a"\nignore = true\nmax_regression = "1%"',
        "a = " + "[" * 5000,
        "[[group]]\nname = 'g'",
        "\xff",
    ],
)
def test_a_wrong_file_of_limits_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadArgument):
        limits(file)
    with pytest.raises(BadArgument, match="cannot be read"):
        limits(tmp_path)


def test_a_misspelt_key_of_a_file_of_limits_gets_near_names(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('[[kernel]]\npattern = "a"\nmax_regresion = "1%"\n')
    with pytest.raises(
        BadArgument, match=r"kernel\.0\.max_regresion: there is no such key. Near names: max_regression"
    ):
        limits(file)


def test_the_command_line_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('max_regression = "7%"\nmin_share = "2%"\ntotal = "9%"\n')
    read, over = limits(file), limits(file, max_regression="1%", total="2%", min_share="3%")
    assert (read.max_regression, read.total, read.min_share) == (0.07, 0.09, 0.02)
    assert (over.max_regression, over.total, over.min_share) == (0.01, 0.02, 0.03)
    assert limits(max_regression="4%").total is None


def test_a_metric_of_the_command_line_takes_the_place_of_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('metrics = {"a" = "+1%", "b" = "+2%"}\n')
    found = limits(file, metrics=("a=+50%", "a=-3%")).metrics
    assert [str(one) for one in found] == ["a +50 %", "a -3 %", "b +2 %"]


def test_two_groups_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('[[group]]\nname = "g"\nbaseline = "a"\n[[group]]\nname = "g"\nbaseline = "b"\n')
    with pytest.raises(BadArgument, match="several groups 'g'"):
        limits(file)


def test_a_share_of_the_time_is_at_most_all_of_it() -> None:
    assert limits(min_share="100%").min_share == 1
    with pytest.raises(BadArgument, match="not a share of the time"):
        limits(min_share="200%")


def test_recorded_runs_of_one_build_pass_and_one_kernel_five_percent_slower_fails() -> None:
    nothing, slowed = of_recordings(factors=[1.05], count=3)
    assert (nothing, slowed) == ({"pass": 6}, {"fail": 72})


def test_below_the_noise_floor_nothing_is_shown_green() -> None:
    assert simulated(Noise(launches=20, spread=0.002, kernels=3), 1.0, 2, limit=0.01) == {"inconclusive": 2}


def test_one_program_in_twenty_fails_without_change_and_five_percent_are_found() -> None:
    noise = Noise(launches=20, spread=0.005, kernels=9)
    assert simulated(noise, 1.0, 8)["fail"] <= 1, "at most 5 % of programs"
    assert simulated(noise, 1.05, 8)["fail"] >= 7


def test_noise_wider_than_the_limit_is_never_passed_in_silence() -> None:
    found = simulated(Noise(launches=5, spread=0.03, kernels=9), 1.05, 4)
    assert found["pass"] <= 1 and found["inconclusive"] + found["fail"] >= 3
