"""run_peak_benchmarks: measured once and then known, for the very device, with what failed told and never stored."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.base.problems import NotFound
from rooflens.analysis.store import measured_ceilings as peaks
from rooflens.analysis.store.store import Store
from rooflens.tests.support.waiting import ended
from rooflens.tools import run_peak_benchmarks as peak_run
from rooflens.tools.cancel_run import cancel_run
from rooflens.tools.device.benchmarks import gpu as gpu_benchmarks
from rooflens.tools.device.benchmarks import outcomes as peak_tables
from rooflens.tools.device.benchmarks.outcomes import CeilingOutcome
from rooflens.tools.device.benchmarks.runtime import OpenGpu
from rooflens.tools.device.machine.model import Device
from rooflens.tools.device.machine.survey import Machine
from rooflens.tools.get_run import RunResult, get_run
from rooflens.tools.query_counters import query_counters
from rooflens.tools.run_peak_benchmarks import Target, choose, fresh, run_peak_benchmarks, stored_results
from rooflens.tools.running import start as launch
from rooflens.tools.running.worker import CallProgress

H200 = Device(
    vendor="nvidia", index=0, name="NVIDIA H200", arch="sm_90", supported=True, compute_units=132, driver="580.95",
    uuid="GPU-0a0a0a0a-1111-2222-3333-444444444444", partition="MIG disabled",
)  # fmt: skip
CPU = Device(vendor="cpu", index=0, name="A processor", arch="x86_64", compute_units=2)
NODE = Machine([H200, H200.model_copy(update={"index": 1, "uuid": "GPU-0b"}), CPU], [], {}, [])
Bench = Callable[..., RunResult]


@pytest.fixture
def bench(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """``bench(...)`` runs the host's benchmarks under a real supervisor."""
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))

    def run(**more: Any) -> RunResult:
        found = run_peak_benchmarks(store, **{"device": "cpu", "mode": "quick", **more})
        return found if "wait_s" in more else ended(store, found)

    yield run
    launch.stop_all()


def rows_of(result: RunResult) -> dict[str, dict[str, Any]]:
    assert result.ceilings
    return {row[0]: dict(zip(result.ceilings.columns, row, strict=True)) for row in result.ceilings.rows}


def test_what_was_measured_once_is_known_until_asked_again(store: Store, bench: Bench) -> None:
    first = bench(ceilings=["host.dram.read"])
    assert (first.state, first.problem) == ("done", None)
    measured = rows_of(first)["host.dram.read"]
    assert measured["value"] > 0 and measured["p05"] <= measured["median"] <= measured["p95"] and measured["n"] >= 3
    known = bench(ceilings=["host.dram.read"])
    assert known.run_id == first.run_id and known.progress == "answered from stored results"
    assert rows_of(known) == rows_of(first) and "again" in known.notes[0]
    anew = bench(ceilings=["host.dram.read"], again=True, wait_s=0)
    assert anew.run_id != first.run_id and cancel_run(store, anew.run_id).state == "cancelled"
    more = bench(ceilings=["host.dram.read", "host.dram.copy"])
    assert set(rows_of(more)) == {"host.dram.copy"} and "already known" in " ".join(more.notes)
    found = query_counters(store, "SELECT count(*), any_value(gpu) FROM ceilings WHERE kind = 'empirical'")
    assert found.table.rows == [[2, "cpu"]] and "no workloads" not in " ".join(found.notes)


def test_mode_functional_checks_every_kernel_and_stores_nothing(store: Store, bench: Bench) -> None:
    done = bench(mode="functional")
    assert done.state == "done" and {r["status"] for r in rows_of(done).values()} <= {"ok", "not_supported"}
    assert all(r["value"] is None for r in rows_of(done).values())
    assert "gave the right result" in " ".join(done.notes) and peaks.files(store) == [] and done.next == []
    assert get_run(store, done.run_id).ceilings == done.ceilings


def test_a_cancelled_run_keeps_what_it_told_and_stores_nothing(store: Store, bench: Bench) -> None:
    begun = bench(mode="full", wait_s=0)
    assert begun.state in ("queued", "running") and begun.next[0].tool == "get_run"
    ended = cancel_run(store, begun.run_id)
    assert ended.state == "cancelled" and ended.ceilings is not None and peaks.files(store) == []


def test_without_a_gpu_the_host_is_measured_and_the_answer_says_so() -> None:
    target, notes = choose(Machine([CPU], [], {}, []), None, ["host.dram"])
    assert target.called == "cpu" and target.about["gpu"] == "cpu" and "host" in notes[0]
    assert target.names == ("host.dram.read", "host.dram.copy", "host.dram.triad")
    with pytest.raises(NotFound, match="no GPU"):
        choose(Machine([CPU], [], {}, []), 0, None)


def test_a_gpu_is_named_by_index_or_uuid_and_has_its_own_lock() -> None:
    target, notes = choose(NODE, None, None)
    assert target.called == H200.uuid and "GPU 0 of 2" in notes[0]
    assert target.lock == {f"nvidia-{H200.uuid}": "GPU 0 (nvidia sm_90)"}
    assert choose(NODE, 1, None)[0].called == "GPU-0b" == choose(NODE, "GPU-0b", None)[0].about["device_uuid"]
    assert {"hbm.bw", "hbm.copy", "valu.f32", "matrix.f16", "sweep.f32", "launch.latency"} <= set(target.names)
    with pytest.raises(NotFound, match=H200.uuid):
        choose(NODE, 7, None)
    with pytest.raises(NotFound, match="valu.f32"):
        choose(NODE, 0, ["valu.f23"])


