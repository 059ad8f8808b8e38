"""Traces as other people record them: layers that look like steps, waiting without a cause, lost events."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import Timeline, TimelineRequest, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests.timelines import Made, publish
from rooflens.tools.compute_timeline import compute_timeline

US, MS = 1_000, 1_000_000


def analysed(folder: Path, made: Made) -> Timeline:
    store = Store(folder)
    publish(store, made)
    return timeline(Workload.open(store, "made"), TimelineRequest())


def layers(made: Made, start: int, count: int) -> int:
    """Three kernels for each layer, back to back; return the end."""
    at = start
    for _ in range(count):
        for name in ("norm", "gemm", "attention"):
            made.launch(name, (at - 2 * MS, at - 2 * MS + US), (at, at + 90 * US))
            at += 90 * US
    return at


def test_layers_of_one_pass_are_not_steps_of_a_trace_that_is_mostly_idle(tmp_path: Path) -> None:
    """The device works for 9.5 of 470 ms: a verdict on the layers alone would say that it is busy."""
    made = Made()
    made.host("hipGetDevice", 0, US)
    layers(made, 230 * MS, 35)
    made.launch("sampling", (460 * MS, 460 * MS + US), (469 * MS, 470 * MS))
    found = analysed(tmp_path, made)
    certain = found.verdict.height == "gpu" and found.verdict.confidence > 0.5
    assert not certain and found.idle_pct > 90
    assert "the whole trace" in found.findings[0].claim


def test_ranges_named_step_come_before_a_kernel_that_repeats_in_them(tmp_path: Path) -> None:
    made = Made()
    for step in range(6):
        begin = 10 * MS + step * 10 * MS
        made.range(f"step {step}", begin - MS, begin + 9 * MS)
        for gemm in range(3):
            at = begin + gemm * 3 * MS
            made.launch("gemm", (at - 500 * US, at - 499 * US), (at, at + 2 * MS))
    found = analysed(tmp_path, made)
    assert found.steps is not None and found.steps.by == "range" and len(found.steps.durations) == 5
    assert found.steps.durations[0] == pytest.approx(10 * MS)
    assert "steady steps" in found.findings[0].claim


def test_waiting_for_something_unknown_is_not_communication(tmp_path: Path) -> None:
    """Queued work waits on the device although no communication kernel runs or ends there."""
    made = Made()
    made.launch("ncclDevKernel_AllReduce_Sum_f32", (MS, MS + US), (2 * MS, 3 * MS))
    for number in range(20):
        at = 10 * MS + number * 10 * MS
        # All are launched at once, but each starts 8 ms after the one before it ended.
        made.launch(f"part_{number}", (4 * MS + number * US, 4 * MS + number * US + 500), (at, at + 2 * MS))
    found = analysed(tmp_path, made)
    shares = {finding.height: finding.share_pct for finding in found.findings}
    assert shares.get("communication", 0.0) < 5
    assert found.verdict.height == "waiting" and found.verdict.confidence <= 0.5


@pytest.mark.parametrize(
    "name",
    [
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)",
        "void deep_ep::internode_ll::combine<3, 7168, 9>(void*)",
        "nvshmemi_transfer_rma_kernel",
        "rocshmem_putmem_kernel",
        "EpDispatchIntraNodeKernel_bf16",
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    ],
)
def test_kernels_of_communication_libraries_are_communication(name: str, tmp_path: Path) -> None:
    made = Made()
    made.launch("gemm", (0, US), (MS, 2 * MS))
    made.launch(name, (10 * US, 11 * US), (2 * MS, 6 * MS))
    assert analysed(tmp_path, made).total.communication == 4 * MS


def test_launches_without_execution_make_a_trace_incomplete(tmp_path: Path) -> None:
    """64 of 512 launches at the end left nothing on the device: the buffer was full."""
    made = Made()
    for number in range(512):
        at = number * 100 * US
        if number < 448:
            made.launch("k", (at, at + US), (at + 20 * US, at + 60 * US))
        else:
            made.host("hipLaunchKernel", at, at + US)
    found = analysed(tmp_path, made)
    (doubt,) = [d for d in found.doubts if d.code == "lost_launches"]
    assert doubt.text.startswith("64 of 512 launches (12.5 %)") and "behind all others" in doubt.text
    assert {figure.status for figure in found.figures} <= {"suspect", "not_collected", "undefined"}
    answer = compute_timeline(Store(tmp_path), "made")
    assert any("64 of 512 launches" in note for note in answer.notes)


def test_a_complete_trace_has_no_such_doubt(tmp_path: Path) -> None:
    made = Made()
    for number in range(200):
        at = number * 100 * US
        made.launch("k", (at, at + US), (at + 20 * US, at + 60 * US))
    assert [d for d in analysed(tmp_path, made).doubts if d.of == "events"] == []


def test_a_device_that_falls_silent_is_told(tmp_path: Path) -> None:
    made = Made()
    for number in range(100):
        at = number * MS
        for device in range(4):
            if device < 3 or number < 20:
                made.launch("k", (at, at + US), (at + 20 * US, at + 900 * US), device_id=device)
    (doubt,) = [d for d in analysed(tmp_path, made).doubts if d.code == "silent_devices"]
    assert "GPU 3 from" in doubt.text
