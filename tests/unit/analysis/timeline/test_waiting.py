"""Queued work that starts late: communication only where a communication kernel runs, and nodes of graphs apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.tests.support.timelines import Made
from rooflens.tests.unit.analysis.timeline.test_made import MS, US, shares, told


def late_work(other: str | None) -> Made:
    """Rank 0 has work queued that starts 8 ms late; rank 1 runs ``other`` meanwhile, or nothing."""
    made = Made()
    for i in range(20):
        t = i * 10 * MS
        for rank in (0, 1):
            own = {"rank": rank, "pid": 100 + rank, "device_id": 0}
            made.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (t, t + 5 * US), (t + 10 * US, t + 100 * US), **own)
        own = {"rank": 0, "pid": 100, "device_id": 0}
        made.launch("gemm", (t + 20 * US, t + 25 * US), (t + 8 * MS, t + 9900 * US), **own)
        if other:
            own = {"rank": 1, "pid": 101, "device_id": 0}
            made.launch(other, (t + 20 * US, t + 25 * US), (t + 101 * US, t + 8 * MS), **own)
    return made


@pytest.mark.parametrize(
    ("other", "cause"), [("ncclDevKernel_SendRecv", "communication"), ("gemm", "waiting"), (None, "waiting")]
)
def test_a_wait_is_communication_only_if_communication_ends_with_it(
    tmp_path: Path, other: str | None, cause: str
) -> None:
    analysed = told(tmp_path, late_work(other), steady=False)
    waits = {idle.cause for idle, _ in analysed.causes} & {"communication", "waiting"}
    assert cause in waits and ("communication" in waits) == (cause == "communication")


def test_unexplained_waits_are_a_verdict_of_their_own_with_little_confidence(tmp_path: Path) -> None:
    """A kernel of NCCL at the start makes no communication of 60 ms that a graph waits."""
    made = Made()
    made.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (0, 5 * US), (10 * US, 900 * US))
    for i in range(6):
        t = i * 64 * MS
        call = made.host("cudaGraphLaunch", t + 500 * US, t + 520 * US)
        for node in range(4):
            start = t + 60 * MS + node * 500 * US
            made.add("kernel", "gemm", start, start + 490 * US, device_id=0, stream=7, correlation=call)
    analysed = told(tmp_path, made, steady=False)
    assert analysed.verdict.height == "waiting" and analysed.verdict.confidence <= 0.5
    assert "although work is queued" in analysed.findings[0].claim
    assert {f.height for f in analysed.findings if f.share_pct > 5} == {"waiting"}


def test_gaps_between_the_nodes_of_a_graph_are_idle_time_and_no_work(tmp_path: Path) -> None:
    """Nodes of 3 us with 1.1 us between them: 72.8 % execution."""
    made = Made()
    for i in range(10):
        t = i * 500 * US
        call = made.host("hipGraphLaunch", t, t + 5 * US)
        for node in range(120):
            start = t + 6 * US + node * 4_100
            made.add("kernel", "gemm", start, start + 3 * US, device_id=0, stream=7, correlation=call)
    analysed = told(tmp_path, made, steady=False)
    by_cause, by_height = shares(analysed), {f.height: f for f in analysed.findings}
    assert by_cause["graph_nodes"] == pytest.approx(100 * 119 * 1.1 / 500, abs=0.3)
    assert "queued" not in by_cause
    assert by_height["gpu"].share_pct == pytest.approx(100 * 120 * 3 / 500, abs=0.3)
    assert by_height["latency"].share_pct == pytest.approx(by_cause["graph_nodes"])
    assert by_height["gpu"].share_pct + analysed.idle_pct == pytest.approx(100)


COMMUNICATING = [
    "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)",
    "void deep_ep::internode_ll::combine<true, 7168, 9>(void*, void*)",
    "void dpsk::ep::internode::notify_dispatch<false, 4>(int const*, int*)",
    "nvshmemi_proxy_quiet_kernel",
    "rocshmem_barrier_all_kernel",
    "void mori::moe::EpCombineInterNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs<hip_bfloat16>)",
    "void c10d::symmetric_memory::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
    "put_signal_kernel(unsigned int**, unsigned long, int, int, int)",
    "void vllm::cross_device_reduce_2stage<__hip_bfloat16, 8>(vllm::RankData*)",
    "kuserbuffers_pushsend(int*, int*, int4*, int4*, int)",
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
]
COMPUTING = [
    "void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*, int*)",
    "void cdpsk::ep::CUB_200500::DeviceScanKernel<int>(int)",
    "dispatch_gemm_kernel",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)",
    "combine_experts",
]


def one_after_another(names: list[str]) -> Made:
    """Kernels of 1 ms each, with nothing beside them."""
    made = Made()
    for number, name in enumerate(names):
        at = number * MS
        made.launch(name, (at, at + 5 * US), (at + 10 * US, at + MS + 10 * US))
    return made


def test_kernels_of_communication_libraries_are_known_by_their_names(tmp_path: Path) -> None:
    talking = told(tmp_path / "talking", one_after_another(COMMUNICATING), steady=False).total
    assert (talking.exposed_communication, talking.computing) == (len(COMMUNICATING) * MS, 0)
    working = told(tmp_path / "working", one_after_another(COMPUTING), steady=False).total
    assert (working.exposed_communication, working.computing) == (0, len(COMPUTING) * MS)
