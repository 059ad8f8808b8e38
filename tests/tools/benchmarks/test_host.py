"""The host's micro-benchmarks: kernels that are right, figures that hold together, and wrong results noticed."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
from rooflens.analysis.problems import NotFound
from rooflens.tools.benchmarks import host, host_bench, host_caches, host_kernels
from rooflens.tools.benchmarks.host_caches import Cache
from rooflens.tools.benchmarks.host_kernels import Kernels
from rooflens.tools.benchmarks.host_team import Team
from rooflens.tools.benchmarks.judge import Outcome


def silent(name: str, number: int, total: int, outcome: Outcome | None) -> None:
    """No progress wanted."""


def functional(kernels: Kernels) -> dict[str, Outcome]:
    """Every kernel checked at its smallest size."""
    with Team(host_caches.cpus()) as team:
        bench = host_bench.Bench(team, kernels, "functional", 1)
        return {o.ceiling: o for name in host.ceilings() for o in bench.measured(name)}


def test_every_kernel_is_right_and_nothing_is_timed() -> None:
    told: list[tuple[str, int, int, bool]] = []
    found = host.run(
        None, "functional", progress=lambda n, i, t, o: told.append((n, i, t, o is not None)), cancelled=lambda: False
    )
    assert {o.ceiling for o in found} == set(host.ceilings())
    supported = [o for o in found if o.status != "not_supported"]
    assert all((o.status, o.check, o.value, o.n) == ("ok", "ok", None, 0) for o in supported)
    assert told[-1] == (host.ceilings()[-1], len(host.ceilings()), len(host.ceilings()), True)


def test_without_numba_numpy_measures_all_but_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_kernels.importlib.util, "find_spec", lambda name: None)
    found = functional(host_kernels.load())
    assert found["host.sweep.f64"].status == "not_supported" and "pip install" in found["host.sweep.f64"].reason
    assert all(o.status == "ok" and o.check == "ok" for n, o in found.items() if n != "host.sweep.f64")
    assert "NumPy" in found["host.dram.triad"].method and "BLAS" in found["host.fma.f32"].kernel


@pytest.mark.parametrize(
    ("kernel", "wrong", "caught"),
    [
        ("copy", lambda to, of, n: None, "host.dram.copy"),
        ("copy", lambda to, of, n: to.__setitem__(slice(0, -1), of[:-1]), "host.l1d.copy"),
        ("triad", lambda to, a, b, s, n: to.__setitem__(slice(None), a + b), "host.dram.triad"),
        ("read", lambda words, n: host_kernels.folded(words[:-8], n), "host.dram.read"),
        ("fma", lambda values, x, y, n: values.__setitem__(slice(None), values * x + y), "host.fma.f64"),
    ],
)
def test_a_kernel_that_does_something_else_fails_its_check(kernel: str, wrong: Any, caught: str) -> None:
    broken = dataclasses.replace(host_kernels.load(), **{kernel: wrong})
    found = functional(broken)
    assert found[caught].status == "failed" and found[caught].check not in ("", "ok") and found[caught].value is None
    assert sum(o.status == "failed" for o in found.values()) <= 4, "and no other kernel"


def test_a_quick_measurement_holds_together() -> None:
    wanted = ["host.l1d.read", "host.fma.f64"]
    l1, fma = sorted(host.run(wanted, "quick", progress=silent, cancelled=lambda: False), key=lambda o: -len(o.ceiling))
    for outcome in (l1, fma):
        assert outcome.status in ("ok", "suspect") and outcome.n >= 3 and outcome.check == "ok"
        assert outcome.p05 and outcome.median and outcome.p95 and outcome.p05 <= outcome.median <= outcome.p95
        assert outcome.value == outcome.median and outcome.theoretical is None
        # Between a slow core under emulation and more than any machine has.
        assert 0.05 < outcome.value < 1e6
    assert (l1.unit, fma.unit) == ("GB/s", "GFLOP/s") and "threads" in l1.method


def test_cancelling_stops_before_the_next_ceiling() -> None:
    stop: list[str] = []
    found = host.run(
        None, "functional", progress=lambda n, i, t, o: stop.append(n) if o else None, cancelled=lambda: len(stop) >= 2
    )
    assert [o.ceiling for o in found] == list(host.ceilings()[:2])


def test_ceilings_are_chosen_by_name_or_group_and_unknown_ones_refused() -> None:
    assert host.chosen(["host.dram"]) == ("host.dram.read", "host.dram.copy", "host.dram.triad")
    assert host.chosen(["host"]) == host.chosen(None) == host.ceilings()
    with pytest.raises(NotFound, match=r"host\.dram\.copy"):
        host.chosen(["host.dram.cop"])


def test_the_identity_of_the_machine_tells_nothing_of_it() -> None:
    known = Path("/etc/machine-id").read_text().strip() if Path("/etc/machine-id").is_file() else "no such file"
    assert host.identity() == host.identity() and known not in host.identity() and len(host.identity()) == 21


def test_caches_are_counted_once_however_many_threads_share_them(tmp_path: Path) -> None:
    for cpu in range(4):
        for index, (level, kind, size, shared) in enumerate(
            [
                (1, "Data", "32K", cpu),
                (1, "Instruction", "64K", cpu),
                (2, "Unified", "1M", cpu // 2),
                (3, "Unified", "8M", 0),
            ]
        ):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                (folder / name).write_text(f"{text}\n")
    kib = 1 << 10
    assert host_caches.caches([0, 1, 2, 3], tmp_path) == [
        Cache("l1d", 32 * kib, 128 * kib), Cache("l2", 512 * kib, 2048 * kib), Cache("l3", 2048 * kib, 8192 * kib)
    ]  # fmt: skip
    assert host_caches.caches([0], tmp_path)[2] == Cache("l3", 8192 * kib, 8192 * kib)
    assert host_caches.caches([0], tmp_path / "nothing") == []


def test_arrays_that_a_cache_could_hold_make_a_rate_of_memory_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        host_bench, "caches", lambda cpus: [Cache("l1d", 1 << 15, 1 << 16), Cache("l2", 1 << 40, 1 << 40)]
    )
    monkeypatch.setitem(
        host_bench._EFFORTS, "quick", dataclasses.replace(host_bench._EFFORTS["quick"], most_bytes=1 << 26)
    )
    with Team(host_caches.cpus()) as team:
        (found,) = host_bench.Bench(team, host_kernels.load(), "quick", 1).measured("host.dram.read")
    assert found.status == "suspect" and ("last-level cache" in found.reason or "differ widely" in found.reason)


def test_a_slow_thread_slows_down_itself_alone() -> None:
    naps = (0.004, 0.016)
    cpu = host_caches.cpus()[0]
    with Team([cpu, cpu]) as team:
        rate = team.calls_per_s(lambda rank: time.sleep(naps[rank]), 0.2)
        together = 2 / team.seconds(lambda rank: time.sleep(naps[rank]))
    # At most what both reach undisturbed, and more than twice the slower one, which is what waiting for it would give.
    assert 2 / naps[1] < rate <= sum(1 / nap for nap in naps)
    assert together <= 2 / naps[1]
