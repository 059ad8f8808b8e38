"""The processors' micro-benchmarks: kernels that are right, figures that hold together, and wrong results noticed."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.tools.device.benchmarks import cpu
from rooflens.tools.device.benchmarks.outcomes import CeilingOutcome


def silent(name: str, number: int, total: int, outcome: CeilingOutcome | None) -> None:
    """No progress wanted."""


def functional() -> dict[str, CeilingOutcome]:
    """Every kernel checked at its smallest size."""
    bench = cpu.CpuBench("functional")
    return {name: bench.outcome(name) for name in cpu.CEILINGS}


def test_every_kernel_is_right_and_nothing_is_timed() -> None:
    told: list[tuple[str, int, int, bool]] = []
    outcomes = cpu.measure_ceilings(
        None, "functional", progress=lambda n, i, t, o: told.append((n, i, t, o is not None)), cancelled=lambda: False
    )
    assert tuple(o.ceiling for o in outcomes) == cpu.CEILINGS
    assert all((o.status, o.check, o.value, o.n) == ("ok", "ok", None, 0) for o in outcomes)
    assert told[-1] == (cpu.CEILINGS[-1], len(cpu.CEILINGS), len(cpu.CEILINGS), True)


def test_without_numba_numpy_measures_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cpu._KERNELS, "triad", cpu._triad)
    outcomes = functional()
    assert all(o.status == "ok" and o.check == "ok" for o in outcomes.values())
    assert "BLAS" in outcomes["host.fma.f32"].kernel


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [
        ("copy", lambda to, of: None),
        ("copy", lambda to, of: to.__setitem__(slice(0, -1), of[:-1])),
        ("triad", lambda to, a, b: to.__setitem__(slice(None), a + b)),
        ("read", lambda words: np.bitwise_xor.reduce(words[:-8])),
    ],
)
def test_a_kernel_that_does_something_else_fails_its_check(
    kernel: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cpu._KERNELS, kernel, wrong)
    outcomes = functional()
    broken = outcomes[f"host.dram.{kernel}"]
    assert broken.status == "failed" and broken.check not in ("", "ok") and broken.value is None
    assert {o.ceiling.split(".")[1] for o in outcomes.values() if o.status == "failed"} == {"dram"}


def test_a_quick_measurement_holds_together() -> None:
    copy, fma = sorted(
        cpu.measure_ceilings(["host.dram.copy", "host.fma.f64"], "quick", progress=silent, cancelled=lambda: False),
        key=lambda o: -len(o.ceiling),
    )
    for outcome in (copy, fma):
        assert outcome.status in ("ok", "suspect") and outcome.n >= 3 and outcome.check == "ok"
        assert outcome.p05 and outcome.median and outcome.p95 and outcome.p05 <= outcome.median <= outcome.p95
        assert outcome.value == outcome.median and outcome.theoretical is None
        # Between a slow core under emulation and more than any machine has.
        assert 0.05 < outcome.value < 1e6
    assert (copy.unit, fma.unit) == ("GB/s", "GFLOP/s") and "threads" in copy.method


def test_cancelling_stops_before_the_next_ceiling() -> None:
    stop: list[str] = []
    outcomes = cpu.measure_ceilings(
        None, "functional", progress=lambda n, i, t, o: stop.append(n) if o else None, cancelled=lambda: len(stop) >= 2
    )
    assert tuple(o.ceiling for o in outcomes) == cpu.CEILINGS[:2]


def test_ceilings_are_chosen_by_name_or_group_and_unknown_ones_refused() -> None:
    assert cpu.choose_ceilings(["host.dram"]) == ("host.dram.read", "host.dram.copy", "host.dram.triad")
    assert cpu.choose_ceilings(["host"]) == cpu.choose_ceilings(None) == cpu.CEILINGS
    with pytest.raises(NotFound, match=r"host\.dram\.copy"):
        cpu.choose_ceilings(["host.dram.cop"])


def test_the_identity_of_the_machine_tells_nothing_of_it() -> None:
    known = Path("/etc/machine-id").read_text().strip() if Path("/etc/machine-id").is_file() else "no such file"
    assert cpu.identity() == cpu.identity() and known not in cpu.identity() and len(cpu.identity()) == 21


def test_the_last_caches_are_counted_once_however_many_threads_share_them(tmp_path: Path) -> None:
    for number in range(4):
        levels = [(1, "Data", "32K", number), (1, "Instruction", "64K", number), (2, "Unified", "1024K", number // 2)]
        for index, (level, kind, size, shared) in enumerate(levels):
            folder = tmp_path / f"cpu{number}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                (folder / name).write_text(f"{text}\n")
    assert cpu.last_level_bytes([0, 1, 2, 3], tmp_path) == 2 << 20
    assert cpu.last_level_bytes([0], tmp_path) == 1 << 20
    assert cpu.last_level_bytes([0], tmp_path / "nothing") == 0


def test_arrays_that_a_cache_could_hold_make_a_rate_of_memory_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "last_level_bytes", lambda used: 1 << 40)
    monkeypatch.setitem(cpu._EFFORTS, "quick", dataclasses.replace(cpu._EFFORTS["quick"], most_bytes=1 << 26))
    outcome = cpu.CpuBench("quick").outcome("host.dram.read")
    assert outcome.status == "suspect" and ("last-level cache" in outcome.reason or "differ widely" in outcome.reason)


def test_a_slow_thread_slows_down_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has a clock of its own, which its work alone moves on."""
    rounds, clocks, one = [0, 0], [0, 0], cpu.cpus()[0]
    mine = threading.local()

    def work(rank: int) -> None:
        rounds[rank] += 1
        clocks[rank] += (2_000_000, 64_000_000)[rank]

    def thread(rank: int) -> float:
        mine.rank = rank
        return cpu._rate(cpu.CpuThreadWork(lambda: work(rank), lambda: "", 1.0), 0.2)

    monkeypatch.setattr(cpu, "time", SimpleNamespace(perf_counter_ns=lambda: clocks[mine.rank]))
    assert cpu._on_all([one, one], thread) == pytest.approx([1 / 0.002, 1 / 0.064])
    assert rounds == [100, 4], "the quicker goes on meanwhile, and is not counted by the time of the slower"