def test_a_gpu_that_only_its_runtime_shows_is_named_by_vendor_and_number() -> None:
    target, _ = choose(Machine([CPU], [], {}, []), "amd:1", ["hbm"])
    assert (target.called, target.seen, target.names) == ("amd:1", False, ("hbm",)) and target.about["gpu"] is None
    assert choose(NODE, "nvidia:1", None)[0].called == "GPU-0b" and choose(NODE, "nvidia", None)[0].called == H200.uuid


def test_the_ways_to_use_memory_are_measured_together() -> None:
    target, _ = choose(NODE, 0, ["hbm.copy", "valu.f32"])
    assert target.names == ("hbm.copy", "hbm.triad", "hbm.read", "hbm.write", "valu.f32", "hbm.bw")


def kept(target: Target, ceiling: str, **changes: Any) -> dict[str, Any]:
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        **target.about, "ceiling": ceiling, "unit": "GFLOP/s", "status": "ok", "value": 9.0, "mode": "full",
        "measured_at": at, "kernel_version": target.kernel_version, "run_id": "run-x", **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "mode", "holds"),
    [
        ({}, "full", True),
        ({}, "quick", True),
        ({"mode": "quick"}, "quick", True),
        ({"mode": "quick"}, "full", False),
        ({"driver": "570.1"}, "full", False),
        ({"partition": "MIG enabled"}, "full", False),
        ({"device_uuid": "GPU-0b"}, "full", False),
        ({"kernel_version": "older"}, "full", False),
        ({"measured_at": "2026-01-01T00:00:00Z"}, "full", False),
        ({"status": "not_supported", "value": None}, "full", True),
    ],
)
def test_stored_results_answer_only_for_the_same_device_driver_and_kernels(
    store: Store, changes: dict[str, Any], mode: str, holds: bool
) -> None:
    target, _ = choose(NODE, 0, ["valu.f32"])
    peaks.save(store, [kept(target, "valu.f32", **changes)])
    found = fresh(store, target, mode)
    assert peak_tables.missing(found, target.names) == ([] if holds else ["valu.f32"])


def test_an_answer_from_the_store_tells_when_and_shows_sweeps_in_words(store: Store) -> None:
    target, notes = choose(NODE, 0, ["valu.f32", "sweep.f32"])
    points = [kept(target, "sweep.f32", intensity=x, value=v) for x, v in ((0.25, 1100.0), (64.0, 60000.0))]
    peaks.save(store, [kept(target, "valu.f32", value=65123.456789), *points])
    answered = stored_results(fresh(store, target, "full"), target, "full", notes)
    assert list(rows_of(answered)) == ["valu.f32"] and rows_of(answered)["valu.f32"]["value"] == 65123.0
    assert any("sweep.f32: 2 points from 0.25 FLOP/B (1100 GFLOP/s) to 64" in note for note in answered.notes)
    assert "NVIDIA H200" in answered.notes[0]


def outcome(ceiling: str, status: Any = "ok", value: float | None = 9.0, **more: Any) -> CeilingOutcome:
    return CeilingOutcome(
        ceiling, "GFLOP/s", status, value=value, median=value, n=20 if value else 0, check="ok", **more
    )


def test_a_run_on_a_gpu_stores_what_is_right_and_tells_what_failed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(device: str, wanted: list[str], mode: str, *, progress: Any, cancelled: Any) -> list[CeilingOutcome]:
        assert (device, wanted, mode, cancelled()) == ("GPU-0b", ["valu.f32", "valu.f64"], "full", False)
        found = [
            outcome("valu.f32", theoretical=10.0, pct_of_theoretical=90.0),
            outcome("valu.f64", "failed", None, reason="wrong"),
            outcome("valu.i32", "impossible", 99.0),
            outcome("sweep.f32.0.25", intensity=0.25),
            outcome("sweep.f32.4", intensity=4.0),
        ]
        for number, one in enumerate(found, 1):
            progress(one.ceiling, number, len(found), one)
        return found

    opened = OpenGpu(
        "nvidia", 0, "NVIDIA H200", "sm_90", "GPU-0b", 132, 32, 1, 1, compiler="NVRTC 13.0", runtime="CUDA 13.0"
    )
    monkeypatch.setattr(gpu_benchmarks, "measure_ceilings", run)
    monkeypatch.setattr(gpu_benchmarks, "describe", lambda device: opened)
    target, _ = choose(NODE, 1, ["valu.f32"])
    asked: dict[str, Any] = {
        "run_id": "run-y", "about": target.about, "device": "GPU-0b", "wanted": ["valu.f32", "valu.f64"]
    }  # fmt: skip
    told = peak_run.measure(store, CallProgress(tmp_path), mode="full", **asked)
    assert [r["status"] for r in told["ceilings"]] == ["ok", "failed", "impossible", "ok", "ok"]
    unseen, _ = choose(Machine([CPU], [], {}, []), "nvidia:1", None)
    peak_run.measure(store, CallProgress(tmp_path), mode="full", **{**asked, "about": unseen.about})
    with closing(connect()) as con:
        found = {(r["ceiling"], r["intensity"]): r for r in peaks.latest(con, store)}
    assert set(found) == {("valu.f32", None), ("valu.i32", None), ("sweep.f32", 0.25), ("sweep.f32", 4.0)}
    one = found["valu.f32", None]
    assert (one["compiler"], one["run_id"]) == ("NVRTC 13.0, CUDA 13.0", "run-y")
    assert (one["device_uuid"], one["gpu"], one["grid"], one["checked"]) == ("GPU-0b", "sm_90", None, "ok")
    assert {path.parent.name for path in peaks.files(store)} == {"nvidia-GPU-0b-MIG_disabled", "nvidia-GPU-0b"}
    assert any("Above theory" in note and "valu.i32" in note for note in peak_tables.notes(told["ceilings"], "full"))
