"""Phases: what the names of ranges state, with the device work that was requested in them, by group of operations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.analysis.tables import schema
from rooflens.analysis.tables.derived import table_rows
from rooflens.analysis.timeline.phases import OPERATIONS, phases
from rooflens.analysis.timeline.timeline import timeline
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.figures import sql_rows
from rooflens.tests.support.timelines import Made, chrome, publish, union
from rooflens.tools.compute_timeline import compute_timeline

US, MS = 1_000, 1_000_000


def _operations(phase: dict[str, Any]) -> dict[str, int]:
    return {group: phase[f"{group}_ns"] for group in OPERATIONS if phase[f"{group}_ns"] is not None}


def analysed(folder: Path, made: Made) -> list[dict[str, Any]]:
    store = Store(folder)
    with Workload.open(store, publish(store, made).id) as workload:
        assert all(list(row) == list(schema()["phases"].columns) for row in table_rows(workload, "phases")), (
            "as documented"
        )
        return phases(prepare(workload))


def server(*steps: tuple[str, int, str]) -> Made:
    """Steps of a server: the name, the start on the host in ms, and a kernel that runs from 1 to 4 ms later."""
    made = Made()
    for name, at, kernel in steps:
        made.range(name, at * MS, at * MS + 500 * US)
        made.launch(kernel, (at * MS + US, at * MS + 5 * US), ((at + 1) * MS, (at + 4) * MS))
    return made


STATED = {
    "step[DECODE bs=32]": ("decode", 32, None), "step[EXTEND bs=2 toks=800]": ("prefill", 2, 800),
    "step[MIXED bs=4 toks=70]": ("mixed", 4, 70), "execute_context_0(0)_generation_50(50)": ("decode", 50, 50),
    "execute_context_3(100)_generation_2(2)": ("mixed", 5, 102),
    "execute_context_3(100)_generation_0(0)": ("prefill", 3, 100),
    "execute_129_context_3(sq128sk256sqsq1sqsk1)_generation_2(sq1sk300sqsq1sqsk1)": ("mixed", 5, 129),
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)": ("decode", 32, 32),
    "gpu_model_runner: forward": ("forward", None, None), "gpu_model_runner: sample": ("sampling", None, None),
    "DistributedDataParallel.forward": ("forward", None, None), "## backward ##": ("backward", None, None),
    "Optimizer.step#Adam.step": ("optimizer", None, None), "train_step": ("training", None, None),
    "validation": ("evaluation", None, None), "epoch 3": ("epoch", None, None), "prefill": ("prefill", None, None),
}  # fmt: skip
"""Names of ranges of servers and frameworks, and the phase, the requests and the tokens that they state."""
ALIKE = [
    "## decoder fp8 None ##", "execute_context_0(0)_generation_0(0)", "trainer", "retrieval", "evaluator",
    "step[IDLE bs=0]", "Optimizer.zero_grad#SGD.zero_grad", "forward_hook", "resample",
]  # fmt: skip
"""Names that only look like those of phases."""


def test_names_of_servers_and_frameworks_state_phase_and_batch(tmp_path: Path) -> None:
    """Names that only look like those of phases state nothing."""
    names = [*STATED, *ALIKE]
    found = analysed(tmp_path, server(*((name, 10 * number, "gemm") for number, name in enumerate(names))))
    assert [(phase["phase"], phase["requests"], phase["tokens"]) for phase in found] == list(STATED.values())
    for number, phase in enumerate(found):
        start = (10 * number + 1) * MS
        assert (phase["device_start_ns"], phase["device_end_ns"], phase["busy_ns"]) == (start, start + 3 * MS, 3 * MS)


def test_the_time_between_tokens_is_from_end_to_end_on_the_device(tmp_path: Path) -> None:
    made = server(("step[DECODE bs=2]", 0, "paged_attention_v2"), ("step[DECODE bs=4]", 10, "paged_attention_v2"),
                  ("step[EXTEND bs=1 toks=99]", 20, "flash_fwd_kernel"), ("step[DECODE bs=4]", 40, "pa"))  # fmt: skip
    store = Store(tmp_path)
    publish(store, made)
    sql = "SELECT phase, requests, interval_ns / 1e6, attention_ns / 1e6 FROM phases ORDER BY start_ns"
    assert sql_rows(store, sql) == [
        ["decode", 2, None, 3.0], ["decode", 4, 10.0, 3.0], ["prefill", 1, None, 3.0], ["decode", 4, 30.0, 0.0],
    ]  # fmt: skip
    table = compute_timeline(store, steady=False).phases
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["phase"], row["count"], row["requests"], row["interval_ms"]) for row in rows] == [
        ("decode", 3, 4, 20.0),
        ("prefill", 1, 1, None),
    ]
    assert rows[0]["operations"] == "attention 66.7 %, other 33.3 %" and rows[1]["operations"] == "attention 100 %"


@pytest.mark.parametrize("form", [
    "execute_context_{c}({p})_generation_3(3)",
    "execute_{t}_context_{c}(sq{p}sk{p}sqsq9sqsk9)_generation_3(sq3sk90sqsq3sqsk90)",
])  # fmt: skip
def test_steps_of_a_server_are_certain_although_they_differ_in_length(tmp_path: Path, form: str) -> None:
    """Every fourth step computes a prompt and takes three times as long."""
    made, at = Made(), 0
    for number in range(16):
        prompt = number % 4 == 3
        length = (30 if prompt else 10) * MS
        name = form.format(c=int(prompt), p=512 if prompt else 0, t=515 if prompt else 3)
        made.range(name, at, at + length - MS)
        made.launch("gemm", (at + US, at + 5 * US), (at + 10 * US, at + length - 2 * MS))
        at += length
    store = Store(tmp_path)
    with Workload.open(store, publish(store, made).id) as workload:
        told = timeline(workload)
    assert told.steps is not None and (told.steps.by, told.steps.count, told.selected) == ("range", 15, "steady")
    counts = Counter((each["phase"], each["requests"], each["tokens"]) for each in told.phases)
    assert counts == {("decode", 3, 3): 12, ("mixed", 4, 515): 3}, "the last one is after the steps"


def test_a_phase_within_the_same_phase_is_one_and_states_the_batch(tmp_path: Path) -> None:
    made = server(("decode", 0, "gemm"))
    made.range("step[DECODE bs=7]", US, 400 * US, depth=1)
    made.range("forward", US, 300 * US, depth=2)
    assert [(each["phase"], each["requests"], each["busy_ns"]) for each in analysed(tmp_path, made)] == [
        ("decode", 7, 3 * MS),
        ("forward", None, 3 * MS),
    ]


def test_operations_are_grouped_by_their_kernels_and_overlap_counts_once_in_busy(tmp_path: Path) -> None:
    kernels = {
        "attention": (
            "flash_fwd_kernel", "void paged_attention_ll4mi_QKV", "attn_fwd", "BatchDecodeWithPagedKVCacheKernel",
        ),
        "matrix": ("Cijk_Ailk_Bljk", "sm90_xmma_gemm_bf16", "nvjet_hsh_128x8", "void cutlass::Kernel2<x>",
                   "fused_moe_kernel"),
        "convolution": ("igemm_fwd_gtcx3_nhwc", "miopenSp3AsmConv_v30"),
        "collectives": ("ncclDevKernel_AllReduce", "cross_device_reduce_1stage"),
        "normalisation": ("aiter::add_rmsnorm_quant", "vectorized_layer_norm_kernel"),
        "sampling": ("TopKTopPSamplingFromProbs", "reduce_kernel<ArgMaxOps>"),
        "cache": ("reshape_and_cache_flash_kernel", "store_kvcache<2048>", "set_mla_kv_buffer_kernel"),
        "other": ("elementwise_kernel<add>", "rotary_embedding_kernel"),
    }  # fmt: skip
    made = Made()
    made.range("step[DECODE bs=1]", 0, MS)
    for names in kernels.values():
        for name in names:
            made.launch(name, (10 * US, 11 * US), (20 * US, 30 * US))
    made.copy("d2h", (50 * US, 51 * US), (52 * US, 55 * US))
    (phase,) = analysed(tmp_path, made)
    assert _operations(phase) == {group: len(names) * 10 * US for group, names in kernels.items()} | {"copies": 3 * US}
    assert phase["busy_ns"] == 13 * US


def test_phases_of_recorded_training_steps_are_sums_by_brute_force(shared: Path, tmp_path: Path) -> None:
    path = shared / "traces" / "gpu_bound.json.gz"
    if not path.is_file():
        pytest.skip(f"needs {path.name} of ../shared/traces")
    made = chrome(path)
    calls = {e["correlation"]: e["start_ns"] for e in made.events if e["kind"] == "api" and e["correlation"]}
    device = [e for e in made.events if e["kind"] in ("kernel", "copy", "fill")]
    rows = analysed(tmp_path, made)
    assert [row["phase"] for row in rows] == ["forward", "backward", "optimizer"] * 6
    for row in rows:
        own = [e for e in device if row["start_ns"] <= calls.get(e["correlation"], -1) <= row["end_ns"]]
        assert sum(_operations(row).values()) == sum(e["end_ns"] - e["start_ns"] for e in own)
        assert row["busy_ns"] == union(
            [(e["start_ns"], e["end_ns"]) for e in own], row["start_ns"], max(e["end_ns"] for e in own)
        )
